"""Replies of a server as the client decodes them; fields that it does not need are ignored."""

from __future__ import annotations

from typing import Any

import msgspec

from lochan.wire.codec import Instant
from lochan.wire.commits import AddedContentJson, LogEntryIn
from lochan.wire.contents import ContentJson
from lochan.wire.listings import ContentWithKey, DiffEntryJson, EntryV2, JobJson
from lochan.wire.merges import KeyDetailsV2
from lochan.wire.references import ReferenceMoveJson, ReferenceOfServer


class ConfigReply(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What the server states about the repository."""

    default_branch: str
    spec_version: str = ""
    no_ancestor_hash: str = ""
    repository_creation_timestamp: Instant | None = None


class PageReply(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a listing; `token` requests the next page."""

    token: str | None = None


class ReferenceReply(msgspec.Struct, frozen=True):
    """One reference."""

    reference: ReferenceOfServer


class ReferencesReply(PageReply, frozen=True, kw_only=True):
    """Some references."""

    references: list[ReferenceOfServer]


class StateReply(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A present or former head of a reference."""

    commit_hash: str
    commit_consistency: str = "NOT_CHECKED"


class HistoryReply(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The recent heads of a reference."""

    reference: ReferenceOfServer
    current: StateReply
    previous: list[StateReply] = []


class MovesReply(PageReply, frozen=True, kw_only=True):
    """A page of a ref-log."""

    moves: list[ReferenceMoveJson]


class EntriesReply(PageReply, frozen=True, rename="camel", kw_only=True):
    """A page of entries."""

    entries: list[EntryV2]
    effective_reference: ReferenceOfServer


class JobsReply(PageReply, frozen=True, rename="camel", kw_only=True):
    """A page of jobs."""

    jobs: list[JobJson]
    effective_reference: ReferenceOfServer


class ContentReply(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The content of a key."""

    content: ContentJson
    effective_reference: ReferenceOfServer


class ContentsReply(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The contents of some keys."""

    contents: list[ContentWithKey]
    effective_reference: ReferenceOfServer


class LogReply(PageReply, frozen=True, rename="camel", kw_only=True):
    """A page of commits."""

    log_entries: list[LogEntryIn]


class DiffReply(PageReply, frozen=True, rename="camel", kw_only=True):
    """A page of differences."""

    diffs: list[DiffEntryJson]
    effective_from_reference: ReferenceOfServer
    effective_to_reference: ReferenceOfServer


class CommitReply(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The branch after a commit."""

    target_branch: ReferenceOfServer
    added_contents: list[AddedContentJson] | None = None


class MergeReply(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The outcome of a merge; servers may omit empty fields."""

    was_applied: bool = False
    was_successful: bool = False
    resultant_target_hash: str | None = None
    common_ancestor: str | None = None
    target_branch: str = ""
    effective_target_hash: str = ""
    expected_hash: str | None = None
    details: list[KeyDetailsV2] = []
    commits: tuple[str, ...] = ()


class SettingsReply(msgspec.Struct, frozen=True):
    """Settings that a repository keeps."""

    configs: list[dict[str, Any]] = []


class PreviousReply(msgspec.Struct, frozen=True):
    """The previous value of a setting."""

    previous: dict[str, Any] | None = None
