"""Records of jobs on the wire."""

from __future__ import annotations

import msgspec

from lochan.model.commits import JobRecord
from lochan.wire.pages import PageJson
from lochan.wire.references import ReferenceV2


class JobJson(msgspec.Struct, frozen=True):
    """A job that has written a content, and the facts that it recorded."""

    job: str
    facts: dict[str, str]


class JobsJson(PageJson, frozen=True, rename="camel"):
    """A page of jobs, in the order of their names."""

    jobs: list[JobJson]
    effective_reference: ReferenceV2


def job_out(record: JobRecord) -> JobJson:
    """Returns a record as JSON."""
    return JobJson(record.job, dict(record.facts))


def job_in(record: JobJson) -> JobRecord:
    """Returns the record that JSON describes."""
    return JobRecord(record.job, tuple(sorted(record.facts.items())))
