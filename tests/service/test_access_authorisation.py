"""Which decision each use case of access needs, and that nothing is done without it.

A use case without a case here fails.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from lochan.access.enforcement import EnforcedPolicy
from lochan.access.names import EVERYONE
from lochan.access.policy import Action, Call, OpenPolicy, Resource
from lochan.access.rights import compile_rights
from lochan.base.errors import Denied, Unauthenticated
from lochan.kv.observe import ObservedStore
from lochan.model.access import AccessPolicy
from lochan.service.access import AccessControl
from lochan.testing.call_counts import CallCounts
from lochan.testing.ports import ManualClock
from tests.service.access_bench import ADMIN, READ, AccessBench, access_use_cases, office
from tests.service.bench import WRITES

TOKEN, KEY = "a" * 16, "LOCH" + "A" * 16
Run = Callable[[AccessControl, Call], Any]
OfUser = Callable[[AccessControl, Call, str], Any]

MANAGE: dict[str, Run] = {
    "create_user": lambda one, call: one.create_user(call, "new"),
    "delete_user": lambda one, call: one.delete_user(call, "ada"),
    "create_group": lambda one, call: one.create_group(call, "new"),
    "delete_group": lambda one, call: one.delete_group(call, "writers"),
    "put_policy": lambda one, call: one.put_policy(call, AccessPolicy("new", (READ,))),
    "delete_policy": lambda one, call: one.delete_policy(call, "sales"),
    "add_member": lambda one, call: one.add_member(call, "ada", "readers"),
    "remove_member": lambda one, call: one.remove_member(call, "ada", "writers"),
    "attach": lambda one, call: one.attach(call, "user", "ada", "reader"),
    "detach": lambda one, call: one.detach(call, "user", "ada", "sales"),
    "rotate_key": lambda one, call: one.rotate_key(call),
}
READ_ONLY: dict[str, Run] = {
    "get_user": lambda one, call: one.get_user(call, "ada"),
    "list_users": lambda one, call: one.list_users(call),
    "get_group": lambda one, call: one.get_group(call, "writers"),
    "list_groups": lambda one, call: one.list_groups(call),
    "get_policy": lambda one, call: one.get_policy(call, "sales"),
    "list_policies": lambda one, call: one.list_policies(call),
    "list_members": lambda one, call: one.list_members(call, "writers"),
    "groups_of": lambda one, call: one.groups_of(call, "ada"),
    "attached_to": lambda one, call: one.attached_to(call, "user", "ada"),
    "explain": lambda one, call: one.explain(call, "ada", "commit", "repo", "main"),
}

# What the caller needs for a credential of another user; for its own, MANAGE_OWN_TOKENS.
OWN: dict[str, tuple[Action, OfUser]] = {
    "create_token": (Action.MANAGE_ACCESS, lambda one, call, user: one.create_token(call, user)),
    "list_tokens": (Action.READ_ACCESS, lambda one, call, user: one.list_tokens(call, user)),
    "delete_token": (
        Action.MANAGE_ACCESS,
        lambda one, call, user: one.delete_token(call, TOKEN_OF[user]),
    ),
    "create_access_key": (
        Action.MANAGE_ACCESS,
        lambda one, call, user: one.create_access_key(call, user),
    ),
    "list_access_keys": (
        Action.READ_ACCESS,
        lambda one, call, user: one.list_access_keys(call, user),
    ),
    "delete_access_key": (
        Action.MANAGE_ACCESS,
        lambda one, call, user: one.delete_access_key(call, KEY_OF[user]),
    ),
}

# Without a decision, with the reason.
OPEN = {
    "status": "clients have to know whether they need credentials",
    "set_up": "there are no users yet; afterwards it is refused",
    "set_up_key": "there are no users yet; afterwards it is refused",
    "login": "it shows credentials itself",
    "whoami": "it returns what the caller has proved",
}

TOKEN_OF: dict[str, str] = {}
KEY_OF: dict[str, str] = {}


class Recorder(OpenPolicy):
    """A policy that records its decisions, and denies all if it is set to."""

    def __init__(self, *, denies: bool = False) -> None:
        self.decisions: list[tuple[Action, Resource]] = []
        self._denies = denies

    def decide(self, call: Call, action: Action, resource: Resource) -> None:
        self.decisions.append((action, resource))
        if self._denies:
            raise Denied("no")


@pytest.fixture
def bench() -> AccessBench:
    one, _ = office()
    for user in ("root", "ada"):
        TOKEN_OF[user] = one.access.create_token(ADMIN, user).token.id
        KEY_OF[user] = one.access.create_access_key(ADMIN, user).key.id
    return one


def all_cases() -> dict[str, tuple[Action, Run]]:
    """Each use case on what belongs to the caller and on what belongs to another one."""
    cases = {name: (Action.MANAGE_ACCESS, run) for name, run in MANAGE.items()}
    cases |= {name: (Action.READ_ACCESS, run) for name, run in READ_ONLY.items()}
    for name, (action, of) in OWN.items():
        own = Action.MANAGE_OWN_TOKENS
        cases[f"{name} of its own"] = own, partial(_of_caller, of)
        cases[f"{name} of another"] = action, partial(_of_ada, of)
    return cases


def _of_caller(of: OfUser, one: AccessControl, call: Call) -> Any:
    return of(one, call, call.principal)


def _of_ada(of: OfUser, one: AccessControl, call: Call) -> Any:
    return of(one, call, "ada")


CASES = all_cases()


def test_every_use_case_of_access_has_a_case():
    assert {*MANAGE, *READ_ONLY, *OWN, *OPEN} == set(access_use_cases())


@pytest.mark.parametrize("name", CASES)
def test_a_use_case_is_decided_once_on_the_server_as_a_whole(bench, name):
    recorder = Recorder()
    action, run = CASES[name]
    run(bench.again(policy=recorder).access, Call("root"))
    assert recorder.decisions == [(action, Resource(""))]


@pytest.mark.parametrize("name", CASES)
def test_what_is_denied_writes_nothing(bench, name):
    counts = CallCounts()
    store = ObservedStore(bench.store, counts, ManualClock())
    with pytest.raises(Denied):
        CASES[name][1](bench.again(store, Recorder(denies=True)).access, Call("root"))
    assert not set(counts.calls) & set(WRITES)


@pytest.mark.parametrize("name", OPEN)
def test_what_is_open_decides_nothing(bench, name):
    recorder = Recorder(denies=True)
    access = bench.again(policy=recorder).access
    made = bench.access.create_access_key(ADMIN, "ada")
    if name in ("set_up", "set_up_key"):
        fresh = AccessBench(policy=recorder)
        getattr(fresh.access, name)(Call(), "root")
    elif name == "login":
        access.login(Call(), made.key.id, made.secret)
    else:
        getattr(access, name)(Call())
    assert recorder.decisions == []


def call_of(bench: AccessBench, user: str) -> Call:
    """A call with the rights that a user has now."""
    roles = (*bench.directory.groups_of(user), EVERYONE)
    rights = compile_rights(bench.directory.policies_for(user, roles), user, roles)
    return Call(user, roles=roles, rights=rights)


@pytest.mark.parametrize("name", CASES)
def test_administrators_may_do_all_of_it_and_callers_without_credentials_nothing(bench, name):
    access = bench.again(policy=EnforcedPolicy()).access
    run = CASES[name][1]
    with pytest.raises(Unauthenticated):
        run(access, Call("root"))
    run(access, call_of(bench, "root"))


@pytest.mark.parametrize("name", CASES)
def test_writers_manage_their_own_credentials_and_nothing_else(bench, name):
    access = bench.again(policy=EnforcedPolicy()).access
    action, run = CASES[name]
    eve = "eve"
    bench.access.create_user(ADMIN, eve)
    bench.access.add_member(ADMIN, eve, "writers")
    TOKEN_OF[eve] = bench.access.create_token(ADMIN, eve).token.id
    KEY_OF[eve] = bench.access.create_access_key(ADMIN, eve).key.id
    if action is Action.MANAGE_OWN_TOKENS:
        run(access, call_of(bench, eve))
        return
    with pytest.raises(Denied):
        run(access, call_of(bench, eve))


@pytest.mark.parametrize("name", ["delete_token", "delete_access_key"])
def test_a_credential_of_another_looks_like_one_that_does_not_exist(bench, name):
    access = bench.again(policy=EnforcedPolicy()).access
    there = (TOKEN_OF if name == "delete_token" else KEY_OF)["root"]
    absent = "b" * len(there)
    errors = []
    for one in (there, absent):
        with pytest.raises(Denied) as caught:
            getattr(access, name)(call_of(bench, "ada"), one)
        errors.append(str(caught.value))
    assert errors[0] == errors[1]
