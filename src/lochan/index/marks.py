"""Marks: places in an index that do not show their keys.

A listing goes on where it stopped, and the token of a page contains that place. If it is a key that
the caller may not see, the token contains its *mark* instead. A mark consists of keyed hashes: one
for the child on each level of the tree that leads to the key, and one for the key itself. To find
the key, the same hashes are computed of all keys of the nodes on the way, some hundred in all.

Without the secret a mark shows nothing about the key, nor how many keys lie before it: all marks
have the same length. Marks of one key in two commits have nothing in common. Hashes are enough,
because a place is searched for and never decoded; so this needs no encryption.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Final

from lochan.base.errors import Invalid
from lochan.base.ids import ObjId
from lochan.base.limits.storage import TREE_LEVELS_MAX
from lochan.index.layers import Index
from lochan.index.node import Node, child_at, key_at, keys_of, lower_bound
from lochan.index.source import NodeSource

_HASH_BYTES: Final = 16
_SALT_BYTES: Final = 16
_PURPOSE: Final = b"place in index"

# Begins every mark. No key begins with it, so a place is either a key or a mark.
_FIRST: Final = b"\0"

# What a hash is of: the key of a child by its level, the key that is marked, or nothing.
_KEY: Final = 0
_FILLING: Final = 255

_Hash = Callable[[int, bytes], bytes]


def is_mark(place: bytes) -> bool:
    """Returns whether a place is a mark, not a key."""
    return place.startswith(_FIRST)


def mark_key(source: NodeSource, index: Index, key: bytes, secret: bytes, of: ObjId) -> bytes:
    """Returns the mark of a key that the index of a commit contains."""
    hashed = _hashes(secret, of)
    parts: list[bytes] = []
    node = None if index.root is None else source.load_node(index.root)
    while node is not None and node.level:
        slot = lower_bound(node, key)
        if slot == len(node.suffixes):
            # The tree ends before the key, which is embedded then.
            break
        parts.append(hashed(node.level, key_at(node, slot)))
        node = source.load_node(child_at(node, slot))
    parts.append(hashed(_KEY, key))
    while len(parts) <= TREE_LEVELS_MAX:
        parts.append(hashed(_FILLING, bytes((len(parts),)) + key))
    return _FIRST + b"".join(parts)


def find_marked(source: NodeSource, index: Index, mark: bytes, secret: bytes, of: ObjId) -> bytes:
    """Returns the key of a mark; Invalid if the index has no such key."""
    hashed = _hashes(secret, of)
    parts = [mark[at : at + _HASH_BYTES] for at in range(1, len(mark), _HASH_BYTES)]
    node = None if index.root is None else source.load_node(index.root)
    for part in parts:
        slot = None if node is None or not node.level else _find_slot(node, part, hashed)
        if node is not None and slot is not None:
            node = source.load_node(child_at(node, slot))
            continue
        below = () if node is None or node.level else keys_of(node)
        recent = () if index.embedded is None else keys_of(index.embedded)
        found = _find_key((*below, *recent), part, hashed)
        if found is not None:
            return found
        break
    raise Invalid("this page token leads nowhere; start again")


def _find_slot(node: Node, part: bytes, hashed: _Hash) -> int | None:
    level, count = node.level, len(node.suffixes)
    return next((at for at in range(count) if hashed(level, key_at(node, at)) == part), None)


def _find_key(keys: Iterable[bytes], part: bytes, hashed: _Hash) -> bytes | None:
    return next((key for key in keys if hashed(_KEY, key) == part), None)


def _hashes(secret: bytes, of: ObjId) -> _Hash:
    """Returns the keyed hash for one commit; a hash of one commit fits no other."""

    def hashed(what: int, key: bytes) -> bytes:
        return blake2b(
            bytes((what,)) + key,
            digest_size=_HASH_BYTES,
            key=secret,
            salt=of[:_SALT_BYTES],
            person=_PURPOSE,
        ).digest()

    return hashed
