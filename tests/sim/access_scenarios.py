"""The directory under the explorer: what actors do, and what must hold afterwards."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import product
from typing import Any

from lochan.access.directory import Directory
from lochan.access.records import (
    ACCESS_PARTITION,
    ATTACHMENT_FORM,
    CREDENTIAL_FORM,
    GROUP_FORM,
    MEMBERSHIP_FORM,
    POLICY_FORM,
    TOKEN_FORM,
    USER_FORM,
    AttachmentRow,
    CredentialRow,
    MembershipRow,
    TokenRow,
)
from lochan.base.errors import NotFound
from lochan.codec.forms import RowForm
from lochan.kernel.repository import Ports
from lochan.kv.store import Store
from lochan.model.access import AccessPolicy, Statement
from lochan.persist.rows import scan_all
from lochan.testing.sim import Faults, History, Scenario, Server, World
from tests.sim.access_facts import Fact, check_fact

Act = Callable[[Server], None]

LOSSY = Faults(lost_reply=0.04, late=0.06, not_applied=0.005, most=3)
DEADLY = Faults(lost_reply=0.02, late=0.03, crash_before=0.01, crash_after=0.02, most=3)

USERS, GROUPS, POLICIES = ("alice", "bob"), ("g", "h"), ("p", "q")
TOKENS = ("t1", "t2", "t3")
NEW, KNOWN = "a new one", "one that was made"

INITIALLY: frozenset[Fact] = frozenset(
    [
        ("user", "alice"),
        ("user", "bob"),
        ("group", "g"),
        ("policy", "p"),
        ("member", "alice", "g"),
        ("attached", "group", "g", "p"),
        ("token", "alice", "t1"),
        ("key", "alice", "t1"),
    ]
)


def ports_of(server: Server) -> Ports:
    return Ports(server.clock, server.random, server.waiting)


class App:
    """What one server has in memory."""

    def __init__(self, server: Server) -> None:
        self.directory = Directory(server.store, ports_of(server))


def set_up(server: Server) -> None:
    """What INITIALLY lists."""
    one = Directory(server.store, ports_of(server))
    for user in USERS:
        one.create_user(user)
    one.create_group("g")
    put_policy(one, "p")
    one.add_member("alice", "g")
    one.attach("group", "g", "p")
    add_token(one, "alice", "t1")
    add_credential(one, "alice", "t1")


def put_policy(one: Directory, name: str, description: str = "") -> AccessPolicy:
    allow = Statement(effect="allow", actions=("read",))
    return one.put_policy(AccessPolicy(name, (allow,), description))


def add_token(one: Directory, user: str, name: str) -> None:
    row = one.find_user_row(user)
    if row is None:
        raise NotFound(user)
    one.add_token(TokenRow(1, name, user, row.incarnation, digest=name.encode()))


def add_credential(one: Directory, user: str, name: str) -> None:
    row = one.find_user_row(user)
    if row is None:
        raise NotFound(user)
    one.add_credential(CredentialRow(1, name, user, row.incarnation, sealed=name.encode()))


SPECIAL: dict[str, Callable[..., object]] = {
    "put_policy": put_policy,
    "add_token": add_token,
    "add_credential": add_credential,
}


def do(server: Server, operation: str, *arguments: str) -> object:
    """One operation of the directory, recorded with its arguments."""

    def call(*given: str) -> object:
        one: Directory = server.app.directory
        special = SPECIAL.get(operation)
        return getattr(one, operation)(*given) if special is None else special(one, *given)

    return server.attempt(operation, call, *arguments)


def does(*steps: Sequence[str]) -> Act:
    """An actor that does these one after the other."""

    def act(server: Server) -> None:
        for operation, *arguments in steps:
            do(server, operation, *arguments)

    return act


def facts_of(one: Directory) -> set[Fact]:
    """Every fact that holds, as a fresh server finds it by each of the ways to look."""
    facts: set[Fact] = {("user", found.id) for found in one.list_users().items}
    facts |= {("group", found.id) for found in one.list_groups().items}
    facts |= {("policy", found.id) for found in one.list_policies().items}
    for user in USERS:
        facts |= {("member", user, group) for group in one.groups_of(user)}
        if one.find_user_row(user) is None:
            continue
        facts |= {("attached", "user", user, p.id) for p in one.attached_to("user", user)}
        facts |= {("token", user, row.id) for row in one.list_tokens(user).items}
        facts |= {("key", user, row.id) for row in one.list_credentials(user).items}
    for group in GROUPS:
        if ("group", group) in facts:
            facts |= {("attached", "group", group, p.id) for p in one.attached_to("group", group)}
    return facts


def possible_facts(history: History) -> list[Fact]:
    facts: list[Fact] = [("user", name) for name in USERS]
    facts += [("group", name) for name in GROUPS] + [("policy", name) for name in POLICIES]
    facts += [("member", *pair) for pair in product(USERS, GROUPS)]
    facts += [("attached", "user", *pair) for pair in product(USERS, POLICIES)]
    facts += [("attached", "group", *pair) for pair in product(GROUPS, POLICIES)]
    for kind in ("token", "key"):
        facts += [(kind, *pair) for pair in product(USERS, tokens_of(history))]
    return facts


def tokens_of(history: History) -> list[str]:
    made = [str(event.arguments[1]) for event in history.of("add_token", "add_credential")]
    return list(dict.fromkeys([*TOKENS, *made]))


def fresh(world: World) -> Directory:
    """The directory as a new server has it afterwards."""
    directory: Directory = world.new_server("checker").app.directory
    return directory


def acknowledged_changes_count(world: World, history: History) -> None:
    """What was acknowledged last counts; what was deleted gives nothing any more."""
    one = fresh(world)
    found = facts_of(one)
    for fact in possible_facts(history):
        check_fact(history, fact, INITIALLY, fact in found)
    for user, token in product(USERS, tokens_of(history)):
        row = one.find_token(token)
        by_id = row is not None and row.user == user
        assert by_id == (("token", user, token) in found), "by its id and in the list"


def reads_are_true(world: World, history: History) -> None:
    """So it was for every caller that looked in between."""
    for event in history.acknowledged("groups_of"):
        (user,) = event.arguments
        for group in GROUPS:
            fact = ("member", user, group)
            check_fact(history, fact, INITIALLY, group in event.result, event)
    for event in history.acknowledged("find_token"):
        for user in USERS:
            found = event.result is not None and event.result.user == user
            check_fact(history, ("token", user, event.arguments[0]), INITIALLY, found, event)


def rows(store: Store, prefix: bytes, form: RowForm[Any]) -> list[Any]:
    end = prefix[:-1] + bytes([prefix[-1] + 1])
    return [form.decode(entry.value) for entry in scan_all(store, ACCESS_PARTITION, prefix, end)]


def void_rows(store: Store) -> list[object]:
    """Rows that point to an incarnation that is not there, from the stored bytes alone."""
    kinds = ((b"users/", USER_FORM), (b"groups/", GROUP_FORM), (b"policies/", POLICY_FORM))
    alive: dict[bytes, dict[str, bytes]] = {
        prefix: {row.id: row.incarnation for row in rows(store, prefix, form) if not row.deleting}
        for prefix, form in kinds
    }
    users, groups, policies = alive.values()
    void: list[object] = []
    members: list[MembershipRow] = rows(store, b"members/", MEMBERSHIP_FORM)
    for row in members:
        ends = users.get(row.user), groups.get(row.group)
        if row.user_incarnation and ends != (row.user_incarnation, row.group_incarnation):
            void.append(row)
    attached: list[AttachmentRow] = rows(store, b"attached/", ATTACHMENT_FORM)
    for one in attached:
        subjects = users if one.subject_kind == "user" else groups
        ends = subjects.get(one.subject), policies.get(one.policy)
        if one.subject_incarnation and ends != (one.subject_incarnation, one.policy_incarnation):
            void.append(one)
    owned = [*rows(store, b"tokens/", TOKEN_FORM), *rows(store, b"credentials/", CREDENTIAL_FORM)]
    void += [
        row for row in owned if row.user_incarnation and users.get(row.user) != row.user_incarnation
    ]
    return void


def void_rows_do_not_count(world: World, history: History) -> None:
    """A membership of an earlier incarnation of a group gives nothing of the present one."""
    one = fresh(world)
    for row in void_rows(world.store):
        if isinstance(row, MembershipRow):
            assert row.group not in one.groups_of(row.user), row
        elif isinstance(row, TokenRow):
            assert one.find_token(row.id) is None, row


def nothing_void_is_left(world: World, history: History) -> None:
    """Secondary rows are pruned before their owner, and by those that come too late."""
    if not any(event.uncertain for event in history):
        void = void_rows(world.store)
        assert not void, f"left over: {void}"


CHECKS = {
    "acknowledged changes count": acknowledged_changes_count,
    "reads are true": reads_are_true,
    "void rows do not count": void_rows_do_not_count,
    "nothing void is left": nothing_void_is_left,
}


def scenario(name: str, servers: dict[str, list[Act]], **more: Any) -> Scenario:
    more.setdefault("faults", LOSSY)
    more.setdefault("checks", CHECKS)
    more.setdefault("setup", set_up)
    more.setdefault("open", App)
    return Scenario(name=name, servers=servers, **more)


MIX: list[tuple[str, ...]] = [
    ("create_user", "alice"),
    ("delete_user", "alice"),
    ("create_user", "bob"),
    ("delete_user", "bob"),
    ("create_group", "g"),
    ("delete_group", "g"),
    ("create_group", "h"),
    ("put_policy", "p"),
    ("put_policy", "q"),
    ("delete_policy", "p"),
    *(("add_member", *pair) for pair in product(USERS, GROUPS)),
    *(("remove_member", *pair) for pair in product(USERS, GROUPS)),
    *(("attach", "group", *pair) for pair in product(GROUPS, POLICIES)),
    *(("detach", "group", *pair) for pair in product(GROUPS, POLICIES)),
    ("attach", "user", "bob", "p"),
    ("add_token", "alice", NEW),
    ("delete_token", "t1"),
    ("delete_token", KNOWN),
    ("add_credential", "bob", NEW),
    ("delete_credential", KNOWN),
    ("groups_of", "alice"),
    ("groups_of", "bob"),
    ("find_token", "t1"),
    ("find_token", KNOWN),
    ("list_users",),
    ("list_groups",),
    ("list_policies",),
]


def mixed(count: int) -> Act:
    """Operations that the seed of the run draws."""

    def act(server: Server) -> None:
        for _ in range(count):
            operation, *arguments = MIX[int(server.random.between(0, len(MIX)))]
            do(server, operation, *(_named(server, one) for one in arguments))

    return act


def _named(server: Server, argument: str) -> str:
    """An id that was never used, or one that was; ids of credentials are random in earnest."""
    history = server.world.history
    if argument == NEW:
        return f"n{len(history)}"
    if argument == KNOWN:
        made = [str(event.arguments[1]) for event in history.of("add_token", "add_credential")]
        known = ["t1", *made]
        return known[int(server.random.between(0, len(known)))]
    return argument


def again(*steps: Sequence[str]) -> Callable[[Server], list[Act]]:
    """What the server does that follows one that died."""
    return lambda _: [does(*steps)]


RECREATE_GROUP = does(("delete_group", "g"), ("create_group", "g"), ("attach", "group", "g", "p"))
JOIN = does(("add_member", "bob", "g"), ("remove_member", "alice", "g"), ("groups_of", "bob"))
LOOK = does(("groups_of", "alice"), ("groups_of", "bob"), ("groups_of", "alice"))
RECREATE_USER = does(("delete_user", "alice"), ("create_user", "alice"))
TOKENS_OF_ALICE = does(("add_token", "alice", "t2"), ("find_token", "t2"), ("delete_token", "t1"))

GROUP_AND_MEMBERS = "a group deleted and created again beside its members"
GROUP_AND_DEATHS = "a group deleted and created again, servers that die"
TWO_DELETIONS = "a group deleted by two servers"
USER_AND_TOKENS = "a user deleted and created again beside its tokens"
USER_AND_DEATHS = "a user deleted and created again, servers that die"
POLICY_AND_ATTACHMENTS = "a policy deleted and put again beside its attachments"
LINKS = "links made and ended"
LATE_LINKS = "links made and ended, and late writes"
MIXED = "a random mix on three servers"
MIXED_DEATHS = "a random mix, servers that die"

SCENARIOS = [
    scenario(GROUP_AND_MEMBERS, {"s1": [RECREATE_GROUP], "s2": [JOIN], "s3": [LOOK]}),
    scenario(
        GROUP_AND_DEATHS,
        {"s1": [RECREATE_GROUP], "s2": [JOIN], "s3": [LOOK]},
        faults=DEADLY,
        restart=again(("delete_group", "g"), ("create_group", "g"), ("groups_of", "alice")),
    ),
    scenario(
        TWO_DELETIONS,
        {
            "s1": [does(("delete_group", "g"))],
            "s2": [does(("delete_group", "g"), ("create_group", "g"))],
            "s3": [does(("create_group", "g"), ("add_member", "bob", "g"), ("list_groups",))],
        },
    ),
    scenario(USER_AND_TOKENS, {"s1": [RECREATE_USER], "s2": [TOKENS_OF_ALICE], "s3": [LOOK]}),
    scenario(
        USER_AND_DEATHS,
        {"s1": [RECREATE_USER], "s2": [TOKENS_OF_ALICE]},
        faults=DEADLY,
        restart=again(("list_users",), ("add_token", "alice", "t3"), ("find_token", "t1")),
    ),
    scenario(
        POLICY_AND_ATTACHMENTS,
        {
            "s1": [does(("delete_policy", "p"), ("put_policy", "p"))],
            "s2": [does(("attach", "user", "bob", "p"), ("detach", "group", "g", "p"))],
            "s3": [does(("put_policy", "p", "new"), ("attach", "user", "alice", "p"))],
        },
    ),
    scenario(
        LINKS,
        {
            "s1": [does(("add_member", "bob", "g"), ("remove_member", "bob", "g"))],
            "s2": [does(("add_member", "bob", "g"), ("groups_of", "bob"))],
            "s3": [does(("remove_member", "bob", "g"), ("groups_of", "bob"))],
        },
    ),
    scenario(
        LATE_LINKS,
        {
            "s1": [
                does(
                    ("add_member", "bob", "g"),
                    ("remove_member", "bob", "g"),
                    ("add_token", "bob", "t2"),
                    ("delete_token", "t2"),
                    ("create_group", "h"),
                    ("delete_group", "h"),
                )
            ],
            "s2": [does(("groups_of", "bob"), ("find_token", "t2"))],
        },
        faults=Faults(late=0.2, lost_reply=0.05, most=3),
    ),
    scenario(MIXED, {f"s{number}": [mixed(4)] for number in range(3)}),
    scenario(
        MIXED_DEATHS,
        {f"s{number}": [mixed(4)] for number in range(2)},
        faults=DEADLY,
        restart=lambda _: [mixed(3)],
    ),
]


def named(names: Collection[str]) -> list[Scenario]:
    return [one for one in SCENARIOS if one.name in names]
