"""Writes of every kind that carry an idempotency key, for the tests that send them again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
from lochan.service.calls import Call
from tests.service.bench import ME, Bench, changed_request, new

Write = Callable[[Bench, Call], Any]


class Hashes:
    """What the requests of one test name, fixed when it begins; a request never changes."""

    side: tuple[str, ...] = ()
    target: str = ""


def fix(desk: Bench) -> None:
    Hashes.side = tuple(entry.meta.hash or "" for entry in desk.log("side")[:2])[::-1]
    Hashes.target = desk.head("target")


def commit(desk: Bench, call: Call) -> Any:
    return desk.commit(
        new("ns.z"), new("ns.d"), branch="target", expected=Hashes.target, message="m", call=call
    )


def merge(desk: Bench, call: Call, **more: Any) -> Any:
    ask = MergeRequest(
        branch="target", expected=parse_spec(Hashes.target), source=parse_spec("side")
    )
    return desk.run(desk.merges.merge(call, changed_request(ask, **more)))


def merge_replayed(desk: Bench, call: Call) -> Any:
    return merge(desk, call, squash=False)


def merge_at_a_hash(desk: Bench, call: Call) -> Any:
    return merge(desk, call, source=f"side@{Hashes.side[0]}")


def merge_of_nothing(desk: Bench, call: Call) -> Any:
    return merge(desk, call, source="main")


def merge_without_an_expectation(desk: Bench, call: Call) -> Any:
    return merge(desk, call, expected=None)


def transplant(desk: Bench, call: Call, **more: Any) -> Any:
    ask = TransplantRequest(
        branch="target", expected=None, source="side", hashes=tuple(map(parse_spec, Hashes.side))
    )
    return desk.run(desk.merges.transplant(call, changed_request(ask, **more)))


def transplant_squashed(desk: Bench, call: Call) -> Any:
    return transplant(desk, call, squash=True)


def cherry_pick(desk: Bench, call: Call) -> Any:
    ask = TransplantRequest(
        branch="target", expected=None, source="", hashes=tuple(map(parse_spec, Hashes.side[::-1]))
    )
    return desk.run(desk.merges.cherry_pick(call, ask))


def revert(desk: Bench, call: Call) -> Any:
    ask = RevertRequest(branch="target", expected=None, hashes=(parse_spec(Hashes.target),))
    return desk.run(desk.merges.revert(call, ask))


def rebase(desk: Bench, call: Call) -> Any:
    return desk.merges.rebase(call, RebaseRequest(branch="target", onto=parse_spec("side")))


def force(desk: Bench, call: Call, **more: Any) -> Any:
    ask = MoveRequest(
        branch="target", source=parse_spec("side"), expected=parse_spec(Hashes.target)
    )
    return desk.merges.force(call, changed_request(ask, **more))


def force_anywhere(desk: Bench, call: Call) -> Any:
    return force(desk, call, expected=None)


def force_to_where_it_is(desk: Bench, call: Call) -> Any:
    return desk.merges.force(
        call, MoveRequest(branch="target", source=parse_spec("@" + Hashes.target))
    )


def fast_forward_of_nothing(desk: Bench, call: Call) -> Any:
    return desk.merges.fast_forward(call, MoveRequest(branch="target", source=parse_spec("main")))


def assign(desk: Bench, call: Call) -> Any:
    return desk.references.assign(call, "target", parse_spec(Hashes.target), parse_spec("side"))


def assign_to_where_it_is(desk: Bench, call: Call) -> Any:
    return desk.references.assign(call, "target", None, parse_spec("@" + Hashes.target))


def delete(desk: Bench, call: Call) -> Any:
    return desk.references.delete(call, "target", parse_spec(Hashes.target))


def create_namespace(desk: Bench, call: Call) -> Any:
    made = Namespace(elements=("made",), properties={"a": "b"})
    return desk.run(desk.repository.namespaces.create(call, "target", None, made))


def update_namespace(desk: Bench, call: Call) -> Any:
    change = desk.repository.namespaces.update
    return desk.run(change(call, "target", None, ("ns",), {"a": "b"}, set()))


def delete_namespace(desk: Bench, call: Call) -> Any:
    return desk.run(desk.repository.namespaces.delete(call, "target", None, ("empty",)))


def source_is_deleted(desk: Bench) -> None:
    desk.references.delete(ME, "side", None)


def source_is_moved(desk: Bench) -> None:
    desk.references.assign(ME, "side", None, parse_spec("main~1"))


def source_is_made_again(desk: Bench) -> None:
    desk.references.delete(ME, "side", None)
    desk.branch("side", "main")


def target_is_moved(desk: Bench) -> None:
    desk.references.assign(ME, "target", None, parse_spec("main"))


def target_is_moved_often(desk: Bench) -> None:
    for number in range(40):
        desk.references.assign(ME, "target", None, parse_spec("main~1" if number % 2 else "main"))


def target_is_committed_to(desk: Bench) -> None:
    desk.commit(new("ns.other"), branch="target", message="other")


def target_is_deleted(desk: Bench) -> None:
    desk.references.delete(ME, "target", None)


def target_is_made_again(desk: Bench) -> None:
    desk.references.delete(ME, "target", None)
    soon = desk.clock.now_us() + 1_000_000
    again = NewReference(kind="BRANCH", name="target", source=parse_spec("main"), expires_us=soon)
    desk.run(desk.references.create(ME, again))
    desk.commit(new("ns.again"), branch="target", message="again")


def target_is_moved_and_deleted(desk: Bench) -> None:
    target_is_moved_often(desk)
    target_is_made_again(desk)


def tombstone_is_gone(desk: Bench) -> None:
    target_is_deleted(desk)
    context = desk.repository.context
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
