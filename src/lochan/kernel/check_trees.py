"""Checking trees and contents, each node and each content once however many commits share it.

A tree must be exactly the one that its content builds. Cuts look only backwards, so that holds if
it holds of every node by itself: its keys ascend and are packed as they should be, the first cut in
it is at its end (the last node of a level may end earlier), and its parent describes it rightly. So
a node that was checked below one root is not read again below another.

Memory: about 300 bytes for each node and 100 for each content, remembered as 32 bytes of id in
Python's own containers; a million keys are some 110 MB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from hashlib import sha256
from itertools import pairwise
from typing import Final

import msgspec

from lochan.base.errors import Corrupt, NewerFormat
from lochan.base.ids import ContentId, ObjId, find_uuid_bytes
from lochan.base.keys import Universe
from lochan.codec.elements import decode_file, decode_table, is_remove
from lochan.codec.objects import (
    FileObject,
    NodeObject,
    ValueObject,
    check_object_id,
    decode_object,
    find_object_id,
)
from lochan.codec.rows import decode_reference_element
from lochan.index.build import find_cuts
from lochan.index.layers import SHAPES
from lochan.index.node import (
    CHILD_WIDTH,
    Node,
    check_shape,
    child_at,
    child_count_at,
    keys_of,
    pack_node,
    values_of,
)
from lochan.kernel.check_findings import Findings, Problem, RowKind
from lochan.kernel.context import RepositoryContext
from lochan.model.entries import FileEntry, TableEntry

# Nodes and contents that are fetched together: one round trip, a few MB at most.
_FETCHED: Final = 64
_PROGRESS_NODES: Final = 1_000

Decode = Callable[[bytes], object]
"""Reads a stored content; the kernel does not know their types."""


class Layout(msgspec.Struct, frozen=True, gc=False):
    """What the leaves of a tree hold: the width of values, and the universe of the keys.

    With `names` the files are names of references; without a universe values are only marks.
    """

    width: int | None
    universe: Universe | None = None
    names: bool = False


TABLES: Final = Layout(SHAPES[Universe.TABLES].width, Universe.TABLES)
FILES: Final = Layout(SHAPES[Universe.FILES].width, Universe.FILES)
NAMES: Final = Layout(SHAPES[Universe.FILES].width, Universe.FILES, names=True)
MARKS: Final = Layout(1)


class _Facts(msgspec.Struct, frozen=True, gc=False):
    """What a parent states about a node, and the key that must come before it."""

    level: int
    total: int
    first: bytes
    last: bytes


class _Due(msgspec.Struct, frozen=True, gc=False):
    """A node to be read: where it is referred to, and what its parent states about it."""

    obj_id: ObjId
    referred_by: str
    ends_level: bool
    level: int | None = None
    total: int = 0
    after: bytes = b""
    last: bytes = b""


class TreeCheck:
    """Checks the trees and contents of one repository."""

    def __init__(
        self, context: RepositoryContext, findings: Findings, decode: Decode | None
    ) -> None:
        self._objects = context.objects
        self._rule = context.rule
        self._findings = findings
        self._decode = decode
        self._nodes: dict[ObjId, _Facts | None] = {}
        # Nodes that were seen only as the last of their level, where they may end anywhere.
        self._open: set[ObjId] = set()
        self._contents: set[ObjId] = set()
        self._due: dict[ObjId, tuple[TableEntry | FileEntry, str]] = {}

    def has_read(self, obj_id: ObjId) -> bool:
        """Returns whether a node or content was reached."""
        return obj_id in self._nodes or obj_id in self._contents

    def check_tree(self, root: ObjId, layout: Layout, referred_by: str) -> None:
        """Checks what was not checked yet of a tree, and the contents that it leads to."""
        stack = [_Due(root, referred_by, ends_level=True)]
        while stack:
            batch = [stack.pop() for _ in range(min(_FETCHED, len(stack)))]
            unread = [due for due in batch if not self._is_known(due)]
            found = self._objects.find_many([due.obj_id for due in unread])
            for due, raw in zip(unread, found, strict=True):
                # One batch may name a node twice.
                if not self._is_known(due):
                    stack += self._check_node(due, raw, layout)

    def check_elements(
        self, items: Iterable[tuple[bytes, bytes]], layout: Layout, referred_by: str
    ) -> None:
        """Checks keys of an index and the contents that they lead to; removals are left out."""
        for key, element in items:
            if is_remove(element):
                continue
            try:
                self._check_element(key, element, layout, referred_by)
            except (Corrupt, NewerFormat) as error:
                self._findings.add_error(RowKind.ELEMENT, _shown(key), error, referred_by)

    def finish(self) -> None:
        """Reads the contents that are still due."""
        due, self._due = self._due, {}
        found = self._objects.find_many(list(due))
        for (obj_id, (entry, referred_by)), raw in zip(due.items(), found, strict=True):
            if raw is None:
                what = "the content is missing though a key leads to it"
                row = obj_id.hex()
                self._findings.add(RowKind.CONTENT, row, Problem.MISSING, what, referred_by)
                continue
            check: Callable[[], None]
            if isinstance(entry, FileEntry):
                check = partial(self._check_file, obj_id, raw, entry, referred_by)
            else:
                check = partial(self._check_content, obj_id, raw, entry, referred_by)
            self._findings.attempt(RowKind.CONTENT, obj_id.hex(), check, referred_by=referred_by)
        self._findings.count("contents", len(due))

    def _is_known(self, due: _Due) -> bool:
        """Returns whether a node was read before; compares it with what this parent states."""
        if due.obj_id not in self._nodes or (not due.ends_level and due.obj_id in self._open):
            return False
        facts = self._nodes[due.obj_id]
        if facts is not None:
            self._compare(due, facts)
        return True

    def _compare(self, due: _Due, facts: _Facts) -> None:
        if due.level is None:
            return
        fits = (facts.level, facts.total, facts.last) == (due.level, due.total, due.last)
        if not fits or not facts.first > due.after:
            self._inconsistent(due, "it is not the node that its parent describes")

    def _check_node(self, due: _Due, raw: bytes | None, layout: Layout) -> list[_Due]:
        """Checks one node; returns its children."""
        findings, row = self._findings, due.obj_id.hex()
        seen = due.obj_id in self._nodes
        self._nodes.setdefault(due.obj_id, None)
        if raw is None:
            what = "the index node is missing though something refers to it"
            findings.add(RowKind.NODE, row, Problem.MISSING, what, due.referred_by)
            return []
        try:
            check_object_id(due.obj_id, raw)
            node = decode_object(NodeObject, raw)
            check_shape(node)
        except (Corrupt, NewerFormat) as error:
            findings.add_error(RowKind.NODE, row, error, due.referred_by)
            return []
        keys = keys_of(node)
        facts = _Facts(node.level, node.total, keys[0], keys[-1])
        self._nodes[due.obj_id] = facts
        if due.ends_level and not seen:
            self._open.add(due.obj_id)
        elif not due.ends_level:
            self._open.discard(due.obj_id)
        self._compare(due, facts)
        self._check_form(due, node, keys, layout)
        if not seen:
            self._count(node)
            if node.level == 0:
                items = zip(keys, values_of(node), strict=True)
                self.check_elements(items, layout, f"index node {row}")
        return _children(due, node, keys) if node.level else []

    def _count(self, node: Node) -> None:
        findings = self._findings
        findings.count("nodes")
        if node.level == 0:
            findings.count("elements", len(node.suffixes))
        if findings.counts["nodes"] % _PROGRESS_NODES == 0:
            findings.report_progress()

    def _check_form(self, due: _Due, node: Node, keys: list[bytes], layout: Layout) -> None:
        """Checks that a node is built from its elements, and ends where they require."""
        width = CHILD_WIDTH if node.level else layout.width
        ascending = all(left < right for left, right in pairwise(keys))
        fixed = isinstance(node.widths, int)
        if not ascending or fixed != (width is not None) or (fixed and node.widths != width):
            self._inconsistent(due, "its keys or values are not those of such a node")
            return
        if pack_node(node.level, keys, node.widths, node.values) != node:
            self._inconsistent(due, "its prefix, count or size is not that of its elements")
        cuts = find_cuts(self._rule, node.level, keys, values_of(node), width)
        if cuts != [len(keys)] and not (due.ends_level and not cuts):
            self._inconsistent(due, "it does not end where the tree of its content would")
        if due.level is None and node.level and len(keys) == 1:
            self._inconsistent(due, "it is a root above a single node")
        if node.level == 0 and any(is_remove(value) for value in values_of(node)):
            if layout.universe is not None:
                self._inconsistent(due, "it holds a key that was removed")

    def _check_element(self, key: bytes, element: bytes, layout: Layout, referred_by: str) -> None:
        if layout.universe is None:
            return
        if key[0] != layout.universe:
            raise Corrupt("a key is in the index of another universe")
        if layout.names:
            decode_reference_element(element)
        elif self._decode is None:
            return
        elif layout.universe is Universe.FILES:
            self._add_file(key, decode_file(element), referred_by)
        else:
            entry = decode_table(element)
            if entry.value not in self._contents:
                self._contents.add(entry.value)
                self._due[entry.value] = (entry, f"key {_shown(key)} in {referred_by}")
                if len(self._due) >= _FETCHED:
                    self.finish()

    def _add_file(self, key: bytes, entry: FileEntry, referred_by: str) -> None:
        """Remembers a file whose bytes are an object, to be read with others."""
        obj_id = find_object_id(entry.address)
        if obj_id is None or obj_id in self._contents:
            return
        self._contents.add(obj_id)
        self._due[obj_id] = (entry, f"file {_shown(key)} in {referred_by}")
        if len(self._due) >= _FETCHED:
            self.finish()

    def _check_file(self, obj_id: ObjId, raw: bytes, entry: FileEntry, referred_by: str) -> None:
        check_object_id(obj_id, raw)
        data = decode_object(FileObject, raw).data
        if len(data) != entry.size or sha256(data).digest() != entry.sha256:
            what = "its size or SHA-256 is not that of the index"
            row = obj_id.hex()
            self._findings.add(RowKind.CONTENT, row, Problem.INCONSISTENT, what, referred_by)

    def _check_content(
        self, obj_id: ObjId, raw: bytes, entry: TableEntry, referred_by: str
    ) -> None:
        check_object_id(obj_id, raw)
        value = decode_object(ValueObject, raw)
        if self._decode is not None:
            self._decode(raw)
        inline = find_uuid_bytes(ContentId(value.content_id)) is not None
        same_id = value.content_id == entry.content_id if inline else entry.content_id is None
        if value.payload != entry.payload or not same_id:
            what = "its type or content id is not that of the index"
            row = obj_id.hex()
            self._findings.add(RowKind.CONTENT, row, Problem.INCONSISTENT, what, referred_by)

    def _inconsistent(self, due: _Due, what: str) -> None:
        row = due.obj_id.hex()
        self._findings.add(RowKind.NODE, row, Problem.INCONSISTENT, what, due.referred_by)


def check_embedded(node: Node) -> None:
    """Raises Corrupt unless an index that a commit carries is what its elements make."""
    keys = keys_of(node)
    if not all(left < right for left, right in pairwise(keys)):
        raise Corrupt("the keys of its small index do not ascend")
    if pack_node(0, keys, node.widths, node.values) != node:
        raise Corrupt("its small index is not what its elements make")


def _children(due: _Due, node: Node, keys: Sequence[bytes]) -> list[_Due]:
    last = len(keys) - 1
    return [
        _Due(
            child_at(node, at),
            f"index node {due.obj_id.hex()}",
            due.ends_level and at == last,
            node.level - 1,
            child_count_at(node, at),
            keys[at - 1] if at else due.after,
            keys[at],
        )
        for at in range(len(keys))
    ]


def _shown(key: bytes) -> str:
    """Returns a key as people write it."""
    return key[1:].decode("utf-8", "replace").replace("\x01", ".")
