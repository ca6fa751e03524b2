"""Records of jobs: which jobs have written a content, beside the content in every commit.

A job that runs twice must write once, however long ago it ran. So a commit that a job makes puts a
record of it into the index: a key of the files' universe that no user can name, made of the content
id and the name of the job. It is found by one lookup whatever the length of history is, and it goes
where the content goes: merges, picks, rebases and reverts carry it like any other key, a rename
keeps it, and a branch that is moved back does not have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lochan.base.errors import Invalid, TooLarge
from lochan.base.keys import job_of
from lochan.base.limits.contents import JOB_FACTS_BYTES_MAX
from lochan.codec.elements import decode_file, encode_file
from lochan.model.commits import JobRecord
from lochan.model.entries import FileEntry

_TYPE: Final = "application/vnd.lochan.job"


def encode_job(facts: Sequence[tuple[str, str]]) -> bytes:
    """Returns the element of a record; Invalid unless the facts are sorted and few."""
    names = [name for name, _ in facts]
    if names != sorted(set(names)):
        raise Invalid("the facts of a job are sorted by name, each name once")
    if sum(len(name) + len(value) for name, value in facts) > JOB_FACTS_BYTES_MAX:
        raise TooLarge(f"the facts of a job have at most {JOB_FACTS_BYTES_MAX} characters")
    return encode_file(FileEntry("", 0, 0, metadata=tuple(facts), content_type=_TYPE))


def decode_job(key: bytes, element: bytes) -> JobRecord:
    """Returns a record as it is stored."""
    return JobRecord(job_of(key), decode_file(element).metadata)
