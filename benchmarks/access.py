"""Measures what decisions by policies add to one commit and to one read, in CPU time.

    python -m benchmarks access
    python -m benchmarks access --requests 2000    a second

Callers, keys and policies are drawn at random with a fixed seed. Every request is of a random
caller on a random reference and a random key; those are kept that are allowed, and as many that are
denied are measured by themselves. The decisions are those of the use cases: a commit decides on the
branch, on a key that it puts and on a key that it deletes; a read decides on one key of a reference
that the caller views. The same calls through a policy that allows everything are subtracted.

`first` is the first pass over all requests, with nothing in memory, as after a change of policies;
`again` are passes after it. Of several runs the best of each part counts. The rates are of the
first pass: decisions that were found instead of computed, and results of conditions that were found
instead of evaluated.
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
from lochan.model.access import AccessPolicy, Statement
from lochan.model.commits import ContentKey
from lochan.rules.conditions import count_evaluations, forget_evaluations
from lochan.service.policy import Access

REPOSITORY = "default"
COMMIT = ObjId(bytes(32))
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
        return Request(caller, random.choice(self.references), (random.choice(self.keys),))


class Decisions:
    """The decisions of one commit and of one read, as the use cases make them."""

    def __init__(self, world: World, policy: Policy) -> None:
        self._world = world
        self._decide = Access(REPOSITORY, policy).decide

    def commit(self, request: Request) -> None:
        call, decide = self._world.calls[request.caller], self._decide
        reference, keys = request.reference, request.keys
        decide(call, Action.COMMIT, reference, 1, COMMIT, keys)
        decide(call, Action.WRITE_CONTENT, reference, 1, COMMIT, keys)
        decide(call, Action.DELETE_CONTENT, reference, 1, COMMIT, keys)

    def read(self, request: Request) -> None:
        call = self._world.calls[request.caller]
        self._decide(call, Action.READ_CONTENT, request.reference, 1, COMMIT, request.keys)

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
"""Decisions that each kind of request needs at least: its own, and that the reference is viewed."""


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks access",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--principals", type=int, default=1_000, help="default: 1000")
    parser.add_argument("--keys", type=int, default=10_000, help="default: 10000")
    parser.add_argument("--policies", type=int, default=100, help="a tenth with conditions")
    parser.add_argument("--requests", type=int, default=50_000, help="default: 50000")
    parser.add_argument("--repeats", type=int, default=5, help="best of so many; default: 5")
    parser.add_argument("--seed", type=int, default=17)
    chosen = parser.parse_args(arguments)
    world = World(chosen.seed, chosen.principals, chosen.keys, chosen.policies)
    enforced = Decisions(world, EnforcedPolicy())
    free = Decisions(world, OpenPolicy())
    for kind in ("commit", "read"):
        world.compile()
        requests, drawn = world.draw(chosen.requests, getattr(enforced, kind))
        _measure(world, kind, requests, chosen, getattr(enforced, kind), getattr(free, kind))
        emit("access_drawn", kind=kind, allowed=len(requests), drawn=drawn)
    denied, _ = world.draw(chosen.requests, enforced.check_denied)
    _measure(world, "denied", denied, chosen, enforced.denied, free.denied)


def _measure(
    world: World,
    kind: str,
    requests: list[Request],
    chosen: argparse.Namespace,
    enforced: Callable[[Request], None],
    free: Callable[[Request], None],
) -> None:
    settle_heap()
    free_s = _best([_seconds(free, requests) for _ in range(chosen.repeats)])
    firsts, compiled = [], []
    for _ in range(chosen.repeats):
        compiled.append(_seconds(lambda _: world.compile(), [None]))
        firsts.append(_seconds(enforced, requests))
        evaluations = count_evaluations()
        computed = sum(
            call.rights.computed for call in world.calls if isinstance(call.rights, PolicyRights)
        )
    settle_heap()
    again_s = _best([_seconds(enforced, requests) for _ in range(chosen.repeats)])
    first_s, compile_s = _best(firsts), _best(compiled)
    per = 1e6 / len(requests)
    conditions = evaluations.found + evaluations.evaluated
    emit(
        "access",
        kind=kind,
        principals=chosen.principals,
        keys=chosen.keys,
        policies=chosen.policies,
        requests=len(requests),
        open_us=free_s * per,
        first_added_us=(first_s - free_s) * per,
        again_added_us=(again_s - free_s) * per,
        compile_us_per_principal=compile_s * 1e6 / chosen.principals,
        decisions_found=1 - computed / (len(requests) * LOOKUPS[kind]),
        conditions_found=evaluations.found / conditions if conditions else 1.0,
        conditions_evaluated=evaluations.evaluated,
    )


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
