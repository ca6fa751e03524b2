"""What a server remembers of callers: for how long, how many, and what pushes none of them out."""

from __future__ import annotations

import threading
from base64 import b64encode, urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lochan.access.records import ACCESS_PARTITION, token_key
from lochan.access.tokens import new_token
from lochan.base.errors import Unauthenticated, Unavailable
from lochan.base.limits.access import ACCESS_AGE_MS_MAX, ACCESS_STALE_MS
from lochan.base.limits.credentials import REFUSED_HEADERS_MAX, REFUSED_MS
from lochan.kv.observe import ObservedStore
from lochan.testing.call_counts import CallCounts
from lochan.testing.faults import Fault, FaultKind, FaultyStore, PlannedCall
from lochan.testing.ports import SeededRandom
from tests.access.access_world import ISSUER_KEYS, Server, allow, basic, may


@pytest.fixture
def server() -> Server:
    made = Server()
    made.set_up()
    made.add_policy("write", allow("view_reference", "commit"))
    made.add_user("alice", "write")
    return made


def counted(server: Server) -> tuple[Server, CallCounts]:
    """Another server on the same store, with the calls that it makes."""
    counts = CallCounts()
    store = ObservedStore(server.store, counts, server.clock)
    return Server(store, server.clock, seed=2), counts


def test_a_revoked_token_is_refused_by_every_server_after_the_stated_time(server):
    other = server.another()
    token_id, header = server.add_token()
    assert server.accepts(header) is not None
    assert other.accepts(header) is not None
    server.directory.delete_token(token_id)
    # The server that has deleted it knows at once; another one may accept it for a while.
    assert server.accepts(header) is None
    assert other.authenticator.find_known(header) is not None
    server.advance_ms(ACCESS_STALE_MS)
    assert other.accepts(header) is not None
    server.advance_ms(1)
    assert other.authenticator.find_known(header) is None
    assert other.accepts(header) is None
    assert server.accepts(header) is None


@pytest.mark.parametrize("asked_before_ms", [0, 1, ACCESS_STALE_MS // 2, ACCESS_STALE_MS])
def test_requests_in_between_do_not_make_it_later(server, asked_before_ms):
    other = server.another()
    token_id, header = server.add_token()
    assert other.accepts(header) is not None
    server.advance_ms(asked_before_ms)
    assert other.accepts(header) is not None
    server.directory.delete_token(token_id)
    for _ in range(4):
        other.accepts(header)
        server.advance_ms(ACCESS_STALE_MS // 4)
    server.advance_ms(1)
    assert other.accepts(header) is None


def test_every_change_of_rights_counts_on_every_server_after_the_stated_time(server):
    other = server.another()
    key_id, secret = server.add_access_key()
    headers = [server.add_token()[1], basic(key_id, secret), server.log_in(key_id)]
    for header in headers:
        assert may(other.accepts(header))
    server.directory.detach("user", "alice", "write")
    for header in headers:
        assert not may(server.accepts(header))
    server.advance_ms(ACCESS_STALE_MS + 1)
    for header in headers:
        assert not may(other.accepts(header))


def test_set_up_by_one_server_counts_on_every_server_after_the_stated_time():
    server = Server()
    other = server.another()
    assert other.accepts(None) is not None
    server.set_up()
    assert server.accepts(None) is None
    assert other.accepts(None) is not None
    server.advance_ms(ACCESS_STALE_MS + 1)
    assert other.accepts(None) is None
    assert other.authenticator.is_required()


def test_a_change_that_was_never_acknowledged_counts_after_a_bounded_time(server):
    token_id, header = server.add_token()
    assert server.accepts(header) is not None
    # As if a server had ended between its change and the revision.
    server.store.delete(ACCESS_PARTITION, token_key(token_id))
    for _ in range(ACCESS_AGE_MS_MAX // 1_000):
        assert server.accepts(header) is not None
        server.advance_ms(1_000)
    assert server.accepts(header) is not None
    server.advance_ms(1)
    assert server.accepts(header) is None


def test_a_set_up_that_was_never_acknowledged_counts_after_a_bounded_time():
    server = Server()
    assert server.accepts(None) is not None
    revision = server.directory.revision
    other = server.another()
    other.directory.revision.change = lambda: None  # type: ignore[method-assign]
    other.set_up()
    for _ in range(ACCESS_AGE_MS_MAX // 1_000):
        assert server.accepts(None) is not None
        server.advance_ms(1_000)
    server.advance_ms(1)
    assert revision.read() is not None
    assert server.accepts(None) is None


def test_find_known_reads_nothing(server):
    other, counts = counted(server)
    _, header = server.add_token()
    assert other.authenticator.find_known(header) is None
    assert counts.calls.total() == 0
    assert other.authenticator.authenticate(header) is not None
    before = counts.calls.total()
    for _ in range(10):
        assert other.authenticator.find_known(header) is not None
        assert other.authenticator.find_known("Bearer other") is None
        assert other.authenticator.find_known(None) is None
    assert counts.calls.total() == before


def test_a_repeated_wrong_token_reads_the_store_once_in_a_while(server):
    other, counts = counted(server)
    _, header = server.add_token()
    wrong = header[:-2] + "zz"
    assert other.accepts(wrong) is None
    before = counts.calls.total()
    for _ in range(10):
        assert other.accepts(wrong) is None
    assert counts.calls.total() == before
    server.advance_ms(REFUSED_MS)
    assert other.accepts(wrong) is None
    assert counts.calls.total() > before


def test_a_refusal_does_not_outlive_a_new_revision(server):
    token_id, text, digest = new_token(server.random)
    header = f"Bearer {text}"
    assert server.accepts(header) is None
    _, other = server.add_token()
    row = server.directory.find_token(other.split("_")[1])
    assert row is not None
    server.directory.add_token(
        type(row)(1, token_id, row.user, row.user_incarnation, digest=digest)
    )
    assert server.accepts(header) is not None


def test_random_tokens_push_out_no_caller(server):
    other = server.another()
    _, header = server.add_token()
    assert other.accepts(header) is not None
    for _ in range(3 * REFUSED_HEADERS_MAX):
        assert other.accepts(f"Bearer {new_token(server.random)[1]}") is None
    assert other.authenticator.find_known(header) is not None
    state = other.authenticator._state
    assert state is not None
    assert len(state.refusals) <= REFUSED_HEADERS_MAX
    assert len(state.callers) == 1


def test_the_number_of_remembered_callers_is_bounded(server, monkeypatch):
    monkeypatch.setattr("lochan.access.authentication.KNOWN_CALLERS_MAX", 10)
    key_id, _ = server.add_access_key()
    for _ in range(50):
        server.clock.jump_us(1_000_000)
        login = server.log_in(key_id)
        assert server.accepts(login) is not None
        assert server.authenticator.find_known(login) is not None
    state = server.authenticator._state
    assert state is not None
    assert 0 < len(state.callers) <= 10


class Away:
    """A plan by which every call fails."""

    def decide(self, call: PlannedCall) -> Fault:
        return Fault(FaultKind.NOT_APPLIED)


def test_a_caller_that_cannot_be_checked_is_not_refused(server):
    _, header = server.add_token()
    away = Server(FaultyStore(server.store, Away()), server.clock)
    with pytest.raises(Unavailable):
        away.authenticator.authenticate(header)
    assert away.authenticator.find_known(header) is None
    with pytest.raises(Unavailable):
        away.authenticator.authenticate(None)


def test_many_threads_authenticate_while_tokens_are_revoked(server):
    tokens = [server.add_token() for _ in range(8)]
    _, kept = server.add_token()
    stop = threading.Event()
    wrong: list[str] = []

    def ask() -> None:
        while not stop.is_set():
            for _, header in tokens:
                server.accepts(header)
            if server.accepts(kept) is None:
                wrong.append("a valid token was refused")

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for token_id, header in tokens:
        server.directory.delete_token(token_id)
        # A read that began before may still be remembered; time makes every server look again.
        server.advance_ms(ACCESS_STALE_MS + 1)
        server.advance_ms(REFUSED_MS)
        if server.accepts(header) is not None:
            wrong.append("a revoked token was accepted")
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []


URL_SAFE = st.binary(max_size=60).map(lambda raw: urlsafe_b64encode(raw).decode().rstrip("="))
BEGINNINGS = (
    *("Bearer ", "bearer  ", "Basic ", "Basic\t", "Bearer lochan_", "Bearer eyJ"),
    f"Bearer {new_token(SeededRandom(7))[1][:-4]}",
    "Bearer eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.",
)
HEADERS = st.one_of(
    st.text(),
    st.binary().map(lambda raw: raw.decode("latin-1")),
    st.binary().map(lambda raw: "Basic " + b64encode(raw).decode()),
    st.builds(str.__add__, st.sampled_from(BEGINNINGS), st.text()),
    st.builds(
        lambda beginning, parts: beginning + ".".join(parts),
        st.sampled_from(BEGINNINGS),
        st.lists(URL_SAFE, max_size=4),
    ),
)
GARBAGE = Server(oidc=ISSUER_KEYS)
GARBAGE.set_up()


@given(HEADERS)
def test_random_headers_are_refused_and_nothing_else_happens(header):
    assert GARBAGE.authenticator.find_known(header) is None
    with pytest.raises(Unauthenticated):
        GARBAGE.authenticator.authenticate(header)
