"""What must hold of one commit, of one row and of a name; what does not is returned as text.

None of them walks through history: `check.py` applies them to a whole repository, and the
invariants of `lochan.testing` to simulated ones.
"""

from __future__ import annotations

from collections.abc import Iterator

from lochan.base.ids import EMPTY_ID, ID_BYTES, ObjId
from lochan.base.keys import Universe
from lochan.base.limits.commits import COMMIT_TAIL_MAX, MOVES_MAX, PREVIOUS_POINTERS_MAX
from lochan.codec.commits import CommitObject, digest_operations, jump_sequence
from lochan.codec.rows import ReferenceElement, ReferenceRow
from lochan.index.layers import find_many
from lochan.index.source import NodeSource
from lochan.kernel.changes import diff_commits, unchanged_keys
from lochan.kernel.history import ancestor_at
from lochan.kernel.views import CommitView, Views

_KINDS = ("BRANCH", "TAG", "INTERNAL")


def misplaced(views: Views, view: CommitView) -> Iterator[str]:
    """Yields what is wrong with the place of a commit in history, given that its parent's is right.

    K1: sequence and generation, tail and jump are those of its true ancestors.
    """
    body = view.body
    if body is None:
        return
    parent, *merged = views.load_many([ObjId(raw) for raw in body.parents])
    before = parent.body
    tail = () if before is None else (parent.obj_id, *before.tail[: COMMIT_TAIL_MAX - 1])
    if body.sequence != parent.sequence + 1:
        yield f"its sequence is {body.sequence}, its parent's {parent.sequence}"
        return
    highest = max(one.generation for one in (parent, *merged))
    if body.generation != highest + 1:
        yield f"its generation is {body.generation}, that of its parents at most {highest}"
    if body.merges != parent.merges + bool(merged):
        yield "it counts the merges before it wrongly"
    if before is not None and body.created_us < before.created_us:
        yield "it is older than its parent"
    if body.root != (b"" if before is None else before.root or parent.obj_id):
        yield "its root is not that of its parent"
    if body.tail != tail:
        yield "its tail is not the line of its ancestors"
    elif body.jump != _jump(views, body, parent):
        yield "its jump does not lead to the ancestor that its sequence requires"


def misindexed(nodes: NodeSource, parent: CommitView, view: CommitView) -> Iterator[str]:
    """Yields what is wrong with the index of a commit, given that its parent's is right.

    K7: it is the parent's with the commit's own operations, whose digest the id covers.
    """
    body = view.body
    if body is None:
        return
    listed = body.own
    if listed is None:
        changed = [change.key for change in diff_commits(nodes, parent, view)]
        listed = tuple(sorted({*changed, *unchanged_keys(nodes, view)}))
    elif list(listed) != sorted(set(listed)):
        yield "its own keys are not in order"
        return
    elif body.unchanged_root is not None:
        yield "it lists its own keys and has a tree of some of them besides"
    else:
        own = set(listed)
        if any(change.key not in own for change in diff_commits(nodes, parent, view)):
            yield "its index changed a key that is not its own"
    found: dict[bytes, bytes | None] = {}
    for universe in Universe:
        keys = [key for key in listed if key[0] == universe]
        found.update(zip(keys, find_many(nodes, view.index(universe), keys), strict=True))
    if digest_operations((key, found.get(key)) for key in listed) != body.operations:
        yield "its index does not hold what its operations put there"


def malformed(row: ReferenceRow, key: bytes) -> Iterator[str]:
    """Yields the faults of a row that show without reading anything else."""
    if row.name.encode() != key:
        yield "its row names another reference"
    if row.kind not in _KINDS:
        yield f"its row is of an unknown kind {row.kind!r}"
    if len(row.pointer) != ID_BYTES:
        yield "the pointer in its row does not have the length of an id"
    versions = [move.version for move in row.moves]
    if versions != sorted(set(versions)) or not all(
        0 < version <= row.version for version in versions
    ):
        yield "the moves in its row are out of order"
    if len(row.moves) > MOVES_MAX or len(row.previous) > PREVIOUS_POINTERS_MAX:
        yield "its row has too many moves or previous pointers"
    if not row.moves:
        # The index of names is created with its repository, by no move.
        if row.kind != "INTERNAL":
            yield "its row has no moves, not even the one that made it"
        return
    last = row.moves[-1]
    if row.deleted != (last.kind == "delete"):
        yield "its row and its last move do not agree on whether it is deleted"
    # A commit raises the version of the row without a move.
    if last.version == row.version and (last.new, last.operation) != (row.pointer, row.operation):
        yield "its row is not what its last move made"


def mislisted(row: ReferenceRow | None, element: ReferenceElement | None) -> tuple[bool, str]:
    """Compares row and index of one name; returns what is wrong, and whether it is damage.

    A step that was left half done is no damage: the next use of the name finishes it.
    """
    if element is None:
        if row is None or row.deleted:
            return False, ""
        return True, "it has a live row that the index of names does not list"
    if row is None:
        return False, "it is listed and has no row yet: a creation that is half done"
    if row.incarnation > element.incarnation:
        return True, "its row is of a later incarnation than the index of names lists"
    if row.incarnation < element.incarnation:
        if row.deleted:
            return False, "its row is of an earlier incarnation: a creation that is half done"
        return True, "its row is live in an earlier incarnation than the index of names lists"
    if (row.kind, row.created_us) != (element.kind, element.created_us):
        return True, "its row and the index of names do not agree"
    if row.deleted:
        return False, "it is listed and deleted: a deletion that is half done"
    return False, ""


def _jump(views: Views, body: CommitObject, parent: CommitView) -> bytes:
    target = jump_sequence(body.sequence)
    return EMPTY_ID if target == 0 else ancestor_at(views, parent, target)
