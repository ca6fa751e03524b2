"""Use cases of imports that run in the background, with a row that every server can read.

1. `start` decides on the caller and adds a row in the state *running*. It returns the run of the
   import, which the server performs in a thread.
2. The run lists the objects. It changes its row every few seconds, and stops if that is *canceled*.
3. It sets the row to *committing*, from which it cannot be canceled any more.
4. It publishes one commit (`service/imports.py`), as a server of its own would do.
5. It sets the row to *completed* with the commit, or to *failed* with the reason.

A server that ends leaves its row as it is after the last of these steps. A row that has not changed
for half a minute counts as that of a stopped import, and `status` says so: before step 4
nothing was imported; after it the commit is in the log, and the same import started again finds
nothing to do. An import is never continued by another server.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import msgspec

from lochan.access.policy import Action, Call
from lochan.base.errors import Conflict, LochanError, NotFound
from lochan.base.limits.files import IMPORT_KEPT_US, IMPORT_STALE_US
from lochan.kernel.context import RepositoryContext
from lochan.kernel.publish import Publisher
from lochan.kernel.references import ReferenceIndex
from lochan.model.commits import CommitMeta
from lochan.model.files import Imported, ImportJob, ImportProgress, ImportSource
from lochan.model.specs import ReferenceSpec
from lochan.persist.imports import Change, ImportRow, ImportRows, ImportState
from lochan.service.file_base import FileContext, FileUseCases
from lochan.service.imports import Imports, ReportImport, check_sources
from lochan.service.pending_writes import PendingWrite

_ID_BYTES: Final = 16
_ID: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)
_ERROR_CHARACTERS_MAX: Final = 1_000
_UNDER_WAY: Final = ("running", "committing")

CANCELED: Final = "Canceled"
"""lakeFS's word for the error of an import that was canceled."""

_STOPPED: Final = {
    "running": "the server that ran the import has stopped, and nothing was imported; start it "
    "again",
    "committing": "the server that ran the import has stopped while it made the commit; look for "
    "it in the log, or start the import again",
}


class ImportJobs(FileUseCases):
    """Imports of one repository that run in the background."""

    def __init__(self, files: FileContext, imports: Imports) -> None:
        super().__init__(files)
        self._imports = imports
        self._rows = ImportRows(files.context.store, files.context.instance)

    def start(
        self, call: Call, branch: str, sources: Sequence[ImportSource], meta: CommitMeta
    ) -> ImportRun:
        """Adds an import that is running from now on; the server has to perform its run."""
        check_sources(sources)
        target = self._decide(call, branch, [], Action.COMMIT, Action.IMPORT_FILES)
        context = self._context
        now_us = context.clock.now_us()
        job = context.random.random_bytes(_ID_BYTES).hex()
        row = ImportRow(1, job, target.name, call.principal, "running", 0, now_us, now_us)
        self._rows.add(row, context.retry())

        def prepare(report: ReportImport) -> PendingWrite[Imported]:
            return self._imports.import_files(call, branch, sources, meta, report)

        return ImportRun(self._rows, context, self._names, job, prepare)

    def status(self, call: Call, branch: str, job: str) -> ImportJob:
        """Returns how far an import into a branch is."""
        self._resolver.read(call, Action.READ_LOG, ReferenceSpec(branch))
        row = self._find_row(branch, job)
        error = row.error
        if row.state in _UNDER_WAY and _is_stale(self._context, row):
            error = _STOPPED[row.state]
        return ImportJob(
            id=row.id,
            is_completed=row.state == "completed",
            objects=row.objects,
            updated_us=row.updated_us,
            hash=row.hash,
            error=error,
        )

    def cancel(self, call: Call, branch: str, job: str) -> None:
        """Stops an import that has not begun to commit; Conflict if it has."""
        self._decide(call, branch, [], Action.IMPORT_FILES)
        self._find_row(branch, job)

        def change(row: ImportRow) -> ImportRow | None:
            if row.state == "canceled":
                return None
            if row.state == "committing" and not _is_stale(self._context, row):
                raise Conflict("the import is being committed")
            if row.state not in _UNDER_WAY:
                raise Conflict("import already completed")
            return _ended(self._context, row, "canceled", error=CANCELED)

        self._rows.change(job, change, self._context.retry())

    def _find_row(self, branch: str, job: str) -> ImportRow:
        found = self._rows.fetch(job) if _ID.fullmatch(job) else None
        if found is None or found.row.branch != branch:
            raise NotFound("import: not found")
        return found.row


class ImportRun:
    """One import that a server performs: `perform` in a thread, `renew` every few seconds."""

    def __init__(
        self,
        rows: ImportRows,
        context: RepositoryContext,
        names: ReferenceIndex,
        job: str,
        prepare: Callable[[ReportImport], PendingWrite[Imported]],
    ) -> None:
        self.id = job
        self._rows = rows
        self._context = context
        self._names = names
        self._prepare = prepare
        self._objects = 0

    def perform(self) -> None:
        """Imports, and records the commit or why there is none."""
        try:
            outcome: str | LochanError = self._import()
        except LochanError as error:
            outcome = error
        # 5
        self._change(partial(self._ended_by, outcome))

    def renew(self) -> bool:
        """Records that the import is alive; False if it was canceled or has ended."""

        def change(row: ImportRow) -> ImportRow | None:
            if row.state not in _UNDER_WAY:
                return None
            return self._moved(row, row.state)

        now = self._change(change)
        return now is not None and now.state in _UNDER_WAY

    def _import(self) -> str:
        # 2
        pending = self._prepare(self._report)
        # 3
        now = self._change(
            lambda row: self._moved(row, "committing") if row.state == "running" else None
        )
        if now is None or now.state != "committing":
            raise Conflict(CANCELED)
        # 4
        publisher = Publisher(self._context, pending.branch, self._names.find)
        (settled,) = publisher.publish([pending.proposal])
        return pending.finish(settled).hash

    def _report(self, progress: ImportProgress) -> None:
        self._objects = progress.objects
        if not self.renew():
            raise Conflict(CANCELED)

    def _moved(self, row: ImportRow, state: ImportState) -> ImportRow:
        now_us = self._context.clock.now_us()
        return msgspec.structs.replace(row, state=state, objects=self._objects, updated_us=now_us)

    def _ended_by(self, outcome: str | LochanError, row: ImportRow) -> ImportRow | None:
        if row.state not in _UNDER_WAY:
            return None
        if isinstance(outcome, LochanError):
            text = outcome.public_message[:_ERROR_CHARACTERS_MAX]
            return _ended(self._context, row, "failed", error=text)
        return _ended(self._context, row, "completed", hash=outcome)

    def _change(self, change: Change) -> ImportRow | None:
        return self._rows.change(self.id, change, self._context.retry())


class ImportSweep:
    """Removes the rows of imports of one repository that ended, or stopped, a day ago."""

    def __init__(self, context: RepositoryContext) -> None:
        self._clock = context.clock
        self._rows = ImportRows(context.store, context.instance)
        self._start = b""

    def turn(self, limit: int) -> int:
        """Looks at the next rows, and begins again after the last; returns how many went."""
        before_us = self._clock.now_us() - IMPORT_KEPT_US
        page = self._rows.scan(self._start, limit)
        self._start = page.next_start or b""
        old = [found for found in page.rows if found.row.updated_us < before_us]
        return sum(self._rows.drop(found) for found in old)


def _ended(
    context: RepositoryContext, row: ImportRow, state: ImportState, **more: str
) -> ImportRow:
    now_us = context.clock.now_us()
    return msgspec.structs.replace(row, state=state, updated_us=now_us, **more)


def _is_stale(context: RepositoryContext, row: ImportRow) -> bool:
    return not 0 <= context.clock.now_us() - row.updated_us < IMPORT_STALE_US
