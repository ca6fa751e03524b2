"""The keys for which something is allowed: statements combined, in a normal form.

Without conditions on keys, the result is one set of keys, and equal results compare equal. With
conditions, a result also lists for which keys which condition decides; such results compare equal
if they are the same for every key by construction, and may differ though they cover the same keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import and_

import msgspec

from lochan.access.patterns import ALL_KEYS
from lochan.access.spans import NOTHING, Spans
from lochan.access.statements import Counted, holds
from lochan.rules.conditions import Bound, Condition


class OnCondition(msgspec.Struct, frozen=True):
    """Keys for which a condition decides."""

    keys: Spans
    condition: Condition
    bound: Bound


class Layer(msgspec.Struct, frozen=True):
    """What one set of policies allows: a key is covered if it is allowed and not denied.

    `certain` is allowed unless a condition in `denied` holds. The keys in `allowed` are in neither
    `certain` nor denied without a condition.
    """

    certain: Spans
    allowed: tuple[OnCondition, ...] = ()
    denied: tuple[OnCondition, ...] = ()

    @property
    def extent(self) -> Spans:
        """All keys that may be covered."""
        found = self.certain
        for one in self.allowed:
            found |= one.keys
        return found

    def within(self, extent: Spans) -> Layer:
        """Returns what it covers of some keys."""
        return _layer(self.certain & extent, _cut(self.allowed, extent), self.denied)

    def covers(self, raw: bytes) -> bool:
        """Returns whether a key is covered."""
        if not self.certain.covers(raw):
            for one in self.allowed:
                if one.keys.covers(raw) and holds(
                    one.condition.evaluate(one.bound, raw), allows=True
                ):
                    break
            else:
                return False
        for one in self.denied:
            if one.keys.covers(raw) and holds(one.condition.evaluate(one.bound, raw), allows=False):
                return False
        return True


class ConditionalKeys(msgspec.Struct, frozen=True):
    """Keys that all layers cover; those outside the extent are covered by none."""

    layers: tuple[Layer, ...]
    extent: Spans

    def covers(self, raw: bytes) -> bool:
        """Returns whether all layers cover a key."""
        return all(layer.covers(raw) for layer in self.layers)

    def next_range(self, raw: bytes) -> tuple[bytes, bytes | None] | None:
        """Returns the first range that ends after a key and may have covered keys."""
        return self.extent.next_range(raw)


Keys = Spans | ConditionalKeys | None
"""The keys for which something is allowed; None for all."""


def combine(allowing: Sequence[Counted], denying: Sequence[Counted]) -> Layer:
    """Returns what statements allow together: denying wins."""
    denied = _certain(denying)
    certain = _certain(allowing) - denied
    allowed, conditions = _conditional(allowing), _conditional(denying)
    if allowed:
        allowed = _cut(allowed, ALL_KEYS - denied - certain)
    return _layer(certain, allowed, conditions)


def intersect(layers: Sequence[Layer]) -> Keys:
    """Returns the keys that all layers cover."""
    if len(layers) == 1 and not layers[0].allowed and not layers[0].denied:
        return _named(layers[0].certain)
    found = list(dict.fromkeys(layers))
    while True:
        extent = reduce(and_, [layer.extent for layer in found])
        if extent == NOTHING:
            return NOTHING
        cut = list(dict.fromkeys([layer.within(extent) for layer in found]))
        if cut == found:
            break
        found = cut
    kept = [layer for layer in found if layer.allowed or layer.denied]
    if not kept:
        return _named(extent)
    return ConditionalKeys(tuple(sorted(kept, key=repr)), extent)


def _named(keys: Spans) -> Spans | None:
    """Returns the name for all keys or for none, if it is that."""
    if keys == ALL_KEYS:
        return None
    return keys if keys.bounds else NOTHING


def _layer(
    certain: Spans, allowed: tuple[OnCondition, ...], denied: tuple[OnCondition, ...]
) -> Layer:
    layer = Layer(certain, allowed)
    return Layer(certain, allowed, _cut(denied, layer.extent)) if denied else layer


def _certain(statements: Sequence[Counted]) -> Spans:
    found = NOTHING
    for one in statements:
        if one.condition is None:
            found |= one.keys
    return found


def _conditional(statements: Sequence[Counted]) -> tuple[OnCondition, ...]:
    """Returns the conditions, each once with all of its keys, in one order."""
    found: dict[tuple[Condition, Bound], Spans] = {}
    for one in statements:
        if one.condition is not None:
            name = (one.condition, one.bound)
            found[name] = found.get(name, NOTHING) | one.keys
    ordered = sorted(found.items(), key=lambda item: (item[0][0].text, repr(item[0][1])))
    return tuple([OnCondition(keys, *name) for name, keys in ordered])


def _cut(conditions: Iterable[OnCondition], extent: Spans) -> tuple[OnCondition, ...]:
    """Returns conditions for some keys only; those for none are left out."""
    cut = [OnCondition(one.keys & extent, one.condition, one.bound) for one in conditions]
    return tuple([one for one in cut if one.keys != NOTHING])
