"""Trees of conditions and of types, folded from the leaves up and without recursion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Tree = TypeVar("Tree")
Value = TypeVar("Value")


def fold(
    root: Tree,
    inside: Callable[[Tree], Sequence[Tree]],
    build: Callable[[Tree, list[Value]], Value],
) -> Value:
    """Builds a value for a tree from the values for what is inside of it, innermost first."""
    done: list[Value] = []
    waiting: list[tuple[Tree, bool]] = [(root, False)]
    while waiting:
        each, is_opened = waiting.pop()
        parts = inside(each)
        if not parts:
            done.append(build(each, []))
        elif is_opened:
            first = len(done) - len(parts)
            done[first:] = [build(each, done[first:])]
        else:
            waiting.append((each, True))
            waiting.extend((part, False) for part in reversed(parts))
    return done[0]
