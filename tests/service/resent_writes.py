"""Writes of every kind that carry an idempotency key, for the tests that send them again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lochan.access.policy import Call
from lochan.base.names import RefName
from lochan.model.contents import Namespace
from lochan.model.requests import (
    MergeRequest,
    MoveRequest,
    NewReference,
    RebaseRequest,
    RevertRequest,
    TransplantRequest,
)
from lochan.model.specs import parse_spec
from tests.service.bench import ME, Bench, changed_request, new

Write = Callable[[Bench, Call], Any]


class Hashes:
    """What the requests of one test name, fixed when it begins; a request never changes."""

    side: tuple[str, ...] = ()
    target: str = ""


def fix(bench: Bench) -> None:
    Hashes.side = tuple(entry.meta.hash or "" for entry in bench.log("side")[:2])[::-1]
    Hashes.target = bench.head("target")


def commit(bench: Bench, call: Call) -> Any:
    return bench.commit(
        new("ns.z"), new("ns.d"), branch="target", expected=Hashes.target, message="m", call=call
    )


def merge(bench: Bench, call: Call, **more: Any) -> Any:
    ask = MergeRequest(
        branch="target", expected=parse_spec(Hashes.target), source=parse_spec("side")
    )
    return bench.run(bench.merges.merge(call, changed_request(ask, **more)))


def merge_replayed(bench: Bench, call: Call) -> Any:
    return merge(bench, call, squash=False)


def merge_at_a_hash(bench: Bench, call: Call) -> Any:
    return merge(bench, call, source=f"side@{Hashes.side[0]}")


def merge_of_nothing(bench: Bench, call: Call) -> Any:
    return merge(bench, call, source="main")


def merge_without_an_expectation(bench: Bench, call: Call) -> Any:
    return merge(bench, call, expected=None)


def transplant(bench: Bench, call: Call, **more: Any) -> Any:
    ask = TransplantRequest(
        branch="target", expected=None, source="side", hashes=tuple(map(parse_spec, Hashes.side))
    )
    return bench.run(bench.merges.transplant(call, changed_request(ask, **more)))


def transplant_squashed(bench: Bench, call: Call) -> Any:
    return transplant(bench, call, squash=True)


def cherry_pick(bench: Bench, call: Call) -> Any:
    ask = TransplantRequest(
        branch="target", expected=None, source="", hashes=tuple(map(parse_spec, Hashes.side[::-1]))
    )
    return bench.run(bench.merges.cherry_pick(call, ask))


def revert(bench: Bench, call: Call) -> Any:
    ask = RevertRequest(branch="target", expected=None, hashes=(parse_spec(Hashes.target),))
    return bench.run(bench.merges.revert(call, ask))


def rebase(bench: Bench, call: Call) -> Any:
    return bench.merges.rebase(call, RebaseRequest(branch="target", onto=parse_spec("side")))


def force(bench: Bench, call: Call, **more: Any) -> Any:
    ask = MoveRequest(
        branch="target", source=parse_spec("side"), expected=parse_spec(Hashes.target)
    )
    return bench.merges.force(call, changed_request(ask, **more))


def force_anywhere(bench: Bench, call: Call) -> Any:
    return force(bench, call, expected=None)


def force_to_where_it_is(bench: Bench, call: Call) -> Any:
    return bench.merges.force(
        call, MoveRequest(branch="target", source=parse_spec("@" + Hashes.target))
    )


def fast_forward_of_nothing(bench: Bench, call: Call) -> Any:
    return bench.merges.fast_forward(call, MoveRequest(branch="target", source=parse_spec("main")))


def assign(bench: Bench, call: Call) -> Any:
    return bench.references.assign(call, "target", parse_spec(Hashes.target), parse_spec("side"))


def assign_to_where_it_is(bench: Bench, call: Call) -> Any:
    return bench.references.assign(call, "target", None, parse_spec("@" + Hashes.target))


def delete(bench: Bench, call: Call) -> Any:
    return bench.references.delete(call, "target", parse_spec(Hashes.target))


def create_namespace(bench: Bench, call: Call) -> Any:
    made = Namespace(elements=("made",), properties={"a": "b"})
    return bench.run(bench.repository.namespaces.create(call, "target", None, made))


def update_namespace(bench: Bench, call: Call) -> Any:
    change = bench.repository.namespaces.update
    return bench.run(change(call, "target", None, ("ns",), {"a": "b"}, set()))


def delete_namespace(bench: Bench, call: Call) -> Any:
    return bench.run(bench.repository.namespaces.delete(call, "target", None, ("empty",)))


def source_is_deleted(bench: Bench) -> None:
    bench.references.delete(ME, "side", None)


def source_is_moved(bench: Bench) -> None:
    bench.references.assign(ME, "side", None, parse_spec("main~1"))


def source_is_made_again(bench: Bench) -> None:
    bench.references.delete(ME, "side", None)
    bench.branch("side", "main")


def target_is_moved(bench: Bench) -> None:
    bench.references.assign(ME, "target", None, parse_spec("main"))


def target_is_moved_often(bench: Bench) -> None:
    for number in range(40):
        bench.references.assign(ME, "target", None, parse_spec("main~1" if number % 2 else "main"))


def target_is_committed_to(bench: Bench) -> None:
    bench.commit(new("ns.other"), branch="target", message="other")


def target_is_deleted(bench: Bench) -> None:
    bench.references.delete(ME, "target", None)


def target_is_made_again(bench: Bench) -> None:
    bench.references.delete(ME, "target", None)
    soon = bench.clock.now_us() + 1_000_000
    again = NewReference(kind="BRANCH", name="target", source=parse_spec("main"), expires_us=soon)
    bench.run(bench.references.create(ME, again))
    bench.commit(new("ns.again"), branch="target", message="again")


def target_is_moved_and_deleted(bench: Bench) -> None:
    target_is_moved_often(bench)
    target_is_made_again(bench)


def tombstone_is_gone(bench: Bench) -> None:
    target_is_deleted(bench)
    context = bench.repository.context
    found = context.references.fetch(RefName("target"))
    assert found is not None
    context.moves.copy(found.row, found.row.moves)
    context.references.remove(found)


WRITES: list[Write] = [
    commit,
    merge,
    merge_replayed,
    merge_at_a_hash,
    merge_of_nothing,
    merge_without_an_expectation,
    transplant,
    transplant_squashed,
    cherry_pick,
    revert,
    rebase,
    force,
    force_to_where_it_is,
    fast_forward_of_nothing,
    assign,
    assign_to_where_it_is,
    delete,
    create_namespace,
    update_namespace,
    delete_namespace,
]
