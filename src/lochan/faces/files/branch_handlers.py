"""The handlers of what is done to a branch as a whole: commits, imports and resets."""

from __future__ import annotations

from typing import Final

from lochan.base.errors import Invalid
from lochan.faces.answers import NO_CONTENT, answer
from lochan.faces.calls import flag_of, read_call, write_call
from lochan.faces.files.params import branch_of
from lochan.faces.params import Handlers
from lochan.model.files import Imported, ImportSource
from lochan.model.specs import ReferenceSpec, parse_expected, parse_path
from lochan.service.pending_writes import PendingWrite
from lochan.transport.exchange import Exchange, Response
from lochan.wire.commits import commit_response, read_commit
from lochan.wire.files import HardResetIn, ImportIn, ResetIn, imported_out
from lochan.wire.metas import meta_from_client
from lochan.wire.references import SingleReference, reference_v2
from lochan.wire.strict import StrictReader

_read_import: Final = StrictReader(ImportIn)
_read_reset: Final = StrictReader(ResetIn)
_read_hard_reset: Final = StrictReader(HardResetIn)


def commit(exchange: Exchange) -> PendingWrite[Response]:
    """Commits what is staged, and operations on tables with it."""
    path = parse_path(exchange.params["ref"])
    if path.name is None:
        raise Invalid("a commit is made on a branch: name it")
    meta, operations = read_commit(exchange.request.body)
    pending = exchange.repository.commits.commit(
        write_call(exchange),
        path.name,
        _expected(exchange, path, bool(operations)),
        meta,
        operations,
        staged=True,
        allow_empty=flag_of(exchange, "allow-empty"),
    )
    return pending.then(lambda done: answer(commit_response(done), done.hash))


def _expected(
    exchange: Exchange, path: ReferenceSpec, has_operations: bool
) -> ReferenceSpec | None:
    """Returns what the writer expects: the hash in the path, by default the present head.

    Staged files alone expect nothing.
    """
    if path.on_reference:
        return ReferenceSpec(None, path.hash, path.steps)
    if not has_operations:
        return None
    head = exchange.repository.references.get(read_call(exchange), path.name or "").hash
    return ReferenceSpec(None, head)


def import_files(exchange: Exchange) -> PendingWrite[Response]:
    """Commits objects of an object store as files."""
    body: ImportIn = _read_import(exchange.request.body)
    pending = exchange.repository.imports.import_files(
        write_call(exchange),
        branch_of(exchange),
        tuple(ImportSource(each.url, each.prefix) for each in body.sources),
        meta_from_client(body.commit_meta),
    )
    return pending.then(_imported)


def _imported(done: Imported) -> Response:
    return answer(imported_out(done), done.hash)


def reset(exchange: Exchange) -> Response:
    """Drops staged changes."""
    body: ResetIn = _read_reset(exchange.request.body)
    resets = exchange.repository.resets
    resets.reset(write_call(exchange), branch_of(exchange), prefix=body.prefix, path=body.path)
    return NO_CONTENT


def hard_reset(exchange: Exchange) -> Response:
    """Moves a branch to a commit."""
    body: HardResetIn = _read_hard_reset(exchange.request.body)
    moved = exchange.repository.resets.hard_reset(
        write_call(exchange),
        branch_of(exchange),
        parse_path(body.target),
        expected=parse_expected(body.expected),
        discard_staged=body.discard_staged,
    )
    return answer(SingleReference(reference_v2(moved)), moved.hash)


HANDLERS: Final[Handlers] = {
    "commitFiles": (commit, False),
    "importFiles": (import_files, False),
    "resetFiles": (reset, False),
    "hardReset": (hard_reset, False),
}
"""The operations of this module: their handlers, and whether they are brief."""
