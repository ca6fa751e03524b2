"""Users, groups, policies and what links them, as rows: on the memory store and on RocksDB."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from lochan.access import rows
from lochan.access.directory import Directory
from lochan.access.names import EVERYONE
from lochan.access.records import GroupRow, membership_key
from lochan.access.tables import AccessTable
from lochan.assembly import open_store
from lochan.base.errors import AlreadyExists, Conflict, Invalid, NotFound, TooLarge
from lochan.base.limits import access as limits
from lochan.kv.store import Page as Rows
from lochan.kv.store import Partition
from lochan.stores.memory.store import MemoryStore
from tests.access.bench import ALLOW, DENY, DirectoryBench, all_pages, ids, policy


@pytest.fixture(params=["memory", "rocksdb"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DirectoryBench]:
    url = "rocksdb:" + str(tmp_path / "store")
    store = MemoryStore() if request.param == "memory" else open_store(url)
    yield DirectoryBench(store)
    store.close()


@pytest.fixture
def people(bench: DirectoryBench) -> Directory:
    """Alice and Bob; Alice writes, and everyone may read."""
    one = bench.directory
    for user in ("alice", "bob"):
        one.create_user(user)
    one.create_group("writers")
    one.put_policy(policy("write", DENY))
    one.put_policy(policy("read"))
    one.add_member("alice", "writers")
    one.attach("group", "writers", "write")
    one.attach("group", EVERYONE, "read")
    one.attach("user", "bob", "write")
    return one


def via(one: Directory, user: str | None, *roles: str) -> list[tuple[str, str]]:
    return [(found.policy.id, found.via) for found in one.policies_for(user, roles)]


def test_users_groups_and_policies_are_records_and_memberships_are_keys_of_their_own(bench, people):
    assert bench.keys("users/", "groups/", "policies/", "members/", "attached/") == [
        "attached/group/everyone!read",
        "attached/group/writers!write",
        "attached/user/bob!write",
        "groups/writers",
        "members/alice!writers",
        "policies/read",
        "policies/write",
        "users/alice",
        "users/bob",
    ]
    assert people.get_user("alice").id == "alice"
    assert people.get_group("writers").created_us == bench.clock.now_us()
    assert people.groups_of("alice") == ("writers",)
    assert people.groups_of("bob") == people.groups_of("carol") == ()
    assert ids(people.list_members("writers").items) == ["alice"]
    assert ids(people.attached_to("group", "writers")) == ["write"]
    assert ids(people.attached_to("group", EVERYONE)) == ["read"]


def test_policies_are_those_of_the_user_of_its_groups_of_its_roles_and_of_everyone(people):
    everyone = ("read", "group:everyone")
    assert via(people, "alice") == [("write", "group:writers"), everyone]
    assert via(people, "bob") == [("write", "user:bob"), everyone]
    assert via(people, "oidc:carol", "writers", "no such group", "a/b", "\ud800") == [
        ("write", "group:writers"),
        everyone,
    ]
    assert via(people, None) == [everyone]
    assert via(people, "alice", "writers", EVERYONE) == via(people, "alice")


def test_another_server_finds_the_same(bench, people):
    other = bench.again().directory
    assert via(other, "alice") == via(people, "alice")
    assert other.list_users() == people.list_users()


@pytest.mark.parametrize("name", ["create_user", "create_group"])
def test_an_id_is_taken_once(people, name):
    taken = "alice" if name == "create_user" else "writers"
    with pytest.raises(AlreadyExists, match=taken):
        getattr(people, name)(taken)


NAMES = ["a", "a-b", "a.b", "a0", "A", "Z", "b", "0", "a-", "ab"]


def test_listings_are_in_the_order_of_the_bytes_of_ids_and_have_pages_without_gaps(bench):
    one = bench.directory
    one.create_group("crowd")
    names = sorted({*NAMES, "a@b", "oidc:a", "oidc:a@b.example"}, key=str.encode)
    for name in reversed(names):
        one.create_user(name)
        one.add_member(name, "crowd")
        if name in NAMES:
            one.create_group(name)
            one.put_policy(policy(name))
    for name in NAMES:
        one.add_member("a", name)
    plain = sorted(NAMES, key=str.encode)
    assert list(one.groups_of("a")) == sorted([*plain, "crowd"], key=str.encode)
    reads = [
        (one.list_users, names),
        (one.list_groups, sorted([*plain, "crowd"], key=str.encode)),
        (one.list_policies, plain),
        (lambda limit, after: one.list_members("crowd", limit, after), names),
    ]
    for read, expected in reads:
        for limit in (1, 2, 3, 5, 100):
            pages = list(all_pages(read, limit))
            assert [one.id for page in pages for one in page.items] == expected
            assert all(len(page.items) == limit for page in pages[:-1])


class ShortPages(MemoryStore):
    """Gives one row at a time, as a store may."""

    def scan(self, partition: Partition, start: bytes, end: bytes | None, limit: int) -> Rows:
        return super().scan(partition, start, end, min(limit, 1))


def test_short_pages_of_a_store_are_not_the_end():
    bench = DirectoryBench(ShortPages())
    one = bench.directory
    one.create_group("g")
    for name in ("a", "b", "c"):
        one.create_user(name)
        one.add_member(name, "g")
        one.create_group(name)
        one.add_member("a", name)
        one.put_policy(policy(name))
        one.attach("user", "a", name)
        one.add_token(bench.token("a", name))
    assert ids(one.list_users(2).items) == ["a", "b"]
    assert ids(one.list_members("g").items) == ["a", "b", "c"]
    assert one.groups_of("a") == ("a", "b", "c", "g")
    assert ids(one.attached_to("user", "a")) == ["a", "b", "c"]
    assert ids(one.list_tokens("a").items) == ["a", "b", "c"]
    one.delete_user("a")
    assert bench.keys("members/a", "attached/user", "tokens", "owned") == []


def test_pages_of_members_look_at_a_bounded_number_of_rows(bench, monkeypatch):
    monkeypatch.setattr("lochan.access.memberships.MEMBERSHIPS_SCANNED_MAX", 6)
    monkeypatch.setattr(AccessTable.pages, "__defaults__", (b"", b"", 4))
    one = bench.directory
    for group in ("g1", "g2", "rare"):
        one.create_group(group)
    users = [f"u{number:02}" for number in range(20)]
    for user in users:
        one.create_user(user)
        one.add_member(user, "g1")
        one.add_member(user, "g2")
    one.add_member("u19", "rare")
    pages = list(all_pages(lambda limit, after: one.list_members("rare", limit, after), 5))
    assert [one.id for page in pages for one in page.items] == ["u19"]
    assert len(pages) > 3
    crowd = list(all_pages(lambda limit, after: one.list_members("g1", limit, after), 5))
    assert [one.id for page in crowd for one in page.items] == users


def test_deleting_a_user_prunes_everything_that_points_to_it(bench, people):
    people.add_token(bench.token("alice", "t1"))
    people.add_token(bench.token("bob", "t2"))
    people.add_credential(bench.access_key("alice", "k1"))
    people.attach("user", "alice", "read")
    people.delete_user("alice")
    assert not [key for key in bench.keys("") if "alice" in key or key.endswith(("t1", "k1"))]
    with pytest.raises(NotFound, match="alice"):
        people.get_user("alice")
    with pytest.raises(NotFound, match="alice"):
        people.delete_user("alice")
    assert people.find_token("t1") is None
    assert people.find_token("t2") is not None
    assert ids(people.list_members("writers").items) == []


def test_deleting_a_group_or_a_policy_prunes_everything_that_points_to_it(bench, people):
    people.delete_group("writers")
    assert bench.keys("members/", "attached/group/writers") == []
    assert via(people, "alice", "writers") == [("read", "group:everyone")]
    people.delete_policy("write")
    assert bench.keys("attached/") == ["attached/group/everyone!read"]
    assert via(people, "bob") == [("read", "group:everyone")]


def test_what_is_created_again_has_nothing_of_what_was_deleted(bench, people):
    people.add_token(bench.token("alice", "t1"))
    stale = bench.token("alice", "t3")
    before = people.find_user_row("alice")
    people.delete_user("alice")
    people.create_user("alice")
    after = people.find_user_row("alice")
    assert before is not None
    assert after is not None
    assert before.incarnation != after.incarnation
    assert people.groups_of("alice") == ()
    assert people.find_token("t1") is None
    with pytest.raises(NotFound):
        people.add_token(stale)
    assert people.list_tokens("alice").items == ()


def test_a_membership_of_an_earlier_incarnation_is_void_and_can_be_made_anew(bench, people):
    """As a crash of its writer leaves it, at the wrong moment."""
    table = people._rows.memberships.table
    old = table.fetch(membership_key("alice", "writers"))
    assert old is not None
    people.delete_group("writers")
    people.create_group("writers")
    people.attach("group", "writers", "write")
    table.update(old.row, None)
    assert people.groups_of("alice") == ()
    assert people.list_members("writers").items == ()
    assert via(people, "alice") == [("read", "group:everyone")]
    with pytest.raises(NotFound):
        people.remove_member("alice", "writers")
    table.update(old.row, None)
    people.add_member("alice", "writers")
    assert people.groups_of("alice") == ("writers",)


@pytest.mark.parametrize("finish", ["create", "delete", "list"])
def test_a_half_done_deletion_counts_and_is_finished_by_the_next_caller(bench, people, finish):
    groups = people._rows.groups
    found = groups.fetch(groups.key("writers"))
    assert found is not None
    row = found.row
    groups.update(GroupRow(1, row.id, row.incarnation, row.created_us, deleting=True), found)
    with pytest.raises(NotFound):
        people.get_group("writers")
    assert via(people, "alice", "writers") == [("read", "group:everyone")]
    with pytest.raises(NotFound):
        people.add_member("bob", "writers")
    assert bench.keys("groups/", "members/") == ["groups/writers", "members/alice!writers"]
    if finish == "create":
        people.create_group("writers")
        assert people.groups_of("alice") == ()
        people.delete_group("writers")
    elif finish == "delete":
        people.delete_group("writers")
    else:
        assert people.list_groups().items == ()
    assert bench.keys("groups/", "members/", "attached/group/writers") == []


def test_links_are_made_and_ended_once_and_to_what_exists(people):
    people.add_member("alice", "writers")
    people.attach("group", "writers", "write")
    people.remove_member("alice", "writers")
    people.detach("group", "writers", "write")
    for end in (
        lambda: people.remove_member("alice", "writers"),
        lambda: people.detach("group", "writers", "write"),
        lambda: people.add_member("carol", "writers"),
        lambda: people.add_member("alice", "readers"),
        lambda: people.attach("user", "carol", "write"),
        lambda: people.attach("group", "readers", "write"),
        lambda: people.attach("group", "writers", "nothing"),
        lambda: people.attached_to("user", "carol"),
        lambda: people.list_members("readers"),
        lambda: people.list_tokens("carol"),
        lambda: people.delete_token("tok"),
        lambda: people.delete_credential("key"),
        lambda: people.get_policy("nothing"),
        lambda: people.delete_policy("nothing"),
    ):
        with pytest.raises(NotFound):
            end()
    assert via(people, "alice") == [("read", "group:everyone")]


def test_everyone_is_no_group_that_can_be_made_or_joined(people):
    assert people.get_group(EVERYONE).id == EVERYONE
    assert EVERYONE not in ids(people.list_groups().items)
    for call in (
        lambda: people.create_group(EVERYONE),
        lambda: people.delete_group(EVERYONE),
        lambda: people.add_member("alice", EVERYONE),
        lambda: people.remove_member("alice", EVERYONE),
        lambda: people.list_members(EVERYONE),
    ):
        with pytest.raises(Invalid, match="every authenticated caller"):
            call()
    people.detach("group", EVERYONE, "read")
    assert via(people, None) == []


def test_a_policy_is_replaced_as_a_whole_and_stays_attached(people):
    first = people.get_policy("write")
    assert (first.version, first.statements) == (1, (DENY,))
    second = people.put_policy(policy("write", ALLOW, description="new"))
    assert (second.version, second.created_us) == (2, first.created_us)
    assert people.get_policy("write") == second
    (found, _) = people.policies_for("alice", [])
    assert found.policy == second


def test_a_policy_is_replaced_only_in_the_version_that_was_read(people):
    with pytest.raises(Conflict, match="version 1"):
        people.put_policy(policy("write"), expected=0)
    with pytest.raises(Conflict, match="version 1"):
        people.put_policy(policy("write"), expected=2)
    with pytest.raises(NotFound):
        people.put_policy(policy("new"), expected=1)
    assert people.put_policy(policy("write"), expected=1).version == 2
    assert people.put_policy(policy("new"), expected=0).version == 1


def test_tokens_and_access_keys_of_a_user_are_listed_in_the_order_of_their_ids(bench, people):
    for name in ("b2", "a1", "c3"):
        people.add_token(bench.token("alice", name))
        people.add_credential(bench.access_key("alice", name.upper()))
    people.add_token(bench.token("bob", "a0"))
    read = [
        (lambda limit, after: people.list_tokens("alice", limit, after), ["a1", "b2", "c3"]),
        (lambda limit, after: people.list_credentials("alice", limit, after), ["A1", "B2", "C3"]),
    ]
    for pages_of, expected in read:
        for limit in (1, 2, 3, 4):
            found = [one.id for page in all_pages(pages_of, limit) for one in page.items]
            assert found == expected
    people.delete_token("b2")
    assert ids(people.list_tokens("alice").items) == ["a1", "c3"]
    assert people.find_token("b2") is None
    with pytest.raises(NotFound):
        people.delete_token("b2")
    assert bench.keys("owned/token/alice", "tokens/b") == [
        "owned/token/alice!a1",
        "owned/token/alice!c3",
    ]


def test_a_token_is_added_once(bench, people):
    row = bench.token("alice")
    people.add_token(row)
    people.add_token(row)
    with pytest.raises(AlreadyExists):
        people.add_token(bench.token("bob"))
    assert people.find_token("tok1") == row


def test_an_access_key_is_replaced_by_one_write(bench, people):
    old, new = bench.access_key("alice"), bench.access_key("alice", sealed=b"other")
    people.add_credential(old)
    assert people.replace_credential(old, new)
    assert people.find_credential("key1") == new
    assert not people.replace_credential(old, new)
    people.delete_credential("key1")
    assert not people.replace_credential(new, old)
    assert people.find_credential("key1") is None


def test_a_scope_whose_policy_was_deleted_or_made_again_allows_nothing(bench, people):
    with pytest.raises(NotFound):
        people.new_scopes(["read", "nothing"])
    row = bench.token("alice", scopes=people.new_scopes(["read", "write", "read"]))
    people.add_token(row)
    found = people.find_token("tok1")
    assert found == row
    assert ids(people.scope_policies(row.scopes)) == ["read", "write"]
    people.delete_policy("write")
    people.put_policy(policy("write"))
    assert ids(people.scope_policies(row.scopes)) == ["read"]
    people.delete_policy("read")
    assert people.scope_policies(row.scopes) == ()


@pytest.mark.parametrize(
    ("limit", "value"),
    [
        ("lochan.access.memberships.GROUPS_PER_USER_MAX", 1),
        ("lochan.access.attachments.POLICIES_PER_SUBJECT_MAX", 1),
        ("lochan.access.directory_base.ACCESS_DESCRIPTION_CHARACTERS_MAX", 10),
    ],
)
def test_more_than_a_limit_is_refused(people, monkeypatch, limit, value):
    people.create_group("more")
    people.put_policy(policy("more"))
    monkeypatch.setattr(limit, value)
    changes = {
        "GROUPS_PER_USER_MAX": lambda: people.add_member("alice", "more"),
        "POLICIES_PER_SUBJECT_MAX": lambda: people.attach("group", "writers", "more"),
        "ACCESS_DESCRIPTION_CHARACTERS_MAX": lambda: people.create_user("new", "x" * 11),
    }
    with pytest.raises(TooLarge):
        changes[limit.rpartition(".")[2]]()
    # What is there already can be done again.
    people.add_member("alice", "writers")
    people.attach("group", "writers", "write")


def test_a_user_has_a_bounded_number_of_credentials(bench, people):
    for number in range(limits.TOKENS_PER_USER_MAX):
        people.add_token(bench.token("alice", f"t{number}"))
    with pytest.raises(TooLarge, match="token"):
        people.add_token(bench.token("alice", "more"))
    people.delete_token("t7")
    people.add_token(bench.token("alice", "more"))
    people.add_token(bench.token("bob", "other"))


def test_a_store_has_a_bounded_number_of_users(bench, monkeypatch):
    kind = msgspec.structs.replace(rows._USERS, rows_max=3)
    monkeypatch.setattr(rows, "_USERS", kind)
    one, other = bench.again().directory, bench.again().directory
    for name in "abc":
        one.create_user(name)
    for server in (one, other):
        with pytest.raises(TooLarge, match="at most 3"):
            server.create_user("d")
    one.delete_user("a")
    bench.again().directory.create_user("d")
