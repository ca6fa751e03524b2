"""What callers hand to the client and to the embedded repository beside the values of `model/`."""

from __future__ import annotations

import msgspec

from lochan.model.contents import Content
from lochan.model.references import Annotation, Reference

DEFAULT_BRANCH = "-"
"""The spec of a repository's default branch."""


class NewReference(msgspec.Struct, frozen=True, kw_only=True):
    """A branch or tag to be made where the source is; None makes a branch without any commit."""

    name: str
    source: str | None = DEFAULT_BRANCH
    kind: str = "BRANCH"
    expires_us: int | None = None
    annotation: Annotation | None = None


class KeyWish(msgspec.Struct, frozen=True, kw_only=True):
    """What a merge shall do with one key.

    `behaviour` is NORMAL, FORCE (the source wins), DROP (the target stays) or
    TAKE_TARGET_ON_CONFLICT. `expected_target` is what the caller saw at the target, `resolved` is
    what shall be there afterwards; None for either means nothing.
    """

    behaviour: str = "NORMAL"
    expected_target: Content | msgspec.UnsetType | None = msgspec.UNSET
    resolved: Content | msgspec.UnsetType | None = msgspec.UNSET


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """What a repository says of itself."""

    default_branch: str
    created_us: int | None
    empty_hash: str
    spec_version: str


class RecentHead(msgspec.Struct, frozen=True):
    """A head that a reference has or had; `consistent` is None where nobody looked."""

    hash: str
    consistent: bool | None = None


class RecentChanges(msgspec.Struct, frozen=True):
    """Where a reference is, and where it has been lately, the latest first."""

    reference: Reference
    current: RecentHead
    previous: tuple[RecentHead, ...]
