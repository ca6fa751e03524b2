"""The use case of looking up jobs: which of them have written a content, as of a commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lochan.base.errors import ContentNotFound
from lochan.base.keys import job_name, jobs_prefix, prefix_end, table_key
from lochan.base.limits import PAGE_ENTRIES_MAX
from lochan.catalog.conflicts import text_of
from lochan.catalog.contents import load_content_ids
from lochan.catalog.jobs import decode_job
from lochan.catalog.types import ContentTypes
from lochan.index.layers import find_many, find_one, read_page
from lochan.kernel.context import RepositoryContext
from lochan.kernel.tokens import PageToken, Tokens
from lochan.model.commits import ContentKey, JobRecord
from lochan.model.results import Page
from lochan.model.specs import ReferenceSpec
from lochan.service.calls import ANYONE, Call, Gate, Right
from lochan.service.pages import check_limit
from lochan.service.resolve import Resolved, Resolver

_KIND: Final = "jobs"


class Jobs:
    """Reads the records of jobs of one repository."""

    def __init__(
        self, context: RepositoryContext, types: ContentTypes, resolver: Resolver, gate: Gate
    ) -> None:
        self._context = context
        self._types = types
        self._resolver = resolver
        self._gate = gate
        self._tokens = Tokens(context.description.token_key)

    def find(
        self, spec: ReferenceSpec, key: ContentKey, jobs: Sequence[str], *, call: Call = ANYONE
    ) -> Page[JobRecord]:
        """Returns the records of those jobs that have written what a key holds."""
        self._gate.check(call, Right.READ_CONTENT, spec.name)
        resolved = self._resolver.resolve(spec)
        prefix = self._prefix(resolved, spec, key)
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
        spec: ReferenceSpec,
        key: ContentKey,
        limit: int | None = None,
        token: str | None = None,
        *,
        start: str = "",
        prefix: str = "",
        call: Call = ANYONE,
    ) -> Page[JobRecord]:
        """Returns the jobs that have written what a key holds, in the order of their names.

        `start` is the first name that is wanted, `prefix` is what all of them begin with.
        """
        check_limit(limit)
        self._gate.check(call, Right.READ_CONTENT, spec.name)
        resolved = self._resolver.resolve(spec)
        of, wanted = self._resolver.plain(spec), f"{text_of(key)}\n{start}\n{prefix}"
        at = b""
        if token is not None:
            commit, at = self._tokens.read(PageToken(token), _KIND, wanted, of)
            resolved = Resolved(self._context.views.load(commit), resolved.row)
        whole = self._prefix(resolved, spec, key)
        within = whole + (job_name(prefix) if prefix else b"")
        begin = max(at, within, whole + (job_name(start) if start else b""))
        step = min(limit or PAGE_ENTRIES_MAX, PAGE_ENTRIES_MAX)
        end = prefix_end(within)
        found = read_page(self._context.nodes, resolved.view.files, begin, end, step + 1)
        made = None
        if len(found) > step:
            made = self._tokens.make(_KIND, resolved.view.obj_id, found[step][0], wanted, of)
        records = tuple(decode_job(*each) for each in found[:step])
        return Page(records, made, resolved.reference)

    def _prefix(self, resolved: Resolved, spec: ReferenceSpec, key: ContentKey) -> bytes:
        """Returns what the keys of the records of a content begin with."""
        element = find_one(self._context.nodes, resolved.view.tables, bytes(table_key(key)))
        if element is None:
            raise ContentNotFound(
                f"Could not find content for key '{text_of(key)}' in reference '{spec.text()}'.",
                key,
            )
        return jobs_prefix(load_content_ids(self._context, self._types, [element])[element])
