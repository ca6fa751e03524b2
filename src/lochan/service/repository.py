"""One opened repository: its use cases, put together."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from lochan.access.policy import Call, OpenPolicy, Policy
from lochan.base.limits.requests import PAGE_ENTRIES_MAX
from lochan.base.names import REFS_NAME, RefName
from lochan.catalog.types import ContentTypes
from lochan.codec.rows import Description
from lochan.kernel.context import RepositoryContext
from lochan.kernel.publish import Publisher
from lochan.kernel.purge import (
    Purged,
    Swept,
    sweep_claims,
    sweep_references,
    sweep_references_page,
)
from lochan.kernel.references import ReferenceIndex
from lochan.service.addresses import Addresses
from lochan.service.claims import Claims
from lochan.service.commit_log import CommitLog
from lochan.service.commits import Commits, CommitWrites
from lochan.service.contents import Contents
from lochan.service.event_streams import EventStreams
from lochan.service.file_base import FileContext
from lochan.service.file_commits import StagedCommits
from lochan.service.file_history import FileHistory
from lochan.service.file_listings import FileListings
from lochan.service.file_places import NO_PLACES, FilePlaces, FileSupport
from lochan.service.files import Files
from lochan.service.history import History
from lochan.service.import_jobs import ImportJobs, ImportSweep
from lochan.service.imports import Imports
from lochan.service.jobs import Jobs
from lochan.service.merges import Merges
from lochan.service.multiparts import PartUploads
from lochan.service.namespaces import Namespaces
from lochan.service.objects import ObjectExchange
from lochan.service.policy import Access
from lochan.service.protection import BranchProtection, RepositoryMetadata
from lochan.service.quotas import NO_QUOTA, ReferenceQuota
from lochan.service.references import References
from lochan.service.resets import BranchResets
from lochan.service.resolve import Resolver
from lochan.service.settings import RepositorySettings
from lochan.service.staged_heads import StagedHeads
from lochan.service.upload_sweep import UploadSweep
from lochan.service.uploads import Uploads
from lochan.staging.staging import Staging
from lochan.staging.sweeper import sweep_tokens, sweep_tokens_page


class Repository:
    """The use cases of one repository; synchronous, for any number of threads."""

    def __init__(
        self,
        context: RepositoryContext,
        types: ContentTypes | None = None,
        policy: Policy | None = None,
        quota: ReferenceQuota = NO_QUOTA,
        files: FileSupport = NO_PLACES,
    ) -> None:
        types = types or ContentTypes()
        described = context.description
        access = self._access = Access(described.name, policy or OpenPolicy())
        self.context = context
        self.types = types
        self.name = described.name
        self.info = described
        self._names = ReferenceIndex(context)
        resolver = self._resolver = Resolver(context, self._names, access)
        claims = Claims(context, self._names)
        staging = self._staging = Staging(context, self._names, files.new_lock)
        self.references = References(
            context, types, resolver, claims, access, self._names, staging.guard, quota
        )
        self.contents = Contents(context, types, resolver)
        self.jobs = Jobs(context, types, resolver)
        self.history = History(context, types, resolver)
        self.commit_log = CommitLog(context, types, resolver)
        self.event_streams = EventStreams(context, resolver, access)
        places = self._places = FilePlaces(context, files.open_place)
        self.settings = RepositorySettings(context, claims, access)
        protection = self.protection = BranchProtection(self.settings, access, context.clock)
        writes = CommitWrites(context, types, resolver, claims, access, protection)
        parts = FileContext(
            context, types, resolver, claims, access, self._names, staging, places, protection
        )
        self.staged_heads = StagedHeads(staging.read_head, context.clock, files.new_lock())
        self.commits = Commits(writes, StagedCommits(parts, writes))
        self.files = Files(parts)
        self.uploads = Uploads(parts)
        self.multiparts = PartUploads(parts)
        self._upload_sweep = UploadSweep(context, places)
        self.addresses = Addresses(parts)
        self.file_listings = FileListings(parts)
        self.file_history = FileHistory(parts)
        self.resets = BranchResets(parts)
        imports = self.imports = Imports(parts)
        self.import_jobs = ImportJobs(parts, imports)
        self._import_sweep = ImportSweep(context)
        self.merges = Merges(context, types, resolver, claims, access, self._names, staging.guard)
        self.namespaces = Namespaces(self.contents, writes)
        self.metadata = RepositoryMetadata(self.settings)
        self.objects = ObjectExchange(context, access)

    def describe(self, call: Call) -> Description:
        """Returns what the repository states about itself, to callers that see it."""
        self._access.check_seen(call)
        return self.info

    def reading(self, references: Sequence[str]) -> AbstractContextManager[None]:
        """Within the block, all use cases share one read of the rows of these references."""
        return self._resolver.reading(references)

    def lists_briefly(self, branch: str) -> bool:
        """Returns whether the next listing of a branch passes few deleted files."""
        return self._staging.listings.is_brief(branch)

    def sweep_references(self, start: bytes, limit: int) -> Swept:
        """Deletes expired branches and removes old tombstones, one page of them."""
        return sweep_references_page(self.context, self._names, start, limit)

    def sweep_tokens(self, start: bytes, limit: int) -> Swept:
        """Drops the records of one page of staging tokens that no branch has any more.

        With the first page it removes uploads that were never finished, and old records of imports.
        """
        if not start:
            self._upload_sweep.turn(limit)
            self._import_sweep.turn(limit)
            self._places.sweep_unfinished(limit)
        return sweep_tokens_page(self.context, start, limit)

    def sweep(self) -> Purged:
        """Sweeps everything that has expired: branches, tombstones, claims, tokens, uploads."""
        found = sweep_references(self.context, self._names)
        found = found.plus(sweep_claims(self.context)).plus(sweep_tokens(self.context))
        self._upload_sweep.turn(PAGE_ENTRIES_MAX)
        self._import_sweep.turn(PAGE_ENTRIES_MAX)
        self._places.sweep_unfinished(PAGE_ENTRIES_MAX)
        return found

    def publisher(self, branch: RefName) -> Publisher:
        """Returns a publisher for a branch; the driver of its lane keeps it while that is busy."""
        if branch == REFS_NAME:
            return self._names.publisher
        return Publisher(self.context, branch, self._names.find)
