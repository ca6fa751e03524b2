"""What Lochan adds below version 2: more ways to move a branch, many at once, bulk objects."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, Final

from lochan.base.errors import AlreadyExists, Invalid
from lochan.faces.answers import answer, problem
from lochan.faces.calls import read_call, write_call
from lochan.faces.nessie.handlers import (
    carried_request,
    later_merged,
    merged_response,
    meta_of,
    resolutions_of,
)
from lochan.faces.nessie.preconditions import check_unambiguous, expected_of
from lochan.faces.nessie.responses import reference_for
from lochan.faces.nessie.v2_writes import expiry, kind_of
from lochan.faces.params import Handlers, is_json, limit_of, token_of
from lochan.model.requests import (
    MoveRequest,
    NewReference,
    RebaseRequest,
    RevertRequest,
)
from lochan.model.results import Merged
from lochan.model.specs import (
    ReferenceSpec,
    check_new_name,
    parse_on_reference,
    parse_path,
    parse_spec,
)
from lochan.service.pending_writes import PendingWrite
from lochan.service.repositories import Repositories
from lochan.transport.exchange import Exchange, Response
from lochan.wire.codec import Reader, instant
from lochan.wire.config import (
    NewRepository,
    ObjectIds,
    ObjectJson,
    ObjectsJson,
    ObjectsStored,
    RepositoryJson,
    RepositoryList,
)
from lochan.wire.merges import (
    CherryPickBody,
    MoveBody,
    RebaseBody,
    RevertBody,
    merge_v2,
)
from lochan.wire.references import NewReferencesIn, ReferenceList, annotation_in

RAW_OBJECTS: Final = "application/vnd.lochan.objects"
"""Objects in bulk without JSON: for each its id (32 bytes), its length (4 bytes, big-endian) and
its stored form."""

_HEAD: Final = struct.Struct(">32sI")

_read_many: Final = Reader(NewReferencesIn)
_read_revert: Final = Reader(RevertBody)
_read_pick: Final = Reader(CherryPickBody)
_read_rebase: Final = Reader(RebaseBody)
_read_move: Final = Reader(MoveBody)
_read_ids: Final = Reader(ObjectIds)
_read_objects: Final = Reader(ObjectsJson)
_read_repository: Final = Reader(NewRepository)


def create_many(exchange: Exchange) -> PendingWrite[Response]:
    """Creates many references in one call: all of them or none."""
    request: NewReferencesIn = _read_many(exchange.request.body)
    requests = [
        NewReference(
            kind=kind_of(each.type) or "BRANCH",
            name=check_new_name(each.name),
            source=None if each.source is None else parse_spec(each.source),
            expires_us=expiry(exchange, each.expires_at, each.ttl),
            annotation=None if each.annotation is None else annotation_in(each.annotation),
        )
        for each in request.references
    ]
    made = exchange.repository.references.create_many(write_call(exchange), requests)
    return made.then(
        lambda all_: answer(ReferenceList([reference_for(exchange, each) for each in all_]))
    )


def revert(exchange: Exchange) -> PendingWrite[Response]:
    """Undoes commits of a branch by new ones."""
    body: RevertBody = _read_revert(exchange.request.body)
    hashes = tuple(check_unambiguous(parse_on_reference(None, each)) for each in body.hashes)
    branch, expected = expected_of(exchange, parse_path(exchange.params["ref"]), "revert on")
    request = RevertRequest(
        branch=branch,
        expected=expected,
        hashes=hashes,
        meta=meta_of(exchange, body.commit_meta, body.message),
        dry_run=body.only_try(),
        conflicts_as_result=body.conflicts_as_result(),
    )
    prepared = exchange.repository.merges.revert(write_call(exchange), request)
    return later_merged(prepared, _show, "revert on")


def cherry_pick(exchange: Exchange) -> PendingWrite[Response]:
    """Makes any commits again on a branch, in the order given, or a range of them."""
    body: CherryPickBody = _read_pick(exchange.request.body)
    branch, expected = expected_of(exchange, parse_path(exchange.params["ref"]), "pick into")
    hashes = _picked(exchange, body)
    request = carried_request(exchange, body, branch, expected, body.from_ref_name or "", hashes)
    prepared = exchange.repository.merges.cherry_pick(write_call(exchange), request)
    return later_merged(prepared, _show, "pick into")


def _picked(exchange: Exchange, request: CherryPickBody) -> tuple[ReferenceSpec, ...]:
    """Returns the commits to pick, oldest first; a range has no first but a last one."""
    if (request.hashes is None) == (request.range is None):
        raise Invalid("Say which commits to pick once: `hashes` or `range`.")
    if request.hashes is not None:
        return tuple(check_unambiguous(parse_on_reference(None, each)) for each in request.hashes)
    first, dots, last = (request.range or "").partition("..")
    if not dots:
        raise Invalid("A range is written a..b: what comes after a, up to and with b.")
    after = check_unambiguous(parse_on_reference(None, first))
    upto = check_unambiguous(parse_on_reference(None, last))
    return tuple(
        ReferenceSpec(None, digits)
        for digits in exchange.repository.history.between(read_call(exchange), after, upto)
    )


def rebase(exchange: Exchange) -> Response:
    """Makes the commits of a branch again on another head."""
    body: RebaseBody = _read_rebase(exchange.request.body)
    branch, expected = expected_of(exchange, parse_path(exchange.params["ref"]), "rebase")
    request = RebaseRequest(
        branch=branch,
        onto=parse_spec(body.onto),
        expected=expected,
        default=body.default_key_merge_mode or "NORMAL",
        keys=resolutions_of(body.key_merge_modes),
        paths=body.path_merge_modes or {},
        dry_run=body.only_try(),
    )
    return _merged(exchange.repository.merges.rebase(write_call(exchange), request))


def fast_forward(exchange: Exchange) -> Response:
    """Moves a branch forward to a commit that has everything of it."""
    return _merged(
        exchange.repository.merges.fast_forward(
            write_call(exchange), _move_request(exchange, "fast-forward")
        )
    )


def force(exchange: Exchange) -> Response:
    """Moves a branch to a commit whatever it has; the old head stays in the ref-log."""
    return _merged(
        exchange.repository.merges.force(write_call(exchange), _move_request(exchange, "force"))
    )


def _move_request(exchange: Exchange, purpose: str) -> MoveRequest:
    body: MoveBody = _read_move(exchange.request.body)
    branch, expected = expected_of(exchange, parse_path(exchange.params["ref"]), purpose)
    source = parse_spec(body.source)
    return MoveRequest(branch=branch, source=source, expected=expected, dry_run=body.only_try())


def _show(merged: Merged) -> Any:
    return merge_v2(merged, with_commits=True)


def _merged(merged: Merged) -> Response:
    return merged_response(merged, _show(merged))


def get_objects(exchange: Exchange) -> Response:
    """Reads objects by their ids, those that exist; as JSON, or raw if the request accepts that."""
    request: ObjectIds = _read_ids(exchange.request.body)
    found = exchange.repository.objects.get(read_call(exchange), request.ids)
    if exchange.request.headers.get("accept") == RAW_OBJECTS:
        return Response(200, write_raw(found), (), RAW_OBJECTS.encode("ascii"))
    return answer(ObjectsJson(tuple(ObjectJson(each, data) for each, data in found)))


def put_objects(exchange: Exchange) -> Response:
    """Stores objects; each id is the hash of the bytes."""
    body = exchange.request.body
    if is_json(exchange.request):
        request: ObjectsJson = _read_objects(body)
        objects = [(each.id, each.data) for each in request.objects]
    elif exchange.request.headers.get("content-type") == RAW_OBJECTS:
        objects = read_raw(body)
    else:
        raise Invalid(f"Objects come as JSON or as {RAW_OBJECTS}.")
    return answer(ObjectsStored(exchange.repository.objects.put(write_call(exchange), objects)))


def write_raw(objects: Iterable[tuple[str, bytes]]) -> bytes:
    """Writes objects one after the other."""
    parts: list[bytes] = []
    for object_id, data in objects:
        parts.append(_HEAD.pack(bytes.fromhex(object_id), len(data)))
        parts.append(data)
    return b"".join(parts)


def read_raw(body: bytes) -> list[tuple[str, bytes]]:
    """Reads objects that were written one after the other; Invalid if the last is cut off."""
    objects: list[tuple[str, bytes]] = []
    at = 0
    while at < len(body):
        if at + _HEAD.size > len(body):
            raise Invalid(f"the object at byte {at} is cut off")
        object_id, length = _HEAD.unpack_from(body, at)
        at += _HEAD.size
        if at + length > len(body):
            raise Invalid(f"the object {object_id.hex()} is cut off")
        objects.append((object_id.hex(), body[at : at + length]))
        at += length
    return objects


class RepositoryHandlers:
    """Lists and creates repositories."""

    def __init__(self, repositories: Repositories) -> None:
        self._repositories = repositories

    def list_names(self, exchange: Exchange) -> Response:
        """Lists the names of repositories."""
        page = self._repositories.names(read_call(exchange), limit_of(exchange), token_of(exchange))
        return answer(RepositoryList(page.token is not None, page.token, [*page.items]))

    def create(self, exchange: Exchange) -> Response:
        """Creates a repository."""
        request: NewRepository = _read_repository(exchange.request.body)
        try:
            made = self._repositories.create(
                write_call(exchange), request.name, request.default_branch
            ).info
        except AlreadyExists as error:
            return problem(409, "REPOSITORY_ALREADY_EXISTS", error.message)
        shown = RepositoryJson(made.name, made.default_branch, instant(made.created_us))
        return answer(shown)


HANDLERS: Final[Handlers] = {
    "createReferences": (create_many, False),
    "revert": (revert, False),
    "cherryPick": (cherry_pick, False),
    "rebase": (rebase, False),
    "fastForward": (fast_forward, False),
    "force": (force, False),
    "getObjects": (get_objects, False),
    "putObjects": (put_objects, False),
}
"""The operations of this module: their handlers, and whether they are brief."""
