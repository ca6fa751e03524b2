"""The handlers of objects without their bytes: describe, list, copy, delete."""

from __future__ import annotations

from typing import Final

import msgspec

from lochan.base.errors import Invalid, PathNotFound
from lochan.base.limits.files import FILES_DELETED_MAX
from lochan.faces.calls import read_call, write_call
from lochan.faces.lakefs.answers import NO_CONTENT, answer, refusal
from lochan.faces.lakefs.collection import collect
from lochan.faces.lakefs.params import (
    Ref,
    branch_of,
    flag_of,
    page_of,
    parse_ref,
    path_of,
    ref_of,
)
from lochan.faces.lakefs.references import find_branch
from lochan.faces.lakefs.repositories import namespace_of
from lochan.faces.lakefs.staged_branches import note_staged
from lochan.faces.params import Handlers
from lochan.model.files import (
    UNCONDITIONAL,
    FileDifference,
    FileInfo,
    FileItem,
    FilePrefix,
    WriteCondition,
)
from lochan.model.results import Page
from lochan.model.specs import ReferenceSpec
from lochan.transport.exchange import Exchange, LongWork, Response
from lochan.wire.codec import Reader
from lochan.wire.lakefs import (
    LakefsCopyIn,
    LakefsObjectJson,
    LakefsPathsIn,
    ObjectErrors,
    UserMetadataIn,
    metadata_in,
    object_out,
    page_out,
)

_read_copy: Final = Reader(LakefsCopyIn)
_read_paths: Final = Reader(LakefsPathsIn)
_read_metadata: Final = Reader(UserMetadataIn)


def shown(exchange: Exchange, item: FileItem, *, with_metadata: bool = True) -> LakefsObjectJson:
    """Returns an object as lakeFS shows it."""
    return object_out(item, namespace_of(exchange.repository.info), with_metadata=with_metadata)


def find_object(exchange: Exchange, ref: Ref, path: str) -> FileInfo:
    """Returns an object; PathNotFound if there is none, or none that is staged."""
    check_staged(exchange, ref, path)
    return exchange.repository.files.stat(read_call(exchange), ref.spec, path)


def check_staged(exchange: Exchange, ref: Ref, path: str) -> None:
    """Raises PathNotFound if a request is about what is staged alone and a path is not."""
    if not ref.staged:
        return
    branch = ref.spec.name or ""
    page = exchange.repository.file_listings.uncommitted(
        read_call(exchange), branch, prefix=path, limit=1
    )
    if not any(one.path == path for one in page.items):
        raise PathNotFound(f"there is no file {path!r} staged on {branch!r}")


def write_condition(exchange: Exchange) -> WriteCondition:
    """Returns what a writer demands; lakeFS knows that there is no object yet, and nothing else."""
    absent = exchange.request.headers.get("if-none-match")
    if absent is None:
        return UNCONDITIONAL
    if absent.strip() != "*":
        raise Invalid("a write may have If-None-Match: * and no other: invalid value")
    return WriteCondition(if_absent=True)


def wants_match(exchange: Exchange) -> Response | None:
    """Returns the refusal of `If-Match`, which open-source lakeFS does not implement either."""
    if exchange.request.headers.get("if-match") is None:
        return None
    return refusal(501, "If-Match is not implemented")


def stat(exchange: Exchange) -> Response:
    """Returns what an object is."""
    info = find_object(exchange, ref_of(exchange), path_of(exchange))
    found = shown(exchange, info, with_metadata=flag_of(exchange, "user_metadata", default=True))
    if flag_of(exchange, "presign"):
        spec = ref_of(exchange).spec
        url = exchange.repository.files.presign(read_call(exchange), spec, info.path)
        found = msgspec.structs.replace(found, physical_address=url)
    return answer(found)


def underlying(exchange: Exchange) -> Response:
    """Returns what the place of an object states about it: nothing."""
    find_object(exchange, ref_of(exchange), path_of(exchange))
    return answer({})


def list_objects(exchange: Exchange) -> Response | LongWork:
    """Lists objects."""
    page, ref = page_of(exchange), ref_of(exchange)
    with_metadata = flag_of(exchange, "user_metadata", default=True)

    def read(limit: int, token: str | None) -> Page[FileItem]:
        call, listings = read_call(exchange), exchange.repository.file_listings
        if not ref.staged:
            return listings.list(
                call, ref.spec, page.prefix, page.delimiter, page.after, limit, token
            )
        some = listings.uncommitted(
            call, ref.spec.name or "", page.prefix, page.delimiter, limit, token, page.after
        )
        return Page(_staged(some), some.token)

    def show(found: list[FileItem], has_more: bool) -> Response:
        items = [shown(exchange, one, with_metadata=with_metadata) for one in found]
        return answer(page_out(items, items[-1].path if items else "", has_more=has_more))

    return collect(page.amount, read, show)


def passes_few_objects(exchange: Exchange) -> bool:
    """Returns whether a listing passes few deleted objects, as far as the server knows."""
    return exchange.repository.lists_briefly(exchange.params["ref"])


def _staged(page: Page[FileDifference]) -> tuple[FileItem, ...]:
    items: list[FileItem] = []
    for one in page.items:
        if isinstance(one, FilePrefix):
            items.append(one)
        elif one.after is not None:
            items.append(one.after)
    return tuple(items)


def delete(exchange: Exchange) -> Response:
    """Deletes an object; that there is none is no error."""
    branch = branch_of(exchange)
    note_staged(exchange, branch)
    exchange.repository.files.delete(write_call(exchange), branch, path_of(exchange))
    return NO_CONTENT


def delete_many(exchange: Exchange) -> Response:
    """Deletes objects."""
    body: LakefsPathsIn = _read_paths(exchange.request.body)
    branch = branch_of(exchange)
    if len(body.paths) > FILES_DELETED_MAX:
        raise Invalid(f"at most {FILES_DELETED_MAX} objects are deleted at once: request size")
    note_staged(exchange, branch)
    exchange.repository.files.delete_many(write_call(exchange), branch, body.paths)
    return answer(ObjectErrors([]))


def copy(exchange: Exchange) -> Response:
    """Makes an object of a reference an object of a branch."""
    body: LakefsCopyIn = _read_copy(exchange.request.body)
    if body.shallow:
        return refusal(501, "shallow copies are not implemented")
    branch = branch_of(exchange)
    source = ReferenceSpec(branch)
    if body.src_ref:
        source = parse_ref(exchange, body.src_ref).spec
    note_staged(exchange, branch)
    info = exchange.repository.files.copy(
        write_call(exchange), branch, path_of(exchange, "dest_path"), source, body.src_path
    )
    return answer(shown(exchange, info), 201)


def update_metadata(exchange: Exchange) -> Response:
    """Replaces the metadata of an object."""
    body: UserMetadataIn = _read_metadata(exchange.request.body)
    branch = branch_of(exchange)
    note_staged(exchange, branch)
    exchange.repository.files.update(
        write_call(exchange), branch, path_of(exchange), metadata_in(body.set)
    )
    return Response(201)


def may_stage(exchange: Exchange) -> Response:
    """Returns whether a branch takes objects."""
    branch = find_branch(exchange).name or ""
    exchange.repository.protection.check_write(read_call(exchange), branch)
    return NO_CONTENT


HANDLERS: Final[Handlers] = {
    "lakefs.deleteObject": (delete, True),
    "lakefs.deleteObjects": (delete_many, False),
    "lakefs.copyObject": (copy, True),
    "lakefs.statObject": (stat, True),
    "lakefs.listObjects": (list_objects, passes_few_objects),
    "lakefs.updateObjectUserMetadata": (update_metadata, True),
    "lakefs.getUnderlyingProperties": (underlying, True),
    "lakefs.uploadObjectPreflight": (may_stage, True),
}
"""The operations of this module: their handlers, and whether they are brief."""
