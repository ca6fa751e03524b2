"""Readers of the directory under the explorer: caches, rights, rotated secrets, commits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from lochan.access.authentication import Authenticator
from lochan.access.directory import Directory
from lochan.access.enforcement import EnforcedPolicy
from lochan.access.names import EVERYONE
from lochan.access.policy import Call
from lochan.access.records import SetupRow, TokenRow
from lochan.access.rights import compile_rights
from lochan.access.tokens import digest_of
from lochan.base.ids import InstanceId
from lochan.base.limits.access import ACCESS_STALE_MS
from lochan.codec.rows import Description
from lochan.model.access import AccessPolicy, Statement
from lochan.model.commits import CommitMeta, Put
from lochan.model.specs import parse_spec
from lochan.service.repository import Repository
from lochan.testing.sim import Event, Faults, History, Scenario, Server, World
from tests.sim import catalog_scenarios as catalog
from tests.sim.access_facts import expected
from tests.sim.access_scenarios import (
    GROUPS,
    INITIALLY,
    LOSSY,
    App,
    check_fact,
    do,
    does,
    ports_of,
    scenario,
    set_up,
)
from tests.sim.kernel_scenarios import parts_of

Act = Callable[[Server], None]


class CachingApp(App):
    """A server that remembers the groups of a user under a revision."""

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self._known: tuple[bytes, tuple[str, ...]] | None = None

    def groups_of(self, user: str) -> tuple[str, ...]:
        """Reads the revision, and the rows only if it is another one."""
        revision = self.directory.revision.fetch()
        if self._known is None or self._known[0] != revision:
            self._known = revision, self.directory.groups_of(user)
        return self._known[1]


def caches(times: int) -> Act:
    def act(server: Server) -> None:
        for _ in range(times):
            server.attempt("cached", server.app.groups_of, "alice")

    return act


def caches_notice(world: World, history: History) -> None:
    """Whatever was acknowledged before a read of the revision is seen by that read."""
    for event in history.acknowledged("cached"):
        for group in GROUPS:
            check_fact(history, ("member", "alice", group), INITIALLY, group in event.result, event)


CACHED = scenario(
    "caches beside changes",
    {
        "s1": [does(("remove_member", "alice", "g"), ("add_member", "alice", "g"))],
        "s2": [caches(4)],
        "s3": [does(("create_group", "h"), ("add_member", "alice", "h"))],
    },
    open=CachingApp,
    checks={"caches notice": caches_notice},
    faults=Faults(lost_reply=0.05, late=0.12, most=3),
)


def reads_rights(times: int) -> Act:
    def policies(user: str) -> list[str]:
        found = server_of[0].app.directory.policies_for(user, ())
        return [one.policy.id for one in found]

    server_of: list[Server] = []

    def act(server: Server) -> None:
        server_of[:] = [server]
        for _ in range(times):
            server.attempt("rights", policies, "alice")

    return act


def no_right_comes_from_two_states(world: World, history: History) -> None:
    """Alice had left the group before it got the policy q."""
    (left,) = history.of("remove_member")
    if left.acknowledged:
        for event in history.acknowledged("rights"):
            assert "q" not in event.result, event


RIGHTS = scenario(
    "a member leaves before its group gets more rights",
    {
        "s1": [
            does(
                ("remove_member", "alice", "g"),
                ("put_policy", "q"),
                ("attach", "group", "g", "q"),
            )
        ],
        "s2": [reads_rights(3)],
    },
    checks={"no right comes from two states": no_right_comes_from_two_states},
)


def rotates(*names: str) -> Act:
    """Replaces the secret of an access key, each time the one that it has read."""

    def rotate(server: Server, name: str) -> tuple[bytes, bool] | None:
        one: Directory = server.app.directory
        row = one.find_credential("t1")
        if row is None:
            return None
        new = msgspec.structs.replace(row, sealed=name.encode())
        return row.sealed, one.replace_credential(row, new)

    def act(server: Server) -> None:
        for name in names:
            server.attempt("rotate", rotate, server, name)

    return act


def signs_in(times: int) -> Act:
    """Looks which secret is accepted."""

    def act(server: Server) -> None:
        for _ in range(times):
            do(server, "find_credential", "t1")

    return act


def one_secret_is_accepted(world: World, history: History) -> None:
    """The old one until the new one is; never both, and never none."""
    done = [event for event in history.acknowledged("rotate") if event.result and event.result[1]]
    replaced = [event.result[0] for event in done]
    assert len(replaced) == len(set(replaced)), "a secret was replaced twice"
    for event in history.acknowledged("find_credential"):
        assert event.result is not None, f"no secret was accepted: {event}"
        accepted = event.result.sealed
        for one in done:
            if one.before(event):
                assert accepted != one.result[0], f"{accepted!r} was replaced before: {event}"
    final = world.new_server("checker").app.directory.find_credential("t1")
    assert final is not None
    assert final.sealed not in replaced
    if done and not any(event.uncertain for event in history.of("rotate")):
        (last,) = {str(event.arguments[1]).encode() for event in done} - set(replaced)
        assert final.sealed == last


ROTATION = scenario(
    "credential rotation on two servers",
    {
        "s1": [rotates("one", "two")],
        "s2": [rotates("three")],
        "s3": [signs_in(3)],
    },
    checks={"one secret is accepted": one_secret_is_accepted},
)


def deleted_key_is_dead(world: World, history: History) -> None:
    """An access key that was deleted is not brought back by one that seals it again."""
    for event in history.acknowledged("find_credential"):
        found = event.result is not None
        check_fact(history, ("key", "alice", "t1"), INITIALLY, found, event)
    final = world.new_server("checker").app.directory.find_credential("t1")
    check_fact(history, ("key", "alice", "t1"), INITIALLY, final is not None)


ROTATION_AND_DELETION = scenario(
    "credential rotation beside deletion",
    {
        "s1": [rotates("one", "two")],
        "s2": [does(("delete_credential", "t1"), ("find_credential", "t1"))],
        "s3": [signs_in(2)],
    },
    checks={"a deleted key is dead": deleted_key_is_dead},
)


SECRET = "b" * 52
TOKEN = "a" * 16
HEADER = f"Bearer lochan_{TOKEN}_{SECRET}"


class AuthenticatingApp(App):
    """A server that authenticates requests, and remembers their callers."""

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self.authenticator = Authenticator(self.directory, server.clock)


def set_up_with_token(server: Server) -> None:
    """Alice has a token, in a store that was set up."""
    one = Directory(server.store, ports_of(server))
    assert one.set_up(SetupRow(1, "root", "first", b"digest", b"i" * 16, 5, b""))
    set_up(server)
    add_real_token(one)


def add_real_token(one: Directory) -> None:
    row = one.find_user_row("alice")
    assert row is not None
    digest = digest_of(TOKEN, SECRET)
    one.add_token(TokenRow(1, TOKEN, "alice", row.incarnation, digest=digest))


def authenticates(times: int) -> Act:
    """Sends requests, the next one when what is remembered has to be looked up again."""

    def find_out(server: Server) -> tuple[str, ...]:
        server.clock.advance_us(ACCESS_STALE_MS * 1_000 + 1)
        authenticator: Authenticator = server.app.authenticator
        known = authenticator.find_known(HEADER)
        return (known or authenticator.authenticate(HEADER)).roles

    def act(server: Server) -> None:
        for _ in range(times):
            server.attempt("authenticate", find_out, server)

    return act


def revoked_is_refused(world: World, history: History) -> None:
    """By every server, after the stated time, as is a membership that was ended."""
    initially = {*INITIALLY, ("token", "alice", TOKEN)}
    for event in history.of("authenticate"):
        if not event.acknowledged and event.outcome != "unauthenticated":
            continue
        check_fact(history, ("token", "alice", TOKEN), initially, event.acknowledged, event)
        if event.acknowledged:
            found = "g" in event.result
            check_fact(history, ("member", "alice", "g"), initially, found, event)


REVOKED = scenario(
    "a token is revoked beside requests with it",
    {
        "s1": [does(("remove_member", "alice", "g"), ("delete_token", TOKEN))],
        "s2": [authenticates(3)],
        "s3": [authenticates(2)],
    },
    setup=set_up_with_token,
    open=AuthenticatingApp,
    checks={"revoked is refused": revoked_is_refused},
)


class CatalogApp(App):
    """A server with a repository whose use cases are decided by rights."""

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        context = parts_of(server, server.world.prepared)
        self.repository = Repository(context, policy=EnforcedPolicy())


def set_up_catalog(server: Server) -> tuple[InstanceId, Description]:
    """A repository to which Alice may commit, as a member of a group."""
    prepared = catalog.set_up(server)
    set_up(server)
    one = Directory(server.store, ports_of(server))
    one.put_policy(ALLOWED)
    return prepared


ALLOWED = AccessPolicy("p", (Statement(effect="allow", actions=("*",)),))
FORBIDDEN = AccessPolicy(
    "p",
    (*ALLOWED.statements, Statement(effect="deny", actions=("commit",), references=("main",))),
)


def changes_policy(*policies: AccessPolicy) -> Act:
    def act(server: Server) -> None:
        for policy in policies:
            operation = "allow" if policy is ALLOWED else "forbid"
            server.attempt(operation, server.app.directory.put_policy, policy)

    return act


def commits(*names: str) -> Act:
    """Alice commits, each time with the rights that are read first."""

    def commit(server: Server, name: str) -> str:
        one: Directory = server.app.directory
        roles = (*one.groups_of("alice"), EVERYONE)
        rights = compile_rights(one.policies_for("alice", roles), "alice", roles)
        call = Call("alice", roles=roles, rights=rights)
        repository: Repository = server.app.repository
        put = Put(key=("free", name), content=catalog.table(name))
        write = repository.commits.commit(call, "main", None, CommitMeta(message=name), [put])
        (settled,) = repository.publisher(write.branch).publish([write.proposal])
        return write.finish(settled).hash

    def act(server: Server) -> None:
        for name in names:
            server.attempt("commit", commit, server, name)

    return act


def commits_obey(world: World, history: History) -> None:
    """A commit whose caller was authenticated after a change was acknowledged obeys it."""
    for event in history.of("commit"):
        if event.acknowledged or event.outcome in ("denied", "reference_not_found"):
            wanted = _allowed_at(history, event)
            assert wanted in (None, event.acknowledged), f"{event}, and it must be {wanted}"


def _allowed_at(history: History, commit: Event) -> bool | None:
    """Whether a commit must be allowed: by its policy, and as a member of the group."""
    changes = History()
    changes.events = [_as_fact(event) for event in history.of("allow", "forbid")]
    by_policy = expected(changes, ("policy", "p"), INITIALLY, commit)
    member = expected(history, ("member", "alice", "g"), INITIALLY, commit)
    if False in (by_policy, member):
        return False
    return None if None in (by_policy, member) else True


def _as_fact(event: Event) -> Event:
    """An event that allows is one that makes the policy, for the check of facts."""
    operation = "put_policy" if event.operation == "allow" else "delete_policy"
    found = Event(event.actor, event.server, operation, ("p",))
    found.start, found.end = event.start, event.end
    found.error, found.crashed = event.error, event.crashed
    return found


def what_was_denied_is_not_there(world: World, history: History) -> None:
    """Main has all commits that were acknowledged and none that was denied."""
    repository: Repository = world.new_server("checker").app.repository
    log = Repository(repository.context).history.log(Call(), parse_spec("main"), fetch_all=True)
    messages = [entry.meta.message for entry in log.items]
    for event in history.of("commit"):
        times = messages.count(str(event.arguments[1]))
        possible = (0, 1) if event.uncertain else (int(event.acknowledged),)
        assert times in possible, f"{event} is there {times} times"


def of_catalog(name: str, servers: dict[str, list[Act]], **more: Any) -> Scenario:
    more.setdefault("faults", LOSSY)
    checks = {"commits obey": commits_obey, "denied is not there": what_was_denied_is_not_there}
    return Scenario(
        name=name,
        servers=servers,
        setup=set_up_catalog,
        open=CatalogApp,
        checks=checks,
        **more,
    )


COMMITS = of_catalog(
    "a policy changes during commits",
    {"s1": [changes_policy(FORBIDDEN, ALLOWED)], "s2": [commits("a", "b")], "s3": [commits("c")]},
)
COMMITS_AND_GROUP = of_catalog(
    "a group is deleted and created again during commits",
    {
        "s1": [
            does(("delete_group", "g"), ("create_group", "g"), ("attach", "group", "g", "p")),
        ],
        "s2": [commits("a", "b", "c")],
        "s3": [changes_policy(FORBIDDEN)],
    },
)

SCENARIOS = [
    CACHED,
    RIGHTS,
    ROTATION,
    ROTATION_AND_DELETION,
    REVOKED,
    COMMITS,
    COMMITS_AND_GROUP,
]
