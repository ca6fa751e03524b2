"""Two servers on one database: a change of access counts on both after the stated time."""

from __future__ import annotations

import pytest

from lochan.base.limits.access import ACCESS_STALE_MS
from tests.access.access_world import Server, allow, basic, may
from tests.stores.postgres.conftest import Open


@pytest.fixture
def servers(opened: Open) -> tuple[Server, Server]:
    """Two servers with a store each, on one database and one clock."""
    first = Server(opened())
    second = Server(opened(), first.clock, seed=2)
    first.set_up()
    first.add_policy("write", allow("view_reference", "commit"))
    first.add_user("alice", "write")
    return first, second


def test_a_revoked_token_is_refused_by_both_within_the_stated_time(servers):
    first, second = servers
    token_id, header = first.add_token()
    assert may(first.accepts(header))
    assert may(second.accepts(header))
    first.directory.delete_token(token_id)
    assert first.accepts(header) is None
    first.advance_ms(ACCESS_STALE_MS + 1)
    assert second.accepts(header) is None
    assert first.accepts(header) is None


def test_a_deleted_user_and_a_deleted_access_key_are_refused_by_both(servers):
    first, second = servers
    (kept_id, kept), (gone_id, gone) = first.add_access_key(), first.add_access_key()
    logins = [first.log_in(kept_id), first.log_in(gone_id)]
    headers = [basic(kept_id, kept), basic(gone_id, gone), *logins]
    assert all(second.accepts(header) for header in headers)
    first.directory.delete_credential(gone_id)
    first.advance_ms(ACCESS_STALE_MS + 1)
    assert [second.accepts(header) is not None for header in headers] == [True, False, True, False]
    second.directory.delete_user("alice")
    first.advance_ms(ACCESS_STALE_MS + 1)
    assert not any(server.accepts(header) for server in servers for header in headers)


def test_rights_that_one_server_takes_away_are_gone_on_the_other(servers):
    first, second = servers
    _, header = first.add_token()
    assert may(second.accepts(header))
    first.directory.detach("user", "alice", "write")
    first.advance_ms(ACCESS_STALE_MS + 1)
    assert not may(second.accepts(header))
