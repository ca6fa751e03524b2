"""A directory against a model of plain dictionaries, over thousands of random steps.

It is driven by several servers, one of which loses replies. Every answer is held against the model,
refusals included, and all of it is listed now and then.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import pytest

from lochan.access.directory import Directory
from lochan.access.names import EVERYONE
from lochan.access.records import CredentialRow, TokenRow
from lochan.base.errors import AlreadyExists, Conflict, LochanError, NotFound
from lochan.model.access import SubjectKind
from lochan.testing.faults import Fault, FaultKind, FaultyStore, PlannedCall
from tests.access.bench import DirectoryBench, all_pages, ids, policy
from tests.kernel.workbench import OnCalls
from tests.profile import counted

WORLDS = counted(4, 20)
STEPS = counted(2_000, 5_000)

USERS = ["a", "a-b", "a.b", "oidc:a@b", "z"]
NAMES = ["g", "g-1", "g.1", "h"]
SUBJECTS: list[tuple[SubjectKind, str]] = [
    *(("user", name) for name in USERS),
    *(("group", name) for name in NAMES),
    ("group", EVERYONE),
]


class World:
    """The model: what exists, and what is linked to what."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.first = DirectoryBench(seed=seed + 100)
        lossy = FaultyStore(self.first.store, OnCalls(self.lose))
        self.servers = [self.first, self.first.again(seed=2), self.first.again(lossy, seed=3)]
        self.users: set[str] = set()
        self.groups: set[str] = set()
        self.policies: dict[str, int] = {}
        self.members: set[tuple[str, str]] = set()
        self.attached: set[tuple[SubjectKind, str, str]] = set()
        self.tokens: dict[str, tuple[str, tuple[str, ...]]] = {}
        self.keys: dict[str, tuple[str, bytes]] = {}
        self.made = 0
        self.seen: dict[str, int] = {}

    def lose(self, call: PlannedCall) -> Fault | None:
        if FaultKind.LOST_REPLY not in call.possible or self.random.random() > 0.15:
            return None
        if self.random.random() < 0.5:
            return Fault(FaultKind.LOST_REPLY)
        return Fault(FaultKind.LATE, self.random.choice([1, 2, 5, 30, 300]))

    @property
    def one(self) -> Directory:
        return self.random.choice(self.servers).directory

    def step(self) -> None:
        kinds = [name for name in dir(self) if name.startswith("do_")]
        kind = self.random.choice(kinds)
        outcome = getattr(self, kind)()
        name = f"{kind[3:]}: {outcome}"
        self.seen[name] = self.seen.get(name, 0) + 1

    def expect(self, error: type[LochanError] | None, change: Callable[[], object]) -> str:
        """Makes a change, which succeeds or is refused as the model says."""
        if error is None:
            change()
            return "done"
        with pytest.raises(error):
            change()
        return error.kind

    def do_create_user(self) -> str:
        name = self.random.choice(USERS)
        error = AlreadyExists if name in self.users else None
        self.users.add(name)
        return self.expect(error, lambda: self.one.create_user(name))

    def do_delete_user(self) -> str:
        name = self.random.choice(USERS)
        error = None if name in self.users else NotFound
        self.users.discard(name)
        self.members = {pair for pair in self.members if pair[0] != name}
        self.attached = {one for one in self.attached if one[:2] != ("user", name)}
        self.tokens = {token: one for token, one in self.tokens.items() if one[0] != name}
        self.keys = {key: one for key, one in self.keys.items() if one[0] != name}
        return self.expect(error, lambda: self.one.delete_user(name))

    def do_create_group(self) -> str:
        name = self.random.choice(NAMES)
        error = AlreadyExists if name in self.groups else None
        self.groups.add(name)
        return self.expect(error, lambda: self.one.create_group(name))

    def do_delete_group(self) -> str:
        name = self.random.choice(NAMES)
        error = None if name in self.groups else NotFound
        self.groups.discard(name)
        self.members = {pair for pair in self.members if pair[1] != name}
        self.attached = {one for one in self.attached if one[:2] != ("group", name)}
        return self.expect(error, lambda: self.one.delete_group(name))

    def do_put_policy(self) -> str:
        name = self.random.choice(NAMES)
        version = self.policies.get(name, 0)
        expected = self.random.choice([None, None, 0, version])
        error: type[LochanError] | None = None
        if expected not in (None, version):
            error = Conflict
        else:
            self.policies[name] = version + 1
        return self.expect(error, lambda: self.one.put_policy(policy(name), expected))

    def do_delete_policy(self) -> str:
        name = self.random.choice(NAMES)
        error = None if name in self.policies else NotFound
        self.policies.pop(name, None)
        self.attached = {one for one in self.attached if one[2] != name}
        self.tokens = {
            token: (user, tuple(scope for scope in scopes if scope != name) or ("",))
            if scopes
            else (user, scopes)
            for token, (user, scopes) in self.tokens.items()
        }
        return self.expect(error, lambda: self.one.delete_policy(name))

    def do_add_member(self) -> str:
        user, group = self.random.choice(USERS), self.random.choice(NAMES)
        error = None if user in self.users and group in self.groups else NotFound
        if error is None:
            self.members.add((user, group))
        return self.expect(error, lambda: self.one.add_member(user, group))

    def do_remove_member(self) -> str:
        user, group = self.random.choice(USERS), self.random.choice(NAMES)
        error = None if (user, group) in self.members else NotFound
        self.members.discard((user, group))
        return self.expect(error, lambda: self.one.remove_member(user, group))

    def exists(self, kind: SubjectKind, subject: str) -> bool:
        return subject == EVERYONE or subject in (self.users if kind == "user" else self.groups)

    def do_attach(self) -> str:
        (kind, subject), name = self.random.choice(SUBJECTS), self.random.choice(NAMES)
        error = None if self.exists(kind, subject) and name in self.policies else NotFound
        if error is None:
            self.attached.add((kind, subject, name))
        return self.expect(error, lambda: self.one.attach(kind, subject, name))

    def do_detach(self) -> str:
        (kind, subject), name = self.random.choice(SUBJECTS), self.random.choice(NAMES)
        if self.attached and self.random.random() < 0.3:
            kind, subject, name = self.random.choice(sorted(self.attached))
        error = None if (kind, subject, name) in self.attached else NotFound
        self.attached.discard((kind, subject, name))
        return self.expect(error, lambda: self.one.detach(kind, subject, name))

    def do_add_token(self) -> str:
        one, user = self.one, self.random.choice(USERS)
        row = one.find_user_row(user)
        assert (row is not None) == (user in self.users)
        if row is None:
            return "no user"
        self.made += 1
        name = f"t{self.made}"
        count = self.random.choice([0, 0, 1, 2])
        scopes = tuple(self.random.sample(sorted(self.policies), min(count, len(self.policies))))
        new = TokenRow(1, name, user, row.incarnation, scopes=one.new_scopes(scopes))
        one.add_token(new)
        self.tokens[name] = user, scopes
        return "done"

    def do_delete_token(self) -> str:
        name = self.random.choice([*self.tokens, "t0"])
        error = None if name in self.tokens else NotFound
        self.tokens.pop(name, None)
        return self.expect(error, lambda: self.one.delete_token(name))

    def do_add_key(self) -> str:
        one, user = self.one, self.random.choice(USERS)
        row = one.find_user_row(user)
        if row is None:
            return "no user"
        self.made += 1
        name, sealed = f"k{self.made}", self.random.randbytes(8)
        one.add_credential(CredentialRow(1, name, user, row.incarnation, sealed=sealed))
        self.keys[name] = user, sealed
        return "done"

    def do_replace_key(self) -> str:
        name = self.random.choice([*self.keys, "k0"])
        found = self.one.find_credential(name)
        known = self.keys.get(name)
        assert (None if found is None else (found.user, found.sealed)) == known
        if found is None:
            return "no key"
        sealed = self.random.randbytes(8)
        new = CredentialRow(1, name, found.user, found.user_incarnation, sealed=sealed)
        assert self.one.replace_credential(found, new)
        assert not self.one.replace_credential(found, new)
        self.keys[name] = found.user, sealed
        return "done"

    def do_delete_key(self) -> str:
        name = self.random.choice([*self.keys, "k0"])
        error = None if name in self.keys else NotFound
        self.keys.pop(name, None)
        return self.expect(error, lambda: self.one.delete_credential(name))

    def do_rights(self) -> str:
        user = self.random.choice(USERS)
        roles = self.random.sample(NAMES, self.random.choice([0, 0, 1]))
        groups = {group for member, group in self.members if member == user}
        groups |= {role for role in roles if role in self.groups}
        subjects = [("user", user), *(("group", group) for group in sorted(groups))]
        wanted = [
            (name, f"{kind}:{subject}")
            for kind, subject in [*subjects, ("group", EVERYONE)]
            for name in sorted(NAMES, key=str.encode)
            if (kind, subject, name) in self.attached
        ]
        found = self.one.policies_for(user, roles)
        assert [(one.policy.id, one.via) for one in found] == wanted
        return "some" if wanted else "none"

    def do_list(self) -> str:
        one, limit = self.one, self.random.choice([1, 2, 3, 100])

        def listed(read: Callable[[int, str], Any]) -> list[str]:
            return [found for page in all_pages(read, limit) for found in ids(page.items)]

        assert listed(one.list_users) == in_order(self.users)
        assert listed(one.list_groups) == in_order(self.groups)
        assert listed(one.list_policies) == in_order(self.policies)
        for name, version in self.policies.items():
            assert one.get_policy(name).version == version
        for group in self.groups:
            members = in_order(user for user, joined in self.members if joined == group)
            assert listed(partial(one.list_members, group)) == members
        for user in self.users:
            groups = in_order(group for member, group in self.members if member == user)
            assert list(one.groups_of(user)) == groups
            tokens = in_order(name for name, known in self.tokens.items() if known[0] == user)
            assert listed(partial(one.list_tokens, user)) == tokens
            keys = in_order(name for name, known in self.keys.items() if known[0] == user)
            assert listed(partial(one.list_credentials, user)) == keys
        for kind, subject in SUBJECTS:
            if self.exists(kind, subject):
                names = in_order(last for *first, last in self.attached if first == [kind, subject])
                assert ids(one.attached_to(kind, subject)) == names
        return "done"

    def do_find_tokens(self) -> str:
        one = self.one
        for name in [f"t{number}" for number in range(self.made + 1)]:
            found, known = one.find_token(name), self.tokens.get(name)
            assert (None if found is None else found.user) == (None if known is None else known[0])
            if found is not None and known is not None:
                scopes = tuple(scope for scope in known[1] if scope)
                assert tuple(ids(one.scope_policies(found.scopes))) == scopes
                assert bool(found.scopes) == bool(known[1]), "a limit never goes away"
        return "done"


def in_order(names: Any) -> list[str]:
    return sorted(names, key=str.encode)


def test_as_many_steps_are_made_as_promised():
    assert WORLDS * STEPS >= counted(8_000, 100_000)


@pytest.mark.parametrize("number", range(WORLDS))
def test_a_directory_agrees_with_dictionaries(number):
    world = World(number)
    for step in range(STEPS):
        try:
            world.step()
        except BaseException as error:
            error.add_note(f"world {number}, step {step}")
            raise
    for check in (world.do_list, world.do_find_tokens):
        check()
    changes = ("create", "delete", "put", "add", "remove", "attach", "detach", "replace")
    done = {name for name in world.seen if name.endswith(": done")}
    kinds = [name[3:] for name in dir(world) if name.startswith("do_")]
    assert {kind for kind in kinds if kind.startswith(changes)} <= {
        name.partition(":")[0] for name in done
    }
    assert {"create_user: already_exists", "delete_group: not_found"} <= set(world.seen)
