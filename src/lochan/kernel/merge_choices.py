"""What a caller wants for the keys of a merge, and the conflicts that remain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

import msgspec

from lochan.base.errors import Invalid
from lochan.index.difference import Difference


class Behaviour(Enum):
    """What to do with a key that the source changed."""

    NORMAL = "NORMAL"
    FORCE = "FORCE"
    DROP = "DROP"
    TAKE_TARGET_ON_CONFLICT = "TAKE_TARGET_ON_CONFLICT"


class KeyChoice(msgspec.Struct, frozen=True):
    """The caller's word on one key.

    `expected_target` replaces what the target is expected to hold; `resolved` replaces what the
    source brings, and needs the former: who resolves a conflict must have seen both sides.
    """

    behaviour: Behaviour = Behaviour.NORMAL
    expected_target: bytes | None = None
    has_expected_target: bool = False
    resolved: bytes | None = None
    has_resolved: bool = False


class MergeConflict(msgspec.Struct, frozen=True, gc=False):
    """A key that both sides changed.

    `expected` is what the target was expected to hold: the base, or what the caller has named.
    """

    key: bytes
    base: bytes | None
    source: bytes | None
    target: bytes | None
    expected: bytes | None


KeepsTarget = Callable[[Difference, bytes | None], bool]
"""Returns whether a change that does not fit leaves the target as it is, without a conflict."""


class Choices(msgspec.Struct, frozen=True):
    """What is wanted for the keys, and for all that are not named.

    `keeps_target` is asked about changes that do not fit, unless the caller has named what the
    target is expected to hold.
    """

    default: Behaviour = Behaviour.NORMAL
    keys: Mapping[bytes, KeyChoice] = msgspec.field(default_factory=dict)
    keeps_target: KeepsTarget = lambda *_: False

    def of(self, key: bytes) -> KeyChoice:
        """Returns the choice for a key."""
        return self.keys.get(key) or KeyChoice(self.default)


def check_choices(choices: Choices) -> None:
    """Refuses a resolution without the content that it is to replace."""
    for choice in choices.keys.values():
        if choice.has_resolved and not choice.has_expected_target:
            raise Invalid("resolved content needs the expected target content")
        if choice.has_resolved and choice.behaviour is not Behaviour.NORMAL:
            raise Invalid("resolved content goes with the behaviour NORMAL only")
