"""What callers hand to the client and to the embedded repository beside the values of `model/`."""

from __future__ import annotations

import msgspec

from lochan.model.references import Reference


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
