"""The use case of importing: objects become files of a commit, without a copy.

1. Outside the lane: decide, list the objects, build their entries.
2. In the lane, on each head: what the destination prefixes hold is compared with what they shall
   hold; the difference is one commit. What is there and not in the source is removed.

The bytes stay where they are, and may change there: each read states the ETag that was listed, and
fails if the object has another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from lochan.access.policy import Action, Call
from lochan.base.errors import Invalid, LochanError, NothingToCommit, StagedWork, TooLarge
from lochan.base.keys import Universe, file_key, prefix_end
from lochan.base.limits.files import IMPORT_FILES_MAX, IMPORT_SOURCES_MAX
from lochan.base.limits.requests import PAGE_ENTRIES_MAX
from lochan.catalog.meta import headers_of
from lochan.codec.commits import Headers
from lochan.codec.elements import encode_file, same_file
from lochan.codec.rows import ReferenceRow
from lochan.kernel.build import Head
from lochan.kernel.claims import RequestOutcome
from lochan.kernel.plan import CommitPlan, Operation
from lochan.kernel.provenance import Provenance
from lochan.kernel.publish import Published
from lochan.model.commits import CommitMeta
from lochan.model.entries import FileEntry
from lochan.model.files import Imported, ImportProgress, ImportSource
from lochan.service.claims import BranchWrite, ClaimKey, raise_refusal
from lochan.service.file_base import FileUseCases
from lochan.service.pending_writes import PendingWrite
from lochan.service.policy import WriteTarget, initiator_of
from lochan.staging.block_store import BlockAddress, ForeignObject, is_foreign

ReportImport = Callable[[ImportProgress], None]

# The size of an import is not known before it is planned, so it counts as heavy.
_HEAVY = 1_000_000


class Imports(FileUseCases):
    """Imports into the branches of one repository."""

    def import_files(
        self,
        call: Call,
        branch: str,
        sources: Sequence[ImportSource],
        meta: CommitMeta,
        report: ReportImport | None = None,
    ) -> PendingWrite[Imported]:
        """Prepares a commit that replaces the destination prefixes by what the sources have."""
        check_sources(sources)
        name = self._resolver.name(branch)
        target = WriteTarget(self._access, call, Action.COMMIT, name)

        def prepare(claim: ClaimKey) -> BranchWrite[Imported]:
            target.check()
            row = self._decide(call, branch, [], Action.IMPORT_FILES)
            self._check_unstaged(row, sources)
            listed = ListedObjects(report)
            for source in sources:
                listed.add_all(source, self._objects(source))
            hidden = Provenance(
                "import",
                ",".join(source.url for source in sources)[:200],
                who=initiator_of(call),
                operation=self._context.random.random_bytes(16).hex(),
            ).headers()
            proposal = ImportProposal(
                target,
                [_range_of(source) for source in sources],
                listed.elements,
                CommitPlan((), meta.message, headers_of(meta, call.principal), hidden),
            )

            def answer(published: Published) -> Imported:
                if not published.commits:
                    raise _nothing_imported()
                head = published.head.obj_id.hex()
                return Imported(
                    branch=name, hash=head, objects=len(listed.elements), ignored=listed.ignored
                )

            return BranchWrite(proposal, claim(), answer, raise_refusal, operations=_HEAVY)

        def earlier(done: RequestOutcome) -> Imported:
            if not done.commits:
                raise _nothing_imported()
            commit = done.commits[-1]
            return Imported(branch=name, hash=commit.obj_id.hex(), objects=0)

        return self._claims.write(target, prepare, earlier)

    def _objects(self, source: ImportSource) -> Iterator[tuple[Sequence[ForeignObject], int]]:
        """Yields pages of objects, each with the number of what was left out."""
        if source.is_object:
            found = self._places.place.find(BlockAddress(source.url))
            if not is_foreign(source.url) or found is None:
                raise Invalid(f"there is no object at {source.url[:200]!r}")
            yield [ForeignObject("", found)], 0
            return
        after: str | None = ""
        while after is not None:
            page = self._places.place.list_foreign(source.url, after, PAGE_ENTRIES_MAX)
            yield page.objects, page.ignored
            after = page.next_after

    def _check_unstaged(self, row: ReferenceRow, sources: Sequence[ImportSource]) -> None:
        """Refuses to replace a prefix under which files are staged: they would hide the import."""
        for source in sources:
            start, end = _range_of(source)
            if self._has_staged(row, start, end):
                raise StagedWork(
                    f"files are staged on {row.name!r} below {source.prefix!r}; commit or reset "
                    "them before the import"
                )

    def _has_staged(self, row: ReferenceRow, start: bytes, end: bytes | None) -> bool:
        at: bytes | None = start
        while at is not None:
            found, at = self._sources.staged(row, at, end, PAGE_ENTRIES_MAX)
            if found:
                return True
        return False


class ListedObjects:
    """The entries of all objects that were found, by the key that they get."""

    def __init__(self, report: ReportImport | None) -> None:
        self._report = report
        self.elements: dict[bytes, bytes] = {}
        self.ignored = 0

    def add_all(
        self, source: ImportSource, pages: Iterator[tuple[Sequence[ForeignObject], int]]
    ) -> None:
        """Adds the objects of one source; of two with one path the later source counts."""
        for objects, ignored in pages:
            self.ignored += ignored
            for each in objects:
                self.elements[file_key(source.prefix + each.path)] = _element(each)
            if len(self.elements) > IMPORT_FILES_MAX:
                raise TooLarge(f"one import has at most {IMPORT_FILES_MAX} objects; name more")
            if self._report is not None:
                self._report(ImportProgress(len(self.elements), self.ignored))


class ImportProposal:
    """One commit after which prefixes hold exactly these files."""

    def __init__(
        self,
        target: WriteTarget,
        ranges: Sequence[tuple[bytes, bytes | None]],
        elements: Mapping[bytes, bytes],
        texts: CommitPlan,
    ) -> None:
        self.incarnation: int | None = None
        self._target = target
        self._ranges = ranges
        self._elements = elements
        self._message = texts.message
        self._headers: Headers = texts.headers
        self._hidden: Headers = texts.hidden

    def plan(self, head: Head) -> Sequence[CommitPlan]:
        """Plans the difference, or nothing."""
        current = dict(self._present(head))
        puts = {
            key: element
            for key, element in self._elements.items()
            if key not in current or not same_file(element, current[key])
        }
        removed = [key for key in current if key not in self._elements]
        self._target.check_commit(head, puts, removed, ())
        head.check_again(self._may_commit)
        operations = [Operation(key, element) for key, element in puts.items()]
        operations += [Operation(key, None) for key in removed]
        if not operations:
            return []
        operations.sort(key=lambda one: one.key)
        return [CommitPlan(operations, self._message, self._headers, self._hidden)]

    def _may_commit(self, head: Head) -> bool:
        """Decides on a later head; on the keys it was decided, and they are the same there."""
        self._target.check_head(head)
        return True

    def _present(self, head: Head) -> Iterator[tuple[bytes, bytes]]:
        """Yields what the prefixes hold now."""
        for start, end in self._ranges:
            at = start
            while page := head.page(Universe.FILES, at, end, PAGE_ENTRIES_MAX):
                yield from page
                at = page[-1][0] + b"\0"


def _element(found: ForeignObject) -> bytes:
    info = found.info
    return encode_file(
        FileEntry(
            address=info.address, size=info.size, modified_us=info.modified_us, etag=info.etag
        )
    )


def check_sources(sources: Sequence[ImportSource]) -> None:
    """Raises Invalid unless sources can be imported together."""
    if not 0 < len(sources) <= IMPORT_SOURCES_MAX:
        raise Invalid(f"an import has 1 to {IMPORT_SOURCES_MAX} sources")
    for source in sources:
        if source.prefix or source.is_object:
            file_key(source.prefix)
    # An object may be below a prefix: of two with one path the later source counts.
    prefixes = [source.prefix for source in sources if not source.is_object]
    if any(
        one.startswith(other)
        for at, one in enumerate(prefixes)
        for other in (*prefixes[:at], *prefixes[at + 1 :])
    ):
        raise Invalid("no destination of an import is below another one")


def _range_of(source: ImportSource) -> tuple[bytes, bytes | None]:
    """Returns which keys an import replaces."""
    if not source.prefix:
        return b"f\x01", prefix_end(b"f")
    raw = bytes(file_key(source.prefix))
    return raw, raw + b"\0" if source.is_object else prefix_end(raw)


def _nothing_imported() -> LochanError:
    return NothingToCommit("the branch has all of these objects already")
