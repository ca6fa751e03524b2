"""Answers of the server as a client reads them: strict where we need it, deaf to the rest."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from lochan.client.asking import Ask, Flow, Reply
from lochan.client.failures import error_of, unreadable
from lochan.wire.commits import AddedContentJson, LogEntryIn
from lochan.wire.contents import ContentJson
from lochan.wire.instants import Instant
from lochan.wire.jobs import JobJson
from lochan.wire.keys import KeyJson
from lochan.wire.listings import ContentWithKey, DiffEntryJson
from lochan.wire.merges import KeyDetailsV2
from lochan.wire.metas import CommitMetaIn
from lochan.wire.references import ReferenceMoveJson, ReferenceOfServer

_Shape = TypeVar("_Shape")


class ConfigReply(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What the server says of the repository."""

    default_branch: str
    spec_version: str = ""
    no_ancestor_hash: str = ""
    repository_creation_timestamp: Instant | None = None


class ReferenceReply(msgspec.Struct, frozen=True):
    """One reference."""

    reference: ReferenceOfServer


class ReferencesReply(msgspec.Struct, frozen=True, kw_only=True):
    """Some references."""

    references: list[ReferenceOfServer]
    token: str | None = None


class StateReply(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A head that a reference has or had."""

    commit_hash: str
    commit_consistency: str = "NOT_CHECKED"
    meta: CommitMetaIn | None = None


class HistoryReply(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The recent heads of a reference."""

    reference: ReferenceOfServer
    current: StateReply
    previous: list[StateReply] = []
    commit_log_consistency: str = "NOT_CHECKED"


class MovesReply(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a ref-log."""

    moves: list[ReferenceMoveJson]
    token: str | None = None


class EntryReply(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A key and what it holds."""

    type: str
    name: KeyJson
    content_id: str | None = None
    content: ContentJson | None = None


class EntriesReply(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A page of entries."""

    entries: list[EntryReply]
    token: str | None = None
    effective_reference: ReferenceOfServer


class JobsReply(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A page of jobs."""

    jobs: list[JobJson]
    token: str | None = None
    effective_reference: ReferenceOfServer


class ContentReply(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What a key holds."""

    content: ContentJson
    effective_reference: ReferenceOfServer


class ContentsReply(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What some keys hold."""

    contents: list[ContentWithKey]
    effective_reference: ReferenceOfServer


class LogReply(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A page of commits."""

    log_entries: list[LogEntryIn]
    token: str | None = None


class DiffReply(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A page of differences."""

    diffs: list[DiffEntryJson]
    token: str | None = None
    effective_from_reference: ReferenceOfServer
    effective_to_reference: ReferenceOfServer


class CommitReply(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The branch after a commit."""

    target_branch: ReferenceOfServer
    added_contents: list[AddedContentJson] | None = None


class MergeReply(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What became of a merge; servers may leave out what is nothing."""

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
    """What a setting was before."""

    previous: dict[str, Any] | None = None


def asked(ask: Ask, shape: type[_Shape]) -> Flow[_Shape]:
    """Asks, and reads the answer; raises what the server refused for."""
    reply = yield from asked_plainly(ask)
    try:
        return msgspec.json.decode(reply.body, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise unreadable(str(error)) from None


def asked_plainly(ask: Ask) -> Flow[Reply]:
    """Asks, and returns an answer whose body does not matter; raises what was refused."""
    reply = yield ask
    if not 200 <= reply.status < 300:
        raise error_of(ask, reply)
    return reply
