"""References as a user sees them."""

from __future__ import annotations

import msgspec

from lochan.model.commits import CommitMeta, Properties


class ReferenceMetadata(msgspec.Struct, frozen=True):
    """Computed facts about a reference, on request; a tag has no distances."""

    head: CommitMeta | None
    total: int
    ahead: int | None = None
    behind: int | None = None
    common_ancestor: str | None = None


class Annotation(msgspec.Struct, frozen=True):
    """The annotation of a tag by its author; the signature is opaque."""

    message: str
    properties: Properties = ()
    signature: bytes = b""


class Reference(msgspec.Struct, frozen=True):
    """A branch, a tag, or a commit named by its hash alone (DETACHED: no name).

    `hash` is that of a commit, in hex, also where a tag has an object of its own. In a listing it
    is empty if the row of the reference has a newer format, which this Lochan cannot read.
    """

    kind: str
    name: str | None
    hash: str
    metadata: ReferenceMetadata | None = None
    created_us: int | None = None
    expires_us: int | None = None
    annotation: Annotation | None = None
    concealed: bool = False


class ReferenceMove(msgspec.Struct, frozen=True):
    """One entry of a ref-log; `old` is None where the reference was created.

    `who` caused it and had the `roles` then, as authentication found out; without authentication
    `who` is empty. What no user caused has a name that begins with `system:`.
    `version` is that of the row, 0 for commits: several may have been published as one version.
    An entry of the kind UNREADABLE has a newer format: `new` is empty, and `source` has the reason.
    """

    kind: str
    old: str | None
    new: str
    who: str
    when_us: int
    operation: str
    source: str
    base: str
    incarnation: int
    version: int
    roles: tuple[str, ...] = ()


class PreviousHead(msgspec.Struct, frozen=True):
    """A head that a reference has or had, and since when.

    `when_us` is None for the present head and over HTTP; `consistent` is None without a scan.
    """

    hash: str
    when_us: int | None = None
    consistent: bool | None = None


class ReferenceHistory(msgspec.Struct, frozen=True):
    """Where a reference points, and where it pointed recently, the latest first."""

    reference: Reference
    current: PreviousHead
    previous: tuple[PreviousHead, ...]
