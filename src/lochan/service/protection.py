"""Which branches take no direct writes, and what a repository is described by.

A protected branch takes merges, cherry-picks and reverts only: no staged files, no imports and no
commits, of files or of tables, by whatever face they come. Rules are read again after a second, so
a rule that another server has set counts that much later; one that this server has set counts at
once. A commit asks for them in the lane of its branch, on each head: it reads the store if they are
older than a second, and else not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from hashlib import sha256

import msgspec

from lochan.access.policy import Action, Call
from lochan.base.errors import ConditionFailed, Denied
from lochan.base.limits.files import PROTECTION_STALE_US
from lochan.base.ports import Clock
from lochan.service.policy import Access
from lochan.service.settings import BRANCH_PROTECTION, METADATA, RepositorySettings, Settings


class _Known(msgspec.Struct, frozen=True):
    """Patterns, and when they were read."""

    patterns: tuple[str, ...]
    read_us: int


class BranchProtection:
    """The protected branches of one repository."""

    def __init__(self, settings: RepositorySettings, access: Access, clock: Clock) -> None:
        self._settings = settings
        self._access = access
        self._clock = clock
        self._known: _Known | None = None

    def get(self, call: Call) -> tuple[str, ...]:
        """Returns the patterns of protected branches."""
        found = self._settings.get(call, [BRANCH_PROTECTION])
        return _patterns(found[0] if found else None)

    def replace(self, call: Call, patterns: Sequence[str], expected: str | None = None) -> None:
        """Replaces all patterns; ConditionFailed unless those there have the expected tag."""

        def change(before: Settings | None) -> Settings:
            if expected is not None and tag_of(_patterns(before)) != expected:
                raise ConditionFailed("the rules were changed since they were read; read them")
            return {"type": BRANCH_PROTECTION, "patterns": list(patterns)}

        self._settings.change(call, BRANCH_PROTECTION, change)
        self._known = None

    def check_write(self, call: Call, branch: str) -> None:
        """Raises Denied if a branch is protected; one that the caller may not view looks absent."""
        self._access.check_seen(call)
        now_us, known = self._clock.now_us(), self._known
        if known is None or not 0 <= now_us - known.read_us < PROTECTION_STALE_US:
            stored = self._settings.find(call, BRANCH_PROTECTION)
            known = self._known = _Known(_patterns(stored), now_us)
        if any(fnmatchcase(branch, pattern) for pattern in known.patterns):
            self._access.decide(call, Action.VIEW_REFERENCE, branch)
            refusal = Denied("cannot write to protected branch")
            raise self._access.refused(call, Action.WRITE_CONTENT, branch, refusal)


class RepositoryMetadata:
    """Names and values that users give a repository."""

    def __init__(self, settings: RepositorySettings) -> None:
        self._settings = settings

    def get(self, call: Call) -> dict[str, str]:
        """Returns all of them."""
        found = self._settings.get(call, [METADATA])
        return dict(found[0]["values"]) if found else {}

    def update(self, call: Call, added: Mapping[str, str], removed: Sequence[str] = ()) -> None:
        """Adds or replaces some, and removes others."""

        def change(before: Settings | None) -> Settings:
            kept = {} if before is None else before["values"]
            values = {name: value for name, value in kept.items() if name not in removed}
            return {"type": METADATA, "values": {**values, **added}}

        self._settings.change(call, METADATA, change)


def tag_of(patterns: Sequence[str]) -> str:
    """Returns what patterns are compared by."""
    return sha256("\0".join(sorted(patterns)).encode()).hexdigest()[:32]


def _patterns(settings: Settings | None) -> tuple[str, ...]:
    return () if settings is None else tuple(settings["patterns"])
