"""Measures what decisions by policies add to one commit and to one read, in CPU time.

    python -m benchmarks access
    python -m benchmarks access --requests 2000    a second

Callers, keys and policies are drawn at random with a fixed seed. Every request is of a random
caller on a random reference and a random key; those are kept that are allowed, and as many that are
denied are measured by themselves. The decisions are made by the code of the use cases: a commit
decides on the branch before and after its head is known, on a key that it puts and on a key that it
deletes; a read decides on one key of a reference that the caller views. The same calls through a
policy that allows everything are subtracted.

`first` are the first requests after a change of policies, with nothing in memory; `next` are as
many requests after them, drawn at random like them, so hardly any of them is one of the first. Of
several runs the best of each part counts. The rates are of both passes: decisions that were found
instead of computed, and results of conditions that were found instead of evaluated.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from random import Random

import msgspec

from benchmarks.measure import emit, settle_heap
from lochan.access.enforcement import EnforcedPolicy
from lochan.access.policy import Action, Call, OpenPolicy, Policy
from lochan.access.rights import AttachedPolicy, PolicyRights, compile_rights, forget_shared
from lochan.base.errors import Bug, LochanError
from lochan.base.ids import ObjId
from lochan.base.keys import table_key
from lochan.base.names import RefName
from lochan.codec.rows import ReferenceRow
from lochan.kernel.build import Head
from lochan.kernel.views import EMPTY_VIEW
from lochan.model.access import AccessPolicy, Statement
from lochan.model.commits import ContentKey, Unchanged
from lochan.rules.conditions import count_evaluations, forget_evaluations
from lochan.service.policy import Access, WriteTarget

REPOSITORY = "default"
COMMIT = ObjId(bytes(32))
ROW = ReferenceRow(1, "main", "BRANCH", COMMIT, 1, 1, b"", 0)

# Decisions read the row and the commit of a head; nothing is built on it here.
HEAD = Head(EMPTY_VIEW, None, ROW)  # type: ignore[arg-type]
PART = 500
TEAMS = 20
GROUPS = 30

CONDITIONS = (
    "'group-3' in roles && ref.startsWith('team-3/')",
    "role.startsWith('user-1')",
    "role != 'user-77' && op != 'DELETE_ENTITY'",
    "path.startsWith('ns7')",
    "path.endsWith('9') && 'group-5' in roles",
    "op == 'READ_ENTITY_VALUE' && path.matches('^ns[0-4][0-9][.].*')",
    "path.contains('.t1') && role.startsWith('user-2')",
    "roles.exists(one, one.endsWith('7'))",
    "ref == 'main' && path.startsWith('ns9')",
    "repository == 'default' && ref.endsWith('1')",
)


class Request(msgspec.Struct, frozen=True):
    """One request of a caller."""

    caller: int
    reference: str
    keys: tuple[ContentKey]
    raw: tuple[bytes]


class World:
    """Callers with their policies, references and keys."""

    def __init__(self, seed: int, principals: int, keys: int, policies: int) -> None:
        self.random = Random(seed)
        names = [f"ns{number % 100}" for number in range(keys)]
        self.keys = [(name, f"t{number}") for number, name in enumerate(names)]
        self.references = [
            "main",
            *(f"team-{number}/{name}" for number in range(TEAMS) for name in ("main", "dev", "x1")),
        ]
        ruled = [CONDITIONS[number % len(CONDITIONS)] for number in range(policies // 10)]
        self.policies = [
            self._policy(number, ruled[number] if number < len(ruled) else "")
            for number in range(policies)
        ]
        self.everyone = AccessPolicy(
            "everyone",
            (
                Statement(effect="allow", actions=("read",), references=("main",)),
                Statement(
                    effect="deny",
                    actions=("assign_reference", "delete_reference"),
                    references=("main",),
                ),
            ),
        )
        self.attached = [self._attached() for _ in range(principals)]
        self.calls: list[Call] = []

    def _policy(self, number: int, rule: str) -> AccessPolicy:
        choice, sample = self.random.choice, self.random.sample
        statements = [
            Statement(
                effect="allow",
                actions=choice((("read",), ("read", "write"), ("fs:*",), ("*",))),
                references=tuple(
                    choice(("*", f"team-{team}/*", f"team-{team}/dev", "main"))
                    for team in sample(range(TEAMS), 2)
                ),
                keys=choice((("*",), tuple(f"ns{n}.*" for n in sample(range(100), 20)))),
                rule="" if number % 2 else rule,
            )
        ]
        if rule and number % 2:
            actions = ("write_content", "read_content", "read_log")
            statements.append(Statement(effect="deny", actions=actions, rule=rule))
        if number % 3 == 0:
            hidden = tuple(f"ns{n}.*" for n in sample(range(100), 3))
            statements.append(Statement(effect="deny", actions=("write",), keys=hidden))
        return AccessPolicy(f"policy-{number}", tuple(statements))

    def _attached(self) -> tuple[tuple[AttachedPolicy, ...], tuple[str, ...]]:
        count = self.random.randint(1, 5)
        found = self.random.sample(self.policies, count)
        groups = [f"group-{self.random.randrange(GROUPS)}" for _ in range(count)]
        via = [
            AttachedPolicy(policy, f"group:{group}")
            for policy, group in zip(found, groups, strict=True)
        ]
        everyone = AttachedPolicy(self.everyone, "group:everyone")
        return (*via, everyone), (*groups, "everyone")

    def compile(self) -> None:
        """Makes the rights of all callers anew, with nothing in memory."""
        forget_shared()
        forget_evaluations()
        self.calls = []
        for number, (policies, roles) in enumerate(self.attached):
            name = f"user-{number}"
            rights = compile_rights(policies, name, roles)
            self.calls.append(
                Call(name, roles=roles, repository=REPOSITORY, rights=rights, trace="t")
            )

    def draw(self, count: int, decide: Callable[[Request], None]) -> tuple[list[Request], int]:
        """Returns requests that are allowed, and how many were drawn."""
        found: list[Request] = []
        drawn = 0
        while len(found) < count:
            request = self.request()
            drawn += 1
            try:
                decide(request)
            except LochanError:
                continue
            found.append(request)
        return found, drawn

    def request(self) -> Request:
        random = self.random
        caller = random.randrange(len(self.attached))
        reference, key = random.choice(self.references), random.choice(self.keys)
        return Request(caller, reference, (key,), (bytes(table_key(key)),))


class Decisions:
    """The decisions of one commit and of one read, as the use cases make them."""

    def __init__(self, world: World, policy: Policy) -> None:
        self._world = world
        self._access = Access(REPOSITORY, policy)

    def commit(self, request: Request) -> None:
        call, name = self._world.calls[request.caller], RefName(request.reference)
        operations = (Unchanged(key=request.keys[0]),)
        target = WriteTarget(self._access, call, Action.COMMIT, name, operations)
        target.check_early()
        target.check_commit(HEAD, request.raw, request.raw, ())

    def read(self, request: Request) -> None:
        call = self._world.calls[request.caller]
        self._access.decide(call, Action.READ_CONTENT, request.reference, 1, COMMIT, request.keys)

    def denied(self, request: Request) -> None:
        try:
            self.commit(request)
        except LochanError:
            return

    def check_denied(self, request: Request) -> None:
        try:
            self.commit(request)
        except LochanError:
            return
        raise Bug("this one is allowed")


LOOKUPS = {"commit": 4, "read": 2, "denied": 2}
"""Decisions that each kind of request needs at least."""


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks access",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--principals", type=int, default=1_000, help="default: 1000")
    parser.add_argument("--keys", type=int, default=10_000, help="default: 10000")
    parser.add_argument("--policies", type=int, default=100, help="a tenth with conditions")
    parser.add_argument("--requests", type=int, default=50_000, help="of each pass; default: 50000")
    parser.add_argument("--repeats", type=int, default=5, help="best of so many; default: 5")
    parser.add_argument("--seed", type=int, default=17)
    chosen = parser.parse_args(arguments)
    world = World(chosen.seed, chosen.principals, chosen.keys, chosen.policies)
    enforced = Decisions(world, EnforcedPolicy())
    free = Decisions(world, OpenPolicy())
    for kind in ("commit", "read"):
        world.compile()
        requests, drawn = world.draw(2 * chosen.requests, getattr(enforced, kind))
        _measure(world, kind, requests, chosen, getattr(enforced, kind), getattr(free, kind))
        emit("access_drawn", kind=kind, allowed=len(requests), drawn=drawn)
    denied, _ = world.draw(2 * chosen.requests, enforced.check_denied)
    _measure(world, "denied", denied, chosen, enforced.denied, free.denied)


def _measure(
    world: World,
    kind: str,
    requests: list[Request],
    chosen: argparse.Namespace,
    enforced: Callable[[Request], None],
    free: Callable[[Request], None],
) -> None:
    half = len(requests) // 2
    passes = {"first": requests[:half], "next": requests[half:]}
    settle_heap()
    free_s = _best([_seconds(free, requests) for _ in range(chosen.repeats)]) / 2
    times: dict[str, list[list[float]]] = {name: [] for name in passes}
    compiled, rates = [], {}
    for _ in range(chosen.repeats):
        compiled.append(_seconds(lambda _: world.compile(), [None]))
        for name, items in passes.items():
            before = _counts(world)
            times[name].append(_seconds(enforced, items))
            rates[name] = _rates(before, _counts(world), half * LOOKUPS[kind])
    figures = {
        f"{name}_added_us": (_best(runs) - free_s) * 1e6 / half for name, runs in times.items()
    }
    emit(
        "access",
        kind=kind,
        principals=chosen.principals,
        keys=chosen.keys,
        policies=chosen.policies,
        requests=half,
        open_us=free_s * 1e6 / half,
        **figures,
        compile_us_per_principal=_best(compiled) * 1e6 / chosen.principals,
        **{f"{name}_{rate}": each[rate] for name, each in rates.items() for rate in each},
    )


def _counts(world: World) -> tuple[int, int, int]:
    """Returns decisions computed, conditions found and conditions evaluated so far."""
    rights = [call.rights for call in world.calls]
    computed = sum(one.computed for one in rights if isinstance(one, PolicyRights))
    return computed, *count_evaluations()


def _rates(before: Sequence[int], after: Sequence[int], lookups: int) -> dict[str, float]:
    computed, found, evaluated = (new - old for old, new in zip(before, after, strict=True))
    conditions = found + evaluated
    return {
        "decisions_found": 1 - computed / lookups,
        "conditions_found": found / conditions if conditions else 1.0,
    }


def _seconds(run: Callable, items: Sequence) -> list[float]:
    """Returns the CPU seconds of each part of the items."""
    found = []
    for at in range(0, len(items), PART):
        start = time.thread_time()
        for item in items[at : at + PART]:
            run(item)
        found.append(time.thread_time() - start)
    return found


def _best(runs: list[list[float]]) -> float:
    """Returns the CPU seconds of the best run of each part: parts are short, and others interfere.

    A part does the same in each run.
    """
    return sum(min(parts) for parts in zip(*runs, strict=True))
