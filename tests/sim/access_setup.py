"""Set-up under the explorer: at most one token counts, and no store is left without one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lochan.access.directory import Directory
from lochan.access.records import SetupRow
from lochan.testing.sim import History, Scenario, Server, World
from tests.sim.access_scenarios import DEADLY, LOSSY, App, do, fresh

Act = Callable[[Server], None]


def sets_up(admin: str, token: str) -> Act:
    """Sets up with a token that the caller has chosen."""

    def call(name: str, chosen: str) -> bool:
        return _set_up(server_of[0], name, chosen)

    server_of: list[Server] = []

    def act(server: Server) -> None:
        server_of[:] = [server]
        server.attempt("set_up", call, admin, token)

    return act


def _set_up(server: Server, admin: str, token: str) -> bool:
    new = server.random.random_bytes(16)
    one: Directory = server.app.directory
    return one.set_up(SetupRow(1, admin, token, token.encode(), new, 5, b"check"))


def looks(server: Server) -> None:
    """Asks twice whether anything was set up."""
    for _ in range(2):
        do(server, "find_setup")


def manages(server: Server) -> None:
    """An administrator that deletes a group as soon as there is one."""
    if do(server, "find_setup") is not None:
        do(server, "delete_group", "readers")
        do(server, "remove_member", "root", "admins")
        do(server, "add_member", "root", "admins")


def counts(one: Directory, token: str) -> bool:
    """Whether the holder of a token may do everything."""
    row = one.find_token(token)
    if row is None:
        return False
    policies = one.policies_for(row.user, one.groups_of(row.user))
    assert [found.policy.id for found in policies] == ["admin"], f"{token} counts without rights"
    return True


TOKENS = {"token1": "root", "token2": "root", "token3": "oidc:other"}


def one_token_counts(world: World, history: History) -> None:
    """That of the row of set-up, and it does as soon as the row is there."""
    one = fresh(world)
    setup = one.find_setup()
    if any(event.uncertain for event in history.of("remove_member", "add_member")):
        return
    valid = [token for token in TOKENS if counts(one, token)]
    assert valid == ([] if setup is None else [setup.token])
    assert setup is None or setup.finished
    if setup is not None:
        assert setup.admin == TOKENS[setup.token]
        assert [found.id for found in one.list_users().items] == [setup.admin]


def answers_are_true(world: World, history: History) -> None:
    """A caller that was answered yes can enter, one that was answered no has changed nothing."""
    setup = fresh(world).find_setup()
    for event in history.acknowledged("set_up"):
        assert setup is not None, "acknowledged, and nothing was set up"
        assert event.result is (setup.token == event.arguments[1]), event


def set_up_stays(world: World, history: History) -> None:
    """Once requests need credentials, they always do."""
    looks_at = history.acknowledged("find_setup", "set_up")
    for event in looks_at:
        for later in looks_at:
            if event.result is not None and event.before(later):
                assert later.result is not None, later


def deleted_stays_deleted(world: World, history: History) -> None:
    """A server that finishes set-up late brings nothing back."""
    if history.acknowledged("delete_group"):
        groups = [found.id for found in fresh(world).list_groups().items]
        assert groups == ["admins", "writers"]


CHECKS = {
    "one token counts": one_token_counts,
    "answers are true": answers_are_true,
    "set-up stays": set_up_stays,
    "deleted stays deleted": deleted_stays_deleted,
}


def scenario(name: str, servers: dict[str, list[Act]], **more: Any) -> Scenario:
    more.setdefault("faults", LOSSY)
    return Scenario(name=name, servers=servers, open=App, checks=CHECKS, **more)


TWICE = "set-up twice"
DEATHS = "set-up twice, servers that die"
MANAGED = "set-up finished by two servers beside an administrator"

SCENARIOS = [
    scenario(
        TWICE,
        {
            "s1": [sets_up("root", "token1")],
            "s2": [sets_up("oidc:other", "token3")],
            "s3": [looks],
        },
    ),
    scenario(
        DEATHS,
        {"s1": [sets_up("root", "token1")], "s2": [sets_up("root", "token2")]},
        faults=DEADLY,
        restart=lambda server: [
            sets_up("root", "token1" if server.name.startswith("s1") else "token2")
        ],
    ),
    scenario(
        MANAGED,
        {"s1": [sets_up("root", "token1")], "s2": [looks], "s3": [manages]},
    ),
]
