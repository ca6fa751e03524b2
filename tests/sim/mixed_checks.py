"""Holds what servers did against the plain model of history, transition by transition.

`watch` notes every state of every branch. Each change of a branch must be one of two things: a move
that was requested, or commits on top of the head before. Commits are taken apart into requests by
their operation ids, and each request's commits must be what the model works out on their parent,
from its content, the source and a best common ancestor. What was refused must be refused by the
model on a head that the branch had while the request ran; who had nothing to do, likewise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import Any

import msgspec

from lochan.base.errors import KeysConflict, LochanError
from lochan.base.ids import EMPTY_ID, ObjId
from lochan.base.names import RefName
from lochan.codec.rows import ReferenceRow
from lochan.kernel.publish import Published
from lochan.persist.references import References
from lochan.testing.invariants import check_chain, content_of
from lochan.testing.models.history import History as Plain
from lochan.testing.models.merges import Outcome
from lochan.testing.sim import Event, History, World
from tests.sim.mixed_requests import BRANCHES, DrawnMove, Request

WRITES = ("apply", "apply_each", "set_if")
UNCERTAIN = ("unknown",)
MISHAPS = ("unavailable", "exhausted")
"""Errors that say that nothing was done, and nothing about the request."""


def watch(world: World) -> None:
    """Notes the branches whenever one of them has changed: (step, name, row)."""
    steps = world.trace.steps
    if steps and steps[-1][1].operation not in WRITES:
        return
    references = References(world.store, world.prepared[0])
    last: dict[RefName, ReferenceRow] = {name: row for _, name, row in world.watched}
    for name in BRANCHES:
        found = references.fetch(name)
        assert found is not None
        if last.get(name) != found.row:
            world.watched.append((len(steps) - 1, name, found.row))


class Change(msgspec.Struct, frozen=True):
    """A branch before and after one step."""

    step: int
    before: ReferenceRow
    after: ReferenceRow


class Seen:
    """All commits of a run as the model has them, and every state of the branches."""

    def __init__(self, world: World) -> None:
        self._app = world.new_server("checker").app
        self.context = self._app.context
        self.plain = Plain(EMPTY_ID.hex())
        self.operations: dict[str, str] = {}
        self.states: dict[RefName, list[tuple[int, ReferenceRow]]] = {name: [] for name in BRANCHES}
        for step, name, row in world.watched:
            self.states[name].append((step, row))
            self._add(ObjId(row.pointer))

    def read_key(self, raw: bytes) -> Any:
        """Returns a key as the model has it."""
        return self._app.read_key(raw)

    def changes(self, name: RefName) -> Iterator[Change]:
        states = self.states[name]
        for (_, before), (step, after) in pairwise(states):
            yield Change(step, before, after)

    def between(self, before: str, after: str) -> list[str] | None:
        """Returns the first-parent commits after one up to another, oldest first."""
        found = []
        for commit in self.plain.line(after):
            if commit.id == before:
                return found[::-1]
            found.append(commit.id)
        return found[::-1] if before == self.plain.empty else None

    def met(self, name: RefName, event: Event) -> list[str]:
        """Returns the heads that a branch had while a request ran, those inside chains too."""
        heads: dict[str, None] = {}
        last = None
        for step, row in self.states[name]:
            head = row.pointer.hex()
            if step < event.start:
                heads = {head: None}
            elif step <= event.end:
                inner = self.between(last, head) if last is not None else None
                heads |= dict.fromkeys(inner or ())
                heads[head] = None
            last = head
        return list(heads)

    def _add(self, head: ObjId) -> None:
        """Takes commits over, parents first, and compares what their indexes say."""
        waiting = [head]
        while waiting:
            obj_id = waiting[-1]
            if obj_id.hex() in self.plain:
                waiting.pop()
                continue
            view = self.context.views.load(obj_id)
            assert view.body is not None
            assert view.body.own is not None
            missing = [ObjId(raw) for raw in view.body.parents if raw.hex() not in self.plain]
            if missing:
                waiting += missing
                continue
            read_key, read_value = self._app.read_key, self._app.read_value
            found = content_of(self.context, view)
            content = {read_key(key): read_value(value) for key, value in found.items()}
            operations = {read_key(key): content.get(read_key(key)) for key in view.body.own}
            parents = [raw.hex() for raw in view.body.parents]
            made = self.plain.add(obj_id.hex(), parents, operations, view.body.message)
            assert made.content == content, "K7: the index is the fold of the operations"
            self.operations[made.id] = self._app.operation_of(dict(view.body.hidden))


def history_is_that_of_the_model(world: World, history: History) -> None:
    """Every commit and every move of every branch is what the model says; every answer is true."""
    seen = Seen(world)
    _check_chains(seen, history)
    _check_moves(seen, history)


def _check_chains(seen: Seen, history: History) -> None:
    requests = _by_operation(history)
    published: dict[str, tuple[RefName, list[str]]] = {}
    for name in BRANCHES:
        for change in seen.changes(name):
            if change.after.moves != change.before.moves:
                continue
            line = seen.between(change.before.pointer.hex(), change.after.pointer.hex())
            assert line, f"{name} left its line without a move"
            for operation, group in groupby(line, lambda one: seen.operations[one]):
                assert operation not in published, f"K3: {operation} was applied twice"
                commits = list(group)
                published[operation] = (name, commits)
                assert operation in requests, f"nobody asked for {operation}"
                _check_commits(seen, requests[operation], name, commits)
        check_chain(seen.context, ObjId(seen.states[name][-1][1].pointer))
    for event in history.of("chain"):
        for request, answer in _answers(event):
            _check_answer(seen, event, request, answer, published)

    for event in history.of("preview"):
        for request, answer in _answers(event):
            _check_preview(seen, event, request, answer)


def _check_preview(seen: Seen, event: Event, request: Request, answer: Any) -> None:
    """A dry run answers as the model does on a head that was met."""
    if isinstance(answer, LochanError):
        if answer.kind not in (*UNCERTAIN, *MISHAPS):
            _check_refusal(seen, event, request, answer)
        return
    if answer is None or (request.claimed is not None and request.claimed.done is not None):
        return
    made = [{seen.read_key(raw) for raw in view.body.own} for view in answer.commits]
    heads = seen.met(request.branch, event)
    wanted = [one for head in heads for one in request.model(seen.plain, head) if not one.refused]
    assert any(made == [set(one.operations) for one in outcome.commits] for outcome in wanted), (
        f"{request} would make {made}, the model {[_text(one) for one in wanted]}"
    )


def _by_operation(history: History) -> dict[str, list[Request]]:
    found: dict[str, list[Request]] = {}
    for event in history.of("chain"):
        for request in _requests(event):
            found.setdefault(request.operation, []).append(request)
    return found


def _requests(event: Event) -> Sequence[Request]:
    return event.arguments[1]  # type: ignore[return-value]


def _answers(event: Event) -> Iterable[tuple[Request, Any]]:
    """Returns each request with its answer, None where nobody knows."""
    requests = _requests(event)
    answers = event.result if event.acknowledged else [None] * len(requests)
    return zip(requests, answers, strict=True)


def _check_commits(
    seen: Seen, requests: Sequence[Request], name: RefName, commits: list[str]
) -> None:
    """The commits that a request has made are those of the model on their parent."""
    plain = seen.plain
    head = plain.commits[commits[0]].parents[0]
    made = [(plain.content(one), plain.commits[one].parents[1:]) for one in commits]
    wanted = []
    for request in requests:
        for outcome in request.model(seen.plain, head) if request.branch == name else ():
            wanted.append(outcome)
            if [(one.content, one.merged) for one in outcome.commits] == made:
                return
    raise AssertionError(
        f"{requests} on {head[:8]} made {made}, the model {[_text(one) for one in wanted]}"
    )


def _text(outcome: Outcome) -> str:
    if outcome.refused:
        return f"refuses {outcome.invalid} {[one.key for one in outcome.conflicts]}"
    return f"{[(one.content, one.merged) for one in outcome.commits]} from {outcome.base}"


def _check_answer(
    seen: Seen,
    event: Event,
    request: Request,
    answer: Any,
    published: dict[str, tuple[RefName, list[str]]],
) -> None:
    done = published.get(request.operation)
    if answer is None or (isinstance(answer, LochanError) and answer.kind in UNCERTAIN):
        return
    if isinstance(answer, LochanError):
        shared = request.claimed is not None
        assert done is None or shared, f"K5: {request} was refused ({answer.kind}) and is there"
        if answer.kind not in MISHAPS:
            _check_refusal(seen, event, request, answer)
        return
    assert isinstance(answer, Published)
    if answer.commits:
        commits = [view.obj_id.hex() for view in answer.commits]
        assert done == (request.branch, commits), f"K2: {request} was acknowledged and is lost"
        head = seen.plain.commits[commits[0]].parents[0]
        _check_base(seen, request, head)
        _check_merged(request, answer, head)
        return
    if request.claimed is not None and request.claimed.done is not None:
        found = request.claimed.done
        told = [view.obj_id.hex() for view in getattr(found, "commits", (found,))]
        assert done is not None, f"K2: {request} was told to be done before"
        assert told, f"{request} was told to be done, and not by what"
        assert set(told) <= set(done[1]), f"{request} was told to be done by others"
        return
    # Another try of the same keyed request may have met a head on which there was something to do.
    shared = request.claimed is not None
    assert done is None or shared, f"{request} was told that it has nothing to do, and is there"
    head = answer.head.obj_id.hex()
    assert head in seen.met(request.branch, event), f"{request} was answered on a head of its own"
    assert any(not one.refused and not one.commits for one in request.model(seen.plain, head)), (
        f"{request} did nothing on {head[:8]}, the model"
        f" {[_text(one) for one in request.model(seen.plain, head)]}"
    )
    _check_base(seen, request, head)
    _check_merged(request, answer, head)


def _check_merged(request: Request, answer: Published, head: str) -> None:
    """What a client is told of a merge is what was done, and on which head."""
    if request.finish is None or request.kind == "commit":
        return
    merged = request.finish(answer)
    commits = tuple(view.obj_id.hex() for view in answer.commits)
    assert (merged.applied, merged.commits) == (bool(commits), commits), f"{request}: {merged}"
    assert merged.effective_target == head, f"{request} reports another target"
    assert merged.hash == (commits[-1] if commits else head), f"{request} reports another hash"


def _check_base(seen: Seen, request: Request, head: str) -> None:
    """The merge base that was reported is a best common ancestor."""
    if request.kind in ("merge", "replay"):
        best = seen.plain.best_common_ancestors(head, request.source)
        told = request.proposal.base
        assert told is not None
        assert told.obj_id.hex() in best, f"{request} reports a base that is not a best one"


def _check_refusal(seen: Seen, event: Event, request: Request, answer: LochanError) -> None:
    """On a head that the branch had meanwhile the model refuses the same keys."""
    wanted = []
    for head in seen.met(request.branch, event):
        for outcome in request.model(seen.plain, head):
            if _is_refused_like(outcome, answer):
                return
            wanted.append(outcome)
    told = _keys(answer) if isinstance(answer, KeysConflict) else answer
    raise AssertionError(
        f"K6: {request} was refused for nothing: {told}, the model {[_text(one) for one in wanted]}"
    )


def _keys(refusal: KeysConflict) -> set[Any]:
    details: Sequence[Any] = refusal.details
    return {one.key for one in details}


def _is_refused_like(outcome: Outcome, answer: LochanError) -> bool:
    if isinstance(answer, KeysConflict):
        told = _keys(answer)
        wanted = {one.key for one in outcome.conflicts}
        rules = any(one.rule != "CHANGED" for one in outcome.conflicts)
        return bool(told) and (told <= wanted if rules else told == wanted)
    return answer.kind in ("invalid", "reference_not_found") and bool(outcome.invalid)


def _check_moves(seen: Seen, history: History) -> None:
    """Every move of a branch leads where the model says, and every answer about one is true."""
    requests: dict[str, DrawnMove] = {}
    events = {}
    for event in history.of("move"):
        request: Any = event.arguments[0]
        requests[request.name] = request
        events[request.name] = event
    done: dict[str, Change] = {}
    for name in BRANCHES:
        for change in seen.changes(name):
            if change.after.moves == change.before.moves:
                continue
            move = change.after.moves[-1]
            assert move.old == change.before.pointer
            assert move.who not in done, f"{move.who} took effect twice"
            done[move.who] = change
            wanted = requests[move.who].model(seen.plain, move.old.hex())
            _check_moved(seen, requests[move.who], change, wanted)
    for who, event in events.items():
        _check_move_answer(seen, event, requests[who], done.get(who))


def _check_moved(seen: Seen, request: DrawnMove, change: Change, wanted: Outcome | None) -> None:
    assert wanted is not None, f"{request} moved though there was nothing to do"
    assert not wanted.refused, f"{request} moved, the model {_text(wanted)}"
    line = seen.between(request.source, change.after.pointer.hex())
    assert line is not None, f"{request} led elsewhere"
    made = [seen.plain.content(one) for one in line]
    assert made == [one.content for one in wanted.commits], (
        f"{request} made {made}, the model {_text(wanted)}"
    )


def _check_move_answer(seen: Seen, event: Event, request: DrawnMove, done: Change | None) -> None:
    if event.uncertain:
        return
    if event.acknowledged and event.result.moved:
        assert done is not None, f"{request} was acknowledged and is lost"
        assert done.after.pointer.hex() == event.result.head, f"{request} was told another head"
        return
    assert done is None, f"{request} took effect, the answer says otherwise: {event.outcome}"
    if event.outcome in MISHAPS:
        return
    found = [request.model(seen.plain, head) for head in seen.met(request.branch, event)]
    if event.acknowledged:
        assert any(one is None for one in found), f"{request} had something to do"
    elif isinstance(event.error, KeysConflict):
        error = event.error
        assert any(one is not None and _is_refused_like(one, error) for one in found), (
            f"K6: {request} was refused for nothing"
        )
    else:
        assert any(one is not None and one.invalid for one in found), (
            f"K6: {request} was refused for nothing: {event.outcome}"
        )


CHECKS = {"history": history_is_that_of_the_model}
