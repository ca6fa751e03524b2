"""The handlers of objects whose bytes clients write, or have written, to the place by themselves.

1. An address is reserved, written once by a signed URL, and linked.
2. An upload in parts is begun, its parts are sent to signed URLs, and it is completed.
3. An object that is at a place from which the operator allows to import is staged.

Where the place of a repository signs no URLs, 1 and 2 are refused as lakeFS refuses them.
"""

from __future__ import annotations

import re
from typing import Final

from lochan.base.errors import Invalid
from lochan.base.limits.blocks import PART_NUMBER_MAX
from lochan.faces.calls import write_call
from lochan.faces.lakefs.answers import NO_CONTENT, answer, refusal
from lochan.faces.lakefs.objects import shown, wants_match, write_condition
from lochan.faces.lakefs.params import branch_of, path_of
from lochan.faces.lakefs.repositories import namespace_of
from lochan.faces.lakefs.staged_branches import note_staged
from lochan.faces.params import Handlers
from lochan.model.files import FileProperties, SignedUpload, UploadedPart
from lochan.transport.exchange import Exchange, Response
from lochan.wire.codec import Reader
from lochan.wire.lakefs import (
    LakefsLinkIn,
    SignedPartIn,
    SignedPartJson,
    SignedPartsIn,
    SignedUploadIn,
    SignedUploadJson,
    StagedObjectIn,
    StagingLocation,
    address_out,
    metadata_in,
    seconds,
)

_read_link: Final = Reader(LakefsLinkIn)
_read_staged: Final = Reader(StagedObjectIn)
_read_upload: Final = Reader(SignedUploadIn)
_read_parts: Final = Reader(SignedPartsIn)

# Where the token of a reserved address is in what lakeFS calls its physical address.
_TOKEN: Final = "#lochan="  # noqa: S105 - the mark before it

_NUMBER: Final = re.compile(r"[0-9]{1,5}", re.ASCII)
_WRONG_ADDRESS: Final = "link address invalid"


def reserve(exchange: Exchange) -> Response:
    """Reserves an address for the bytes of an object."""
    branch = branch_of(exchange)
    found = exchange.repository.addresses.reserve(write_call(exchange), branch, path_of(exchange))
    address = address_out(found.address, namespace_of(exchange.repository.info))
    return answer(
        StagingLocation(f"{address}{_TOKEN}{found.token}", found.url, seconds(found.expires_us))
    )


def link(exchange: Exchange) -> Response:
    """Makes what was written to a reserved address an object."""
    refused = wants_match(exchange)
    if refused is not None:
        return refused
    body: LakefsLinkIn = _read_link(exchange.request.body)
    branch = branch_of(exchange)
    _, mark, token = (body.staging.physical_address or "").partition(_TOKEN)
    if not mark:
        raise Invalid("the physical address is none that was reserved: address token invalid")
    properties = FileProperties(
        content_type=body.content_type or "",
        metadata=metadata_in(body.user_metadata),
        size=body.size_bytes,
    )
    note_staged(exchange, branch)
    info = exchange.repository.addresses.link(
        write_call(exchange),
        branch,
        path_of(exchange),
        token,
        properties,
        write_condition(exchange),
    )
    return answer(shown(exchange, info))


def stage(exchange: Exchange) -> Response:
    """Makes an object of an object store an object of a branch, without a copy."""
    body: StagedObjectIn = _read_staged(exchange.request.body)
    branch = branch_of(exchange)
    properties = FileProperties(
        content_type=body.content_type or "",
        metadata=metadata_in(body.metadata),
        size=body.size_bytes,
    )
    modified_us = None if body.mtime is None else body.mtime * 1_000_000
    note_staged(exchange, branch)
    info = exchange.repository.files.stage_foreign(
        write_call(exchange),
        branch,
        path_of(exchange),
        body.physical_address,
        properties,
        modified_us,
    )
    return answer(shown(exchange, info), 201)


def create_upload(exchange: Exchange) -> Response:
    """Begins an upload in parts, and returns where the parts are sent."""
    path = path_of(exchange)
    text = exchange.request.query.get("parts") or "0"
    if not _NUMBER.fullmatch(text) or int(text) > PART_NUMBER_MAX:
        raise Invalid(f"parts can be between 0 and {PART_NUMBER_MAX}")
    signed = exchange.repository.multiparts.create_signed(
        write_call(exchange), branch_of(exchange), path, int(text)
    )
    if signed is None:
        return _unsigned()
    address = _address_of(exchange, signed)
    return answer(SignedUploadJson(signed.id, address, list(signed.urls) or None), 201)


def sign_part(exchange: Exchange) -> Response:
    """Returns where one part is sent."""
    body: SignedUploadIn = _read_upload(exchange.request.body)
    text = exchange.params["part"]
    if not _NUMBER.fullmatch(text) or not 1 <= int(text) <= PART_NUMBER_MAX:
        raise Invalid(f"a part has a number from 1 to {PART_NUMBER_MAX}: invalid value")
    signed = _find_upload(exchange, body.physical_address, int(text))
    return _unsigned() if signed is None else answer(SignedPartJson(signed.urls[0]))


def complete_upload(exchange: Exchange) -> Response:
    """Makes the parts that were sent an object."""
    body: SignedPartsIn = _read_parts(exchange.request.body)
    if not body.parts:
        raise Invalid("parts are required")
    signed = _find_upload(exchange, body.physical_address)
    if signed is None:
        return _unsigned()
    branch = branch_of(exchange)
    note_staged(exchange, branch)
    properties = FileProperties(
        content_type=body.content_type or "", metadata=metadata_in(body.user_metadata)
    )
    info = exchange.repository.multiparts.complete(
        write_call(exchange),
        branch,
        path_of(exchange),
        signed.id,
        [_chosen(part) for part in body.parts],
        properties=properties,
    )
    return answer(shown(exchange, info))


def abort_upload(exchange: Exchange) -> Response:
    """Ends an upload without an object."""
    body: SignedUploadIn = _read_upload(exchange.request.body)
    signed = _find_upload(exchange, body.physical_address)
    if signed is None:
        return _unsigned()
    exchange.repository.multiparts.abort(
        write_call(exchange), branch_of(exchange), path_of(exchange), signed.id
    )
    return NO_CONTENT


def _chosen(part: SignedPartIn) -> UploadedPart:
    return UploadedPart(part.part_number, part.etag.strip().strip('"'))


def _find_upload(exchange: Exchange, address: str, *numbers: int) -> SignedUpload | None:
    """Returns an upload with URLs of some parts; Invalid if a request names another address."""
    signed = exchange.repository.multiparts.sign_parts(
        write_call(exchange),
        branch_of(exchange),
        path_of(exchange),
        exchange.params["upload"],
        numbers,
    )
    if signed is not None and address != _address_of(exchange, signed):
        raise Invalid(_WRONG_ADDRESS)
    return signed


def _address_of(exchange: Exchange, signed: SignedUpload) -> str:
    return address_out(signed.address, namespace_of(exchange.repository.info))


def _unsigned() -> Response:
    return refusal(501, "presign multipart upload API is not supported")


HANDLERS: Final[Handlers] = {
    "lakefs.stageObject": (stage, False),
    "lakefs.getPhysicalAddress": (reserve, False),
    "lakefs.linkPhysicalAddress": (link, False),
    "lakefs.createPresignMultipartUpload": (create_upload, False),
    "lakefs.uploadPart": (sign_part, False),
    "lakefs.completePresignMultipartUpload": (complete_upload, False),
    "lakefs.abortPresignMultipartUpload": (abort_upload, False),
}
"""The operations of this module: their handlers, and whether they are brief."""
