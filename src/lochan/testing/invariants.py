"""Invariants of a repository to which nothing is written, as functions that raise AssertionError.

K1, R1 and so on are the names of the invariants. The context must be a new one: with a cache of the
code under test an invariant would be checked on what that code remembers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from lochan.base.ids import EMPTY_ID, ObjId
from lochan.base.keys import Key, Universe, file_path
from lochan.base.limits.commits import COMMIT_TAIL_MAX
from lochan.base.names import INTERNAL_PREFIX, REFS_NAME, RefName
from lochan.codec.commits import jump_sequence
from lochan.codec.rows import Move, ReferenceRow, decode_reference_element
from lochan.index.layers import read_page
from lochan.kernel.context import RepositoryContext
from lochan.kernel.history import ancestor_at, iterate_log
from lochan.kernel.views import CommitView
from lochan.kv.store import Kind, partition
from lochan.testing.memory_nodes import check_tree

_ALL = 10_000

Content = dict[bytes, bytes]
Apply = Callable[[Content, CommitView], None]


def all_rows(context: RepositoryContext) -> dict[str, ReferenceRow]:
    """Returns every reference row, internal and deleted ones too."""
    page = context.references.scan(b"", _ALL)
    assert not page.unreadable, page.unreadable
    return {found.row.name: found.row for found in page.rows}


def all_moves(context: RepositoryContext, row: ReferenceRow) -> list[Move]:
    """Returns the moves of a reference's present incarnation, from row and log."""
    log = context.moves.fetch_after(row.name, row.incarnation, 0)
    return list({move.version: move for move in (*log, *row.moves)}.values())


def line_of(context: RepositoryContext, head: ObjId) -> list[CommitView]:
    """Returns a commit and its first-parent ancestors, oldest first."""
    return list(iterate_log(context.views, head))[::-1]


def check_chain(context: RepositoryContext, head: ObjId) -> None:
    """K1: one direct parent, sequence and generation, tail and jump are the true ancestors."""
    ids = [EMPTY_ID]
    for number, view in enumerate(line_of(context, head), 1):
        body = view.body
        assert body is not None
        assert body.parents[0] == ids[-1], "K1: a chain has no gap"
        assert body.sequence == number, "K1: the sequence counts"
        merged = [context.views.load(ObjId(raw)).generation for raw in body.parents]
        assert body.generation == max(merged) + 1, "K1: the generation is above all parents"
        tail = tuple(ids[:0:-1])[:COMMIT_TAIL_MAX]
        assert body.tail == tail, "K1: the tail is the true ancestors"
        assert body.jump == ids[jump_sequence(number)], "K1: the jump leads to its sequence"
        assert ancestor_at(context.views, view, number // 2) == ids[number // 2]
        ids.append(view.obj_id)


def content_of(context: RepositoryContext, view: CommitView) -> Content:
    """Returns all keys and elements of a commit's index."""
    found: Content = {}
    for universe in Universe:
        found |= dict(read_page(context.nodes, view.index(universe), b"", None, _ALL))
    return found


def check_content(context: RepositoryContext, head: ObjId, apply: Apply) -> None:
    """K7: the index is the fold of all operations from the root, in canonical trees."""
    content: Content = {}
    last = None
    for view in line_of(context, head):
        apply(content, view)
        last = view
    if last is not None:
        assert content_of(context, last) == content, "K7: the index is the fold of the operations"
        check_tree(context.nodes, context.rule, 50, last.tables.root)
        check_tree(context.nodes, context.rule, None, last.files.root)


def operations_in(context: RepositoryContext, heads: Iterable[ObjId]) -> list[str]:
    """Returns the operation ids of all commits reachable by first parents, one for each commit."""
    seen: dict[ObjId, str] = {}
    for head in heads:
        for view in iterate_log(context.views, head):
            if view.obj_id in seen or view.body is None:
                break
            hidden = dict(view.body.hidden)
            seen[view.obj_id] = hidden.get("operation", ("",))[0]
    return list(seen.values())


def heads_of(context: RepositoryContext, row: ReferenceRow) -> list[ObjId]:
    """Returns the present pointer of a reference and the former ones that its moves contain."""
    return [ObjId(row.pointer), *(ObjId(m.old) for m in all_moves(context, row) if m.old)]


def check_operations(
    context: RepositoryContext,
    row: ReferenceRow,
    acknowledged: Iterable[str],
    refused: Iterable[str],
) -> None:
    """K2, K3, K5: acknowledged ones are there, nothing twice, refused ones nowhere."""
    found = operations_in(context, heads_of(context, row))
    for operation in acknowledged:
        assert found.count(operation) >= 1, f"K2: {operation} was acknowledged and is lost"
    for operation in set(found):
        assert found.count(operation) == 1, f"K3: {operation} was applied twice"
    for operation in refused:
        assert operation not in found, f"K5: {operation} was refused and is there"


def check_order(
    context: RepositoryContext, row: ReferenceRow, pairs: Iterable[tuple[str, str]]
) -> None:
    """K4: of two acknowledged ones, the one that ended before the other began comes first."""
    order = [
        dict(view.body.hidden).get("operation", ("",))[0]
        for view in line_of(context, ObjId(row.pointer))
        if view.body is not None
    ]
    for first, second in pairs:
        if first in order and second in order:
            assert order.index(first) < order.index(second), "K4: real time is kept"


def check_references(context: RepositoryContext) -> None:
    """R1: a live row has an index entry of the same incarnation, and the other way round."""
    rows = all_rows(context)
    refs = context.views.load(ObjId(rows[REFS_NAME].pointer))
    listed: Mapping[str, int] = {
        file_path(Key(key)): decode_reference_element(element).incarnation
        for key, element in content_of(context, refs).items()
    }
    live = {
        name: row.incarnation
        for name, row in rows.items()
        if not row.deleted and not name.startswith(INTERNAL_PREFIX)
    }
    assert live == listed, f"R1: live rows {live}, listed {dict(listed)}"
    for name in listed:
        assert not name.startswith(INTERNAL_PREFIX), "R5: internal names are not listed"


def check_moves(context: RepositoryContext, name: RefName, acknowledged: Iterable[bytes]) -> None:
    """No acknowledged move of any incarnation of a reference is missing from the ref-log."""
    row = all_rows(context).get(name)
    assert row is not None, "a reference that was ever moved has a row"
    place = partition(context.instance, Kind.LOG)
    page = context.store.scan(place, name.encode() + b"\0", name.encode() + b"\1", _ALL)
    logged = {entry.value for entry in page.entries}
    known = {move.operation for move in row.moves}
    for operation in acknowledged:
        assert operation in known or any(operation in raw for raw in logged), "a move is missing"
