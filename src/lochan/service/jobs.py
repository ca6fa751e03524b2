"""Use cases that read records of jobs: which jobs have written a content, as of a commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lochan.access.policy import Action, Call
from lochan.base.keys import job_name, jobs_prefix, prefix_end, table_key
from lochan.base.limits.requests import PAGE_ENTRIES_MAX
from lochan.catalog.conflicts import text_of
from lochan.catalog.contents import load_content_ids
from lochan.catalog.jobs import decode_job
from lochan.index.layers import find_many, find_one, read_page
from lochan.kernel.tokens import PageToken
from lochan.model.commits import ContentKey, JobRecord
from lochan.model.results import Page
from lochan.model.specs import ReferenceSpec
from lochan.service.pages import check_limit, content_not_found
from lochan.service.readable_keys import covers
from lochan.service.resolve import Reads, Resolved

_KIND: Final = "jobs"


class Jobs(Reads):
    """Reads the records of jobs of one repository."""

    def find(
        self, call: Call, spec: ReferenceSpec, key: ContentKey, jobs: Sequence[str]
    ) -> Page[JobRecord]:
        """Returns the records of those jobs that have written what a key holds."""
        resolved = self._resolver.read(call, Action.READ_CONTENT, spec)
        prefix = self._prefix(call, resolved, spec, key)
        keys = sorted({prefix + job_name(job) for job in jobs})
        found = find_many(self._context.nodes, resolved.view.files, keys)
        records = tuple(
            decode_job(raw, element)
            for raw, element in zip(keys, found, strict=True)
            if element is not None
        )
        return Page(records, None, resolved.reference)

    def list(
        self,
        call: Call,
        spec: ReferenceSpec,
        key: ContentKey,
        limit: int | None = None,
        token: str | None = None,
        *,
        start: str = "",
        prefix: str = "",
    ) -> Page[JobRecord]:
        """Returns the jobs that have written what a key holds, in the order of their names.

        `start` is the first name of the listing, `prefix` is what all of its names begin with.
        """
        check_limit(limit)
        resolved = self._resolver.read(call, Action.READ_CONTENT, spec)
        listed, selected = (
            self._resolver.listed(spec, resolved),
            f"{text_of(key)}\n{start}\n{prefix}",
        )
        at = b""
        if token is not None:
            commit, at = self._tokens.read(PageToken(token), _KIND, selected, listed)
            resolved = self._resolver.read_at(call, Action.READ_CONTENT, spec, resolved, commit)
        whole = self._prefix(call, resolved, spec, key)
        within = whole + (job_name(prefix) if prefix else b"")
        begin = max(at, within, whole + (job_name(start) if start else b""))
        step = min(limit or PAGE_ENTRIES_MAX, PAGE_ENTRIES_MAX)
        end = prefix_end(within)
        found = read_page(self._context.nodes, resolved.view.files, begin, end, step + 1)
        further = None
        if len(found) > step:
            commit = resolved.view.obj_id
            further = self._tokens.make(_KIND, commit, found[step][0], selected, listed)
        records = tuple(decode_job(*each) for each in found[:step])
        return Page(records, further, resolved.reference)

    def _prefix(
        self, call: Call, resolved: Resolved, spec: ReferenceSpec, key: ContentKey
    ) -> bytes:
        """Returns what the keys of the records of a content begin with."""
        raw = bytes(table_key(key))
        if not covers(resolved.keys, raw):
            self._resolver.record_hidden(call, Action.READ_CONTENT, resolved, (key,))
            raise content_not_found(key, spec)
        element = find_one(self._context.nodes, resolved.view.tables, raw)
        if element is None:
            raise content_not_found(key, spec)
        return jobs_prefix(load_content_ids(self._context, self._types, [element])[element])
