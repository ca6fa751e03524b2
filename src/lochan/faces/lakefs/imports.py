"""The handlers of imports: objects of an object store become objects of a commit, without a copy.

An import runs in the background (`service/import_jobs.py`); every server of the store knows how far
it is, also after a restart.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from lochan.base.errors import Invalid, LochanError
from lochan.faces.calls import read_call, write_call
from lochan.faces.lakefs.answers import NO_CONTENT, answer
from lochan.faces.lakefs.commits import commit_meta, logged
from lochan.faces.lakefs.params import branch_of, path_of
from lochan.faces.params import Handlers
from lochan.model.commits import CommitMeta
from lochan.model.files import ImportSource
from lochan.model.specs import ReferenceSpec
from lochan.transport.exchange import Exchange, Response
from lochan.wire.codec import Reader
from lochan.wire.lakefs import (
    CommitJson,
    IdJson,
    ImportLocation,
    ImportStatusJson,
    LakefsImportIn,
    MessageJson,
    commit_out,
)

_read_import: Final = Reader(LakefsImportIn)

_TYPES: Final = {"common_prefix": False, "object": True}


def start(exchange: Exchange) -> Response:
    """Starts an import; returns the id by which its state can be read."""
    body: LakefsImportIn = _read_import(exchange.request.body)
    sources = tuple(_source(one) for one in body.paths)
    run = exchange.repository.import_jobs.start(
        write_call(exchange), branch_of(exchange), sources, commit_meta(body.commit)
    )
    exchange.start(run.perform, run.renew)
    return answer(IdJson(run.id), 202)


def _source(location: ImportLocation) -> ImportSource:
    is_object = _TYPES.get(location.type)
    if is_object is None:
        raise Invalid(f"import type {location.type[:40]!r}: invalid value")
    return ImportSource(location.path, location.destination, is_object)


def status(exchange: Exchange) -> Response:
    """Returns how far an import is, and its commit if it is completed."""
    branch = branch_of(exchange)
    job = exchange.repository.import_jobs.status(
        read_call(exchange), branch, path_of(exchange, "id")
    )
    moment = datetime.fromtimestamp(job.updated_us / 1_000_000, UTC).isoformat()
    commit = None
    if job.is_completed:
        commit = _made(exchange, branch, job.hash)
    return answer(
        ImportStatusJson(
            job.is_completed,
            moment,
            job.objects,
            None if commit is None else commit.meta_range_id,
            commit,
            MessageJson(job.error) if job.error else None,
        )
    )


def _made(exchange: Exchange, branch: str, digits: str) -> CommitJson:
    """Returns the commit of an import; its id alone if the branch has left it since.

    It is read as one of its branch: a caller may have no right to name commits by their ids.
    """
    spec = ReferenceSpec(branch, digits)
    try:
        return logged(exchange.repository.commit_log.get(read_call(exchange), spec))
    except LochanError:
        return commit_out(CommitMeta(message="", hash=digits), 0)


def cancel(exchange: Exchange) -> Response:
    """Stops an import; 409 if it has ended or is being committed."""
    exchange.repository.import_jobs.cancel(
        write_call(exchange), branch_of(exchange), path_of(exchange, "id")
    )
    return NO_CONTENT


HANDLERS: Final[Handlers] = {
    "lakefs.importStart": (start, False),
    "lakefs.importStatus": (status, True),
    "lakefs.importCancel": (cancel, False),
}
"""The operations of this module: their handlers, and whether they are brief."""
