"""Which credentials count, for whom, with which rights; and what a refusal shows: nothing."""

from __future__ import annotations

import base64

import pytest
from msgspec.structs import replace

from lochan.access.authorization_header import UNAUTHENTICATED_TEXT
from lochan.access.names import EVERYONE
from lochan.access.policy import Action
from lochan.access.rights import OPEN_RIGHTS
from lochan.access.tokens import new_token
from lochan.base.errors import Corrupt, Unauthenticated, Unavailable
from lochan.base.limits.credentials import LOGIN_MS
from lochan.testing.ports import SeededRandom
from tests.access.access_world import ISSUER_KEYS, KEY, Server, allow, basic, may
from tests.access.issuer import NOW_S, claims, edwards_key, sign

OTHER_KEY = SeededRandom(99).random_bytes(32)


@pytest.fixture
def server() -> Server:
    made = Server(oidc=ISSUER_KEYS)
    made.set_up()
    made.add_policy("write", allow("view_reference", "commit"))
    made.add_policy("write-dev", allow("view_reference", "commit", references=("dev/*",)))
    made.add_user("alice", "write")
    return made


def oidc(**changes: object) -> str:
    return "Bearer " + sign(claims(**changes), edwards_key(), "EdDSA")


def test_until_set_up_every_caller_is_anyone_and_may_do_everything():
    server = Server()
    assert not server.authenticator.is_required()
    for header in (None, "", "Bearer nonsense", "Basic !", "\udc80"):
        found = server.accepts(header)
        assert found is not None
        assert (found.name, found.rights) == ("", OPEN_RIGHTS)
        assert server.authenticator.find_known(header) is found


def test_from_set_up_on_requests_need_credentials():
    server = Server()
    assert server.accepts(None) is not None
    token = server.set_up()
    assert server.authenticator.is_required()
    assert server.accepts(None) is None
    found = server.knows(token)
    assert found.name == "root"
    assert may(found, Action.MANAGE_ACCESS)


def test_with_an_issuer_requests_need_credentials_before_set_up():
    server = Server(oidc=ISSUER_KEYS)
    assert server.authenticator.is_required()
    assert server.accepts(None) is None
    found = server.knows(oidc())
    assert found.name == "oidc:alice"


def test_a_token_gives_the_rights_of_its_user(server):
    server.directory.create_group("authors")
    server.directory.add_member("alice", "authors")
    token_id, header = server.add_token()
    found = server.knows(header)
    assert found.name == "alice"
    assert found.roles == ("authors", EVERYONE)
    assert found.credential == f"token:{token_id}"
    assert may(found)
    assert not may(found, Action.DELETE_REFERENCE)


@pytest.mark.parametrize(
    "scheme", ["Bearer ", "bearer ", "BEARER ", "Bearer   ", "Bearer\t", "Token ", "", " Bearer "]
)
def test_the_scheme_is_bearer_in_any_case(server, scheme):
    _, header = server.add_token()
    found = server.accepts(scheme + header.removeprefix("Bearer "))
    assert (found is not None) == (scheme.strip(" ").lower() == "bearer" and scheme[0] != " ")


def test_a_wrong_secret_or_id_is_refused(server):
    (_, first), (_, second) = server.add_token(), server.add_token()
    head, secret = first.rsplit("_", 1)
    other_head, other_secret = second.rsplit("_", 1)
    for header in (
        f"{head}_{other_secret}",
        f"{other_head}_{secret}",
        f"{head}_{secret[:-1]}",
        f"{head}_{'a' * len(secret)}",
        f"{head}_",
        head,
        "Bearer " + new_token(SeededRandom(77))[1],
    ):
        assert server.accepts(header) is None
    assert server.accepts(first) is not None


def test_a_token_ends_at_its_expiry_also_in_memory(server):
    end_us = server.clock.now_us() + 500_000
    _, header = server.add_token(expires_us=end_us)
    assert server.accepts(header) is not None
    server.clock.advance_us(499_999)
    assert server.authenticator.find_known(header) is not None
    server.clock.advance_us(1)
    assert server.authenticator.find_known(header) is None
    assert server.accepts(header) is None


def test_a_deleted_token_is_refused(server):
    token_id, header = server.add_token()
    assert server.accepts(header) is not None
    server.directory.delete_token(token_id)
    assert server.accepts(header) is None


def test_credentials_of_a_user_that_was_deleted_and_created_again_are_void(server):
    _, token = server.add_token()
    key_id, secret = server.add_access_key()
    headers = [token, basic(key_id, secret), server.log_in(key_id)]
    assert all(server.accepts(header) for header in headers)
    server.directory.delete_user("alice")
    assert not any(server.accepts(header) for header in headers)
    server.add_user("alice", "write")
    server.advance_ms(2_000)
    assert not any(server.accepts(header) for header in headers)


def test_a_scope_limits_a_token(server):
    _, header = server.add_token(scopes=("write-dev",))
    found = server.accepts(header)
    assert may(found, reference="dev/a")
    assert not may(found, reference="main")
    server.add_user("bob")
    _, of_bob = server.add_token("bob", scopes=("write-dev",))
    assert not may(server.accepts(of_bob), reference="dev/a")


def test_a_token_whose_scope_was_deleted_may_do_nothing(server):
    server.add_policy("not-main", allow("view_reference", "commit"))
    _, header = server.add_token(scopes=("write-dev", "not-main"))
    assert may(server.accepts(header), reference="dev/a")
    server.directory.delete_policy("not-main")
    assert not may(server.accepts(header), reference="dev/a")
    server.add_policy("not-main", allow("view_reference", "commit"))
    assert not may(server.accepts(header), reference="dev/a")


def test_tokens_of_one_user_with_equal_scopes_share_their_rights(server):
    _, first = server.add_token()
    _, second = server.add_token()
    _, limited = server.add_token(scopes=("write-dev",))
    rights = {
        id((server.accepts(header) or pytest.fail("refused")).rights) for header in (first, second)
    }
    assert len(rights) == 1
    limited_to = server.accepts(limited)
    assert limited_to is not None
    assert id(limited_to.rights) not in rights


def test_a_change_of_others_costs_no_compilation(server):
    _, header = server.add_token()
    before = server.knows(header)
    server.add_user("bob")
    after = server.knows(header)
    assert after is not before
    assert after.rights is before.rights
    server.add_policy("write", allow("view_reference", "merge"))
    changed = server.knows(header)
    assert not may(changed)
    assert may(changed, Action.MERGE)


def test_an_access_key_is_accepted_with_basic(server):
    key_id, secret = server.add_access_key()
    found = server.knows(basic(key_id, secret))
    assert (found.name, found.credential) == ("alice", f"key:{key_id}")
    assert may(found)
    other_id, other = server.add_access_key()
    for header in (
        basic(key_id, other),
        basic(other_id, secret),
        basic(key_id, ""),
        basic("", secret),
        basic(key_id, secret + "\n"),
        basic(key_id + ":", secret),
        basic("LOCHAAAAAAAAAAAAAAAA", secret),
        basic(key_id, secret).rstrip("=")[:-1],
        basic(key_id, secret) + "=",
        "Basic " + base64.b64encode(key_id.encode()).decode(),
        "Basic " + base64.b64encode(b"\xff\xfe:\xff").decode(),
        f"Bearer {key_id}:{secret}",
        f"Basic {key_id}:{secret}",
    ):
        assert server.accepts(header) is None
    server.directory.delete_credential(key_id)
    assert server.accepts(basic(key_id, secret)) is None


def test_an_api_token_is_no_password(server):
    _, header = server.add_token()
    assert server.accepts(basic("alice", header.removeprefix("Bearer "))) is None


def test_a_login_counts_as_long_as_its_access_key(server):
    key_id, _ = server.add_access_key()
    header = server.log_in(key_id)
    found = server.knows(header)
    assert (found.name, found.credential) == ("alice", f"login:{key_id}")
    server.directory.delete_credential(key_id)
    assert server.accepts(header) is None


def test_a_login_expires(server):
    key_id, _ = server.add_access_key()
    header = server.log_in(key_id)
    server.advance_ms(LOGIN_MS - 1)
    assert server.accepts(header) is not None
    server.advance_ms(1)
    assert server.authenticator.find_known(header) is None
    assert server.accepts(header) is None


def test_a_login_for_the_key_of_another_user_is_refused(server):
    server.add_user("bob", "write")
    key_id, _ = server.add_access_key("alice")
    assert server.accepts(server.log_in(key_id, "bob")) is None
    for user, incarnation in (("alice", b"other"), ("bob", server.incarnation("alice"))):
        login = server.logins.issue(user, incarnation, key_id)
        assert server.accepts(f"Bearer {login.secret}") is None


def test_keys_of_the_server_can_be_rotated(server):
    key_id, secret = server.add_access_key()
    login = server.log_in(key_id)
    during = server.another(keys=(OTHER_KEY, KEY))
    assert during.accepts(basic(key_id, secret)) is not None
    assert during.accepts(login) is not None
    row = during.directory.find_credential(key_id)
    assert row is not None
    sealed = during.secrets.seal(key_id, during.secrets.open(row).decode(), during.random)
    new = type(row)(
        **{name: getattr(row, name) for name in row.__struct_fields__} | {"sealed": sealed}
    )
    assert during.directory.replace_credential(row, new)
    after = server.another(keys=(OTHER_KEY,))
    assert after.accepts(basic(key_id, secret)) is not None
    assert after.accepts(login) is None
    assert after.accepts(after.log_in(key_id)) is not None


def test_a_server_with_another_key_does_not_take_callers_for_wrong_ones(server):
    key_id, secret = server.add_access_key()
    other = server.another(keys=(OTHER_KEY,))
    with pytest.raises(Unavailable) as caught:
        other.authenticator.authenticate(basic(key_id, secret))
    assert secret not in caught.value.message


def test_a_sealed_secret_that_was_moved_to_another_row_is_damage(server):
    first, first_secret = server.add_access_key()
    second, _ = server.add_access_key()
    one, two = (server.directory.find_credential(name) for name in (first, second))
    assert one is not None
    assert two is not None
    assert server.directory.replace_credential(two, replace(two, sealed=one.sealed))
    with pytest.raises(Corrupt):
        server.authenticator.authenticate(basic(second, first_secret))


def test_a_user_of_an_issuer_needs_no_row(server):
    server.directory.create_group("authors")
    server.directory.attach("group", "authors", "write")
    found = server.knows(oidc(sub="zoe", roles=["authors", "unknown"]))
    assert found.name == "oidc:zoe"
    assert found.roles == ("authors", "unknown", EVERYONE)
    assert found.credential == "oidc"
    assert may(found)
    assert not may(server.accepts(oidc(sub="zoe", roles=["guests"])))


def test_a_user_of_an_issuer_is_not_the_user_of_that_name(server):
    found = server.knows(oidc(sub="alice"))
    assert found.name == "oidc:alice"
    assert not may(found)
    assert server.accepts(oidc(sub="oidc:alice")) is None


def test_a_row_gives_a_user_of_an_issuer_groups_and_policies(server):
    server.add_user("oidc:zoe", "write-dev")
    server.directory.create_group("guests")
    server.directory.add_member("oidc:zoe", "guests")
    found = server.knows(oidc(sub="zoe", roles=[EVERYONE, "guests"]))
    assert found.roles == ("guests", EVERYONE)
    assert may(found, reference="dev/a")
    assert not may(found)


def test_a_token_of_an_issuer_ends_at_its_expiry_also_in_memory(server):
    header = oidc(exp=NOW_S)
    assert server.accepts(header) is not None
    server.clock.advance_us(59_999_999)
    assert server.accepts(header) is not None
    server.clock.advance_us(1)
    assert server.accepts(header) is None


def test_without_an_issuer_its_tokens_are_refused(server):
    assert server.another().accepts(oidc()) is None


def test_every_refusal_has_the_same_public_text(server):
    _, token = server.add_token(expires_us=server.clock.now_us())
    _, good = server.add_token()
    key_id, secret = server.add_access_key()
    login = server.log_in(key_id)
    server.directory.delete_credential(key_id)
    for header in (
        None,
        "",
        "Bearer",
        "Bearer ",
        "Negotiate x",
        "Bearer a b",
        "Bearer " + "x" * 100_000,
        "Bearer é",
        token,
        good[:-2] + "aa",
        good + "x",
        basic(key_id, secret),
        basic("x", "y"),
        "Basic é",
        login,
        login + "x",
        oidc(aud="other"),
        oidc(exp=NOW_S - 1_000),
        "Bearer a.b.c",
    ):
        for _ in range(2):
            with pytest.raises(Unauthenticated) as caught:
                server.authenticator.authenticate(header)
            assert caught.value.public_message == UNAUTHENTICATED_TEXT
            assert caught.value.message.startswith("credentials refused: ")
            assert caught.value.message.count("refused") == 1
            for word in (header or "").split():
                assert len(word) < 7 or word not in caught.value.message
            assert secret not in caught.value.message
