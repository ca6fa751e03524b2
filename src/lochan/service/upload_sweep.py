"""Removes the rows of uploads in parts that have ended."""

from __future__ import annotations

from lochan.base.errors import NotFound
from lochan.base.limits.storage import GRACE_S
from lochan.kernel.context import RepositoryContext
from lochan.persist.uploads import UploadRow, UploadRows
from lochan.service.file_places import FilePlaces
from lochan.staging.block_store import MultipartId


class UploadSweep:
    """The sweep of one repository."""

    def __init__(self, context: RepositoryContext, places: FilePlaces) -> None:
        self._clock = context.clock
        self._rows = UploadRows(context.store, context.instance)
        self._places = places
        self._start = b""

    def turn(self, limit: int) -> int:
        """Removes rows of uploads that were completed, or to which nothing was added for a day.

        Each call looks at the next rows, and begins again after the last; returns how many went. A
        place that was not used since the process began is left for later.
        """
        if not self._places.is_open:
            return 0
        before_us = self._clock.now_us() - GRACE_S * 1_000_000
        page = self._rows.scan(self._start, limit)
        self._start = page.next_start or b""
        removed = 0
        for found in page.rows:
            if found.row.began_us < before_us and self._is_over(found.row, before_us):
                removed += self._rows.drop(found)
        return removed

    def _is_over(self, row: UploadRow, before_us: int) -> bool:
        """Returns whether an upload has ended; aborts it if nothing was added since a time."""
        place, upload = self._places.place, MultipartId(row.place)
        if row.outcome:
            return True
        last, newest = 0, row.began_us
        try:
            while parts := place.list_parts(upload, last):
                newest = max(newest, *(part.modified_us for part in parts))
                last = parts[-1].number
        except NotFound:
            return True
        if newest >= before_us:
            return False
        place.abort_multipart(upload)
        return True
