"""Who caused a write is recorded in every commit and move, whatever a client claims."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lochan.access.policy import Call
from lochan.base.errors import Denied
from lochan.base.ids import ObjId
from lochan.base.limits.commits import ROLES_CHARACTERS_MAX, ROLES_RECORDED_MAX
from lochan.base.names import RefName
from lochan.kernel.provenance import (
    MORE_ROLES,
    SWEEP,
    UNNAMED,
    Initiator,
    Provenance,
    read_provenance,
    recorded_roles,
)
from lochan.kernel.repository import Ports
from lochan.kernel.views import CommitView
from lochan.model.commits import CommitMeta
from lochan.model.contents import Namespace
from lochan.model.references import ReferenceMove
from lochan.model.requests import (
    MergeRequest,
    MoveRequest,
    NewReference,
    RebaseRequest,
    RevertRequest,
    TransplantRequest,
)
from lochan.model.specs import ReferenceSpec, parse_spec
from lochan.service.pending_writes import PendingWrite
from lochan.service.repositories import Repositories
from lochan.stores.memory.store import MemoryStore
from lochan.testing.ports import ManualClock, RecordedWaiting, SeededRandom
from tests.service.bench import ME, Bench, forked, new

ROLES = ("everyone", "writers", "night-shift")
ADA = Call("ada", roles=ROLES)
KEYED = Call("ada", "key", b"one request", roles=ROLES)
SIDE = parse_spec("side")
META = CommitMeta(message="m", authors=("a claim",), properties=(("initiator", ("a claim",)),))


@pytest.fixture
def bench() -> Bench:
    return forked()


def head_of(bench: Bench, name: str = "main") -> CommitView:
    return bench.repository.context.views.load(ObjId(bytes.fromhex(bench.head(name))))


def hidden_of(view: CommitView) -> dict[str, tuple[str, ...]]:
    assert view.body is not None
    return dict(view.body.hidden)


def initiator_of(view: CommitView) -> Initiator:
    assert view.body is not None
    return read_provenance(view.body.hidden).who


def latest(bench: Bench, name: str = "main") -> ReferenceMove:
    return bench.references.log(ME, name, 1).items[0]


def do(bench: Bench, prepared: Any) -> Any:
    return bench.run(prepared) if isinstance(prepared, PendingWrite) else prepared


def side_line(bench: Bench) -> tuple[ReferenceSpec, ...]:
    log = bench.history.log(ME, SIDE, 2).items
    return tuple(ReferenceSpec(None, entry.meta.hash) for entry in reversed(log))


def merge(bench: Bench, call: Call, **more: Any) -> Any:
    return bench.merges.merge(call, MergeRequest(branch="main", source=SIDE, **more))


def transplant(bench: Bench, call: Call, **more: Any) -> Any:
    line = side_line(bench)
    request = TransplantRequest(branch="main", source="side", hashes=line, **more)
    return bench.merges.transplant(call, request)


def revert(bench: Bench, call: Call) -> Any:
    spec = ReferenceSpec(None, bench.head("main"))
    return bench.merges.revert(call, RevertRequest(branch="main", hashes=(spec,), meta=META))


Write = Callable[[Bench, Call], Any]

WRITES: dict[str, Write] = {
    "commit": lambda one, call: one.commits.commit(call, "main", None, META, [new("ns.x")]),
    "namespace": lambda one, call: one.repository.namespaces.create(
        call, "main", None, Namespace(elements=("made",))
    ),
    "merge": lambda one, call: merge(one, call, meta=META),
    "merge replayed": lambda one, call: merge(one, call, squash=False),
    "transplant": transplant,
    "transplant squashed": lambda one, call: transplant(one, call, squash=True, meta=META),
    "revert": revert,
    "assign": lambda one, call: one.references.assign(call, "main", None, SIDE),
    "force": lambda one, call: one.merges.force(call, MoveRequest(branch="main", source=SIDE)),
    "fast-forward": lambda one, call: one.merges.fast_forward(
        call, MoveRequest(branch="main", source=SIDE)
    ),
}


@pytest.mark.parametrize("call", [ADA, KEYED], ids=["plain", "keyed"])
@pytest.mark.parametrize("name", WRITES)
def test_every_write_records_who_caused_it_and_the_roles_then(bench, name, call):
    before = head_of(bench).sequence
    do(bench, WRITES[name](bench, call))
    entries = bench.references.log(ME, "main", 10).items
    made = [one for one in entries if one.version or _sequence(bench, one) > before]
    mine = [one for one in made if one.who == "ada"]
    assert mine[0] == entries[0]
    assert {one.roles for one in mine} == {ROLES}
    if name in ("transplant", "merge replayed"):
        assert len(mine) == 2


def _sequence(bench: Bench, move: ReferenceMove) -> int:
    return bench.repository.context.views.load(ObjId(bytes.fromhex(move.new))).sequence


def test_a_rebase_records_it_in_the_move_and_in_each_commit(bench):
    bench.fill("ns.more")
    bench.merges.rebase(ADA, RebaseRequest(branch="side", onto=parse_spec("main")))
    entries = bench.references.log(ME, "side", 10).items
    assert (entries[0].kind, entries[0].who, entries[0].roles) == ("rebase", "ada", ROLES)
    made = head_of(bench, "side")
    parent = bench.repository.context.views.load(made.parent)
    for view in (made, parent):
        assert initiator_of(view) == Initiator("ada", ROLES)


def test_creating_and_deleting_record_it_for_good(bench):
    """Also in the index of names, from which any server may write the row."""
    branch = NewReference(name="x", source=SIDE)
    bench.run(bench.references.create(ADA, branch))
    bench.references.delete(Call("bob", roles=("b",)), "x", None)
    entries = bench.references.log(ME, "x").items
    shown = [(one.kind, one.who, one.roles) for one in entries]
    assert shown == [("delete", "bob", ("b",)), ("create", "ada", ROLES)]
    index = bench.repository.context.references.fetch(RefName("int/refs"))
    views = bench.repository.context.views
    added = views.load(views.load(ObjId(index.row.pointer)).parent)
    assert hidden_of(added)["roles"] == ROLES


def test_moves_that_have_left_the_row_keep_it(bench):
    for number in range(40):
        call = Call(f"user{number}", roles=(f"role{number}",))
        bench.references.assign(call, "main", None, SIDE)
    entries = [one for one in bench.references.log(ME, "main", 100).items if one.kind == "assign"]
    assert [(one.who, one.roles) for one in entries] == [
        (f"user{number}", (f"role{number}",)) for number in reversed(range(40))
    ]


def test_a_request_that_found_nothing_to_do_shows_in_no_log(bench):
    bench.references.assign(ME, "main", None, SIDE)
    assert not do(bench, merge(bench, KEYED)).applied
    assert all(one.who != "ada" for one in bench.references.log(ME, "main").items)


def test_a_client_claims_an_author_and_nothing_else(bench):
    """Neither the committer nor a hidden header can be sent."""
    names = ("initiator", "roles", "operation", "kind", "source", "base", "committer")
    claimed = tuple((name, ("a claim",)) for name in sorted(names))
    meta = CommitMeta(message="m", authors=("bob",), committer="bob", properties=claimed)
    bench.run(bench.commits.commit(ADA, "main", None, meta, [new("ns.x")]))
    view = head_of(bench)
    hidden = hidden_of(view)
    assert hidden == {
        "initiator": ("ada",),
        "kind": ("commit",),
        "operation": hidden["operation"],
        "roles": ROLES,
    }
    shown = bench.log()[0].meta
    assert (shown.authors, shown.committer, shown.properties) == (("bob",), "ada", claimed)
    entry = latest(bench)
    assert (entry.kind, entry.who, entry.roles, entry.source) == ("commit", "ada", ROLES, "")


def test_a_commit_without_a_principal_has_no_further_header(bench):
    bench.run(bench.commits.commit(Call(), "main", None, CommitMeta(message="m"), [new("ns.x")]))
    assert list(hidden_of(head_of(bench))) == ["operation"]
    body = head_of(bench).body
    assert body is not None
    assert body.headers == ()


COPIES: dict[str, Write] = {
    "transplant": transplant,
    "merge replayed": lambda one, call: merge(one, call, squash=False),
    "rebase": lambda one, call: one.merges.rebase(
        call, RebaseRequest(branch="main", onto=parse_spec("side"))
    ),
}


@pytest.mark.parametrize("authors", [(), ("carol", "dan")])
@pytest.mark.parametrize("name", COPIES)
def test_a_commit_that_is_made_again_keeps_its_author_and_gets_another_committer(name, authors):
    bench = Bench()
    bench.fill("ns.a")
    bench.branch("side")
    bob = Call("bob", roles=("b",))
    meta = CommitMeta(message="by bob", authors=authors, properties=(("p", ("q",)),))
    branch = "main" if name == "rebase" else "side"
    bench.run(bench.commits.commit(bob, branch, None, meta, [new("ns.x")]))
    bench.fill("ns.y", branch="main" if branch == "side" else "side")
    if name == "transplant":
        spec = ReferenceSpec(None, bench.head("side"))
        request = TransplantRequest(branch="main", source="side", hashes=(spec,))
        bench.run(bench.merges.transplant(ADA, request))
    else:
        do(bench, COPIES[name](bench, ADA))
    (entry,) = bench.history.log(ME, parse_spec("main"), 1).items
    shown = entry.meta
    assert shown.message == "by bob"
    assert shown.authors == (authors or ("bob",))
    assert shown.committer == "ada"
    assert shown.properties == (("p", ("q",)),)
    assert initiator_of(head_of(bench)) == Initiator("ada", ROLES)


@pytest.mark.parametrize("name", COPIES)
def test_without_a_principal_a_commit_that_is_made_again_keeps_its_headers(name):
    bench = Bench()
    bench.fill("ns.a")
    bench.branch("side")
    branch = "main" if name == "rebase" else "side"
    meta = CommitMeta(message="said", committer="somebody")
    bench.run(bench.commits.commit(Call(), branch, None, meta, [new("ns.x")]))
    made = head_of(bench, branch)
    bench.fill("ns.y", branch="main" if branch == "side" else "side")
    if name == "transplant":
        spec = ReferenceSpec(None, bench.head("side"))
        request = TransplantRequest(branch="main", source="side", hashes=(spec,))
        bench.run(bench.merges.transplant(Call(), request))
    else:
        do(bench, COPIES[name](bench, Call()))
    again = head_of(bench, "main")
    assert made.body is not None
    assert again.body is not None
    assert again.body.headers == made.body.headers


def test_what_the_system_does_has_a_name_that_no_caller_has(bench):
    soon = bench.clock.now_us() + 1_000_000
    branch = NewReference(name="x", source=SIDE, expires_us=soon)
    bench.run(bench.references.create(ADA, branch))
    bench.clock.advance_us(3_600_000_000)
    assert bench.repository.sweep().expired == 1
    entry = latest(bench, "x")
    assert (entry.kind, entry.who, entry.roles) == ("delete", "system:sweep", ())
    for name in (SWEEP.name, "system:", "system:other"):
        for write in WRITES.values():
            with pytest.raises(Denied, match="system:"):
                do(bench, write(bench, Call(name)))


def test_many_roles_are_cut_with_a_mark():
    many = tuple(f"role{number:04}" for number in range(1_000))
    kept = recorded_roles(many)
    assert kept == (*many[:ROLES_RECORDED_MAX], MORE_ROLES)
    assert recorded_roles(many[:ROLES_RECORDED_MAX]) == many[:ROLES_RECORDED_MAX]
    long = ("x" * ROLES_CHARACTERS_MAX, "y")
    assert recorded_roles(long) == (long[0], MORE_ROLES)
    assert recorded_roles(("x" * (ROLES_CHARACTERS_MAX + 1),)) == (MORE_ROLES,)


def test_a_commit_of_a_caller_with_many_roles_is_made(bench):
    many = tuple(f"role{number:04}" for number in range(1_000))
    call = Call("ada", roles=many)
    bench.run(bench.commits.commit(call, "main", None, META, [new("ns.x")]))
    assert latest(bench).roles == recorded_roles(many)
    bench.references.assign(call, "main", None, SIDE)
    assert latest(bench).roles == recorded_roles(many)


@pytest.mark.parametrize(
    "provenance",
    [
        Provenance(),
        Provenance(operation="id"),
        Provenance(who=Initiator("ada")),
        Provenance(who=Initiator("ada", ROLES), operation="id"),
        Provenance(who=Initiator("", ("a role",))),
        Provenance("merge", "side", "ab", Initiator("ada", ("z", "a")), "id"),
        Provenance("merge", "side", "ab", UNNAMED, "id"),
    ],
)
def test_what_hidden_headers_record_is_read_again(provenance):
    headers = provenance.headers()
    assert read_provenance(headers) == provenance
    assert list(headers) == sorted(headers)


def test_the_first_branch_of_a_repository_has_its_creator():
    clock = ManualClock()
    store = MemoryStore()
    ports = Ports(clock, SeededRandom(1), RecordedWaiting(clock))
    Repositories(store, ports).create(ADA, "repo")
    entry = latest(Bench(store, fresh=False))
    assert (entry.kind, entry.who, entry.roles) == ("create", "ada", ROLES)
