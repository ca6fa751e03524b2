"""Stored objects in bulk, by id: for tools that build or read trees outside the server.

An object that is returned was checked against its id. An object that is stored is a node or a
value, well formed and in its one encoding, and hashes to the id that the caller names; nothing
refers to it until a commit does. Commits are not accepted: the first body stored under a commit's
id stays, so a wrong one could never be corrected.

The exchange is an action of its own, which no other right implies. An object may be a node with the
keys of any reference, so a caller that fetches objects also needs the right to read all of them.
Storing needs no other right: what is stored is in no commit, and a commit decides on its keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import msgspec

from lochan.access.policy import Action, Call
from lochan.base.errors import Corrupt, Denied, Invalid, NewerFormat, TooLarge
from lochan.base.ids import ContentId, ObjId, obj_id_from_hex
from lochan.base.limits.contents import KEY_BYTES_MAX
from lochan.base.limits.requests import (
    OBJECTS_BYTES_PER_CALL_MAX,
    OBJECTS_FETCHED_AT_ONCE,
    OBJECTS_PER_CALL_MAX,
)
from lochan.base.limits.storage import NODE_ELEMENTS_MAX, OBJECT_BYTES_MAX
from lochan.codec.commits import check_any_object
from lochan.codec.objects import (
    NodeObject,
    ValueObject,
    build_value,
    check_canonical,
    object_id,
)
from lochan.index.node import check_shape, keys_of, pack_node
from lochan.kernel.context import RepositoryContext
from lochan.service.policy import Access

# What objects contain: commits with messages, nodes with keys, values.
_IN_OBJECTS: Final = (Action.READ_LOG, Action.READ_ENTRIES, Action.READ_CONTENT)

_decode: Final = msgspec.msgpack.Decoder(NodeObject | ValueObject).decode


class ObjectExchange:
    """Reads and stores the objects of one repository."""

    def __init__(self, context: RepositoryContext, access: Access) -> None:
        self._context = context
        self._access = access

    def get(self, call: Call, ids: Sequence[str]) -> list[tuple[str, bytes]]:
        """Returns the objects that there are, in the order of the ids, each once."""
        self._access.decide(call, Action.EXCHANGE_OBJECTS)
        if not self._access.reaches_all(call, _IN_OBJECTS):
            error = Denied(
                "objects are fetched only with the right to read all keys of all references"
            )
            raise self._access.refused(call, Action.EXCHANGE_OBJECTS, None, error)
        _check_count(len(ids))
        named = list(dict.fromkeys(obj_id_from_hex(text) for text in ids))
        found: list[tuple[str, bytes]] = []
        total = 0
        for start in range(0, len(named), OBJECTS_FETCHED_AT_ONCE):
            some = named[start : start + OBJECTS_FETCHED_AT_ONCE]
            for obj_id, raw in zip(some, self._context.objects.find_many(some), strict=True):
                if raw is None:
                    continue
                check_any_object(obj_id, raw)
                found.append((obj_id.hex(), raw))
                total += len(raw)
            _check_bytes(total)
        return found

    def put(self, call: Call, objects: Sequence[tuple[str, bytes]]) -> int:
        """Stores nodes and values and returns how many; all are checked before any is stored."""
        self._access.decide(call, Action.EXCHANGE_OBJECTS)
        _check_count(len(objects))
        _check_bytes(sum(len(raw) for _, raw in objects))
        checked: dict[ObjId, bytes] = {}
        for text, raw in objects:
            obj_id = obj_id_from_hex(text)
            _check_given(obj_id, raw)
            checked[obj_id] = raw
        self._context.objects.store_many(checked.items())
        return len(checked)


def _check_count(count: int) -> None:
    if count > OBJECTS_PER_CALL_MAX:
        raise TooLarge(f"one call is for at most {OBJECTS_PER_CALL_MAX} objects, not {count}")


def _check_bytes(count: int) -> None:
    if count > OBJECTS_BYTES_PER_CALL_MAX:
        raise TooLarge(
            f"the objects of one call have at most {OBJECTS_BYTES_PER_CALL_MAX} bytes together; "
            "request fewer at once"
        )


def _check_given(obj_id: ObjId, raw: bytes) -> None:
    """Raises Invalid unless the bytes are a node or a value and hash to the id."""
    if len(raw) > OBJECT_BYTES_MAX:
        raise TooLarge(f"an object of {len(raw)} bytes is over the limit of {OBJECT_BYTES_MAX}")
    if object_id(raw) != obj_id:
        raise Invalid(f"the bytes given for {obj_id.hex()} do not hash to it")
    try:
        value = _decode(raw)
        check_canonical(value, raw)
        if isinstance(value, NodeObject):
            _check_node(value)
        else:
            build_value(ContentId(value.content_id), value.payload, value.data)
    except (msgspec.DecodeError, UnicodeDecodeError, Corrupt, NewerFormat) as error:
        raise Invalid(f"object {obj_id.hex()} is no well-formed node or value: {error}") from None


def _check_node(node: NodeObject) -> None:
    """Raises Corrupt unless the node is what its keys and values make."""
    check_shape(node)
    keys = keys_of(node)
    if len(keys) > NODE_ELEMENTS_MAX:
        raise Corrupt(f"a node has at most {NODE_ELEMENTS_MAX} elements")
    if not all(0 < len(key) <= KEY_BYTES_MAX for key in keys):
        raise Corrupt(f"the keys of a node have 1 to {KEY_BYTES_MAX} bytes")
    if not all(left < right for left, right in pairwise(keys)):
        raise Corrupt("the keys of a node ascend")
    if pack_node(node.level, keys, node.widths, node.values) != node:
        raise Corrupt("prefix, count and size of a node are those of its elements")
