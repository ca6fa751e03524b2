"""A prefix of a bucket as a place for object data; see `staging/block_store.py`.

    s3://BUCKET/PREFIX/objects/ab3/…      blocks, and multipart uploads that will become blocks

S3 keeps unfinished uploads apart from objects by itself. The id of a multipart upload is the digits
of its address, a dot, and S3's own id.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from lochan.base.checks import check
from lochan.base.errors import Invalid, NotFound
from lochan.base.limits.blocks import BLOCK_PAGE_MAX, MULTIPART_ID_BYTES_MAX, PRESIGNED_S_MAX
from lochan.blocks.parts import check_number, check_order, choose_parts, joined_etag
from lochan.blocks.s3.address import (
    ForeignKey,
    S3Address,
    is_plain_key,
    read_foreign,
    read_import,
)
from lochan.blocks.s3.client import Answer, S3Client
from lochan.blocks.s3.failures import field, unavailable
from lochan.blocks.s3.objects import ENDED, S3Objects, etag_of, time_us, unquoted
from lochan.blocks.s3.reader import S3Reader
from lochan.blocks.s3.uploads import S3Part, S3Upload
from lochan.staging.block_store import (
    ADDRESS_BYTES,
    BlockAddress,
    BlockInfo,
    BlockReader,
    BlockUpload,
    ChosenPart,
    ForeignObject,
    ForeignPage,
    MultipartId,
    PartUpload,
    PlaceOptions,
    PresignedParts,
    PresignedPut,
    StoredBlock,
    StoredPart,
    build_address,
    check_range,
    is_foreign,
    is_own,
)

_ID: Final = re.compile(r"([0-9a-f]{32})\.([!-~]+)\Z")


class S3Blocks:
    """Blocks below a prefix of a bucket."""

    signs_urls = True

    def __init__(self, address: S3Address, options: PlaceOptions) -> None:
        self._clock = options.clock
        self._random = options.random
        self._imports = tuple(map(read_import, options.imports))
        self._client = S3Client(address, options.access_key, options.secret_key)
        self._objects = S3Objects(self._client, address.bucket)
        self._prefix = f"{address.prefix}objects/"

    def begin(self, *, size: int | None = None) -> BlockUpload:
        """Begins a block; nothing is sent before there is a full part."""
        self._client.check_open()
        address = self._new_address()
        return S3Upload(self._objects, self._prefix + address, address, size)

    def read(
        self, address: BlockAddress, start: int, end: int, *, size: int, etag: str = ""
    ) -> BlockReader:
        """Reads [start, end) of an object that must have this size."""
        check_range(start, end, size)
        objects, key = self._locate(address)
        foreign = not is_own(address)
        check(bool(etag) or not foreign, "the etag of a foreign object is stated")
        return S3Reader(objects, key, start, end, size=size, etag=etag if foreign else "")

    def find(self, address: BlockAddress) -> BlockInfo | None:
        """Returns size, etag and time, or None."""
        objects, key = self._locate(address)
        head = objects.head(key)
        return None if head is None else BlockInfo(address, head.size, head.etag, head.modified_us)

    def delete(self, address: BlockAddress) -> None:
        """Removes a block; idempotent."""
        if is_foreign(address):
            raise Invalid("a foreign object is not deleted")
        objects, key = self._locate(address)
        objects.delete(key)

    def iterate(self, after: str = "") -> Iterator[BlockInfo]:
        """Yields blocks in the order of their addresses, a page of S3 at a time."""
        start = self._prefix + after
        for found in self._listed(self._objects.bucket, self._prefix, start):
            name = str(found["Key"]).removeprefix(self._prefix)
            if is_own(name):
                yield _info(BlockAddress(name), found)

    def begin_multipart(self) -> MultipartId:
        """Begins an upload in parts."""
        address = self._new_address()
        upload = self._objects.begin_multipart(self._prefix + address)
        return MultipartId(f"{address.replace('/', '')}.{upload}")

    def begin_part(
        self, upload: MultipartId, number: int, *, size: int | None = None
    ) -> PartUpload:
        """Begins a part; it is sent when it is finished."""
        check_number(number)
        self._client.check_open()
        address, theirs = _read_id(upload)
        return S3Part(self._objects, self._prefix + address, theirs, number, size, self._clock)

    def list_parts(self, upload: MultipartId, after: int = 0) -> Sequence[StoredPart]:
        """Returns a page of finished parts, of each number the newest."""
        address, theirs = _read_id(upload)
        newest: dict[int, StoredPart] = {}
        for part in self._objects.parts(self._prefix + address, theirs, after):
            if part.number not in newest and len(newest) == BLOCK_PAGE_MAX:
                break
            other = newest.get(part.number)
            if other is None or part.modified_us >= other.modified_us:
                newest[part.number] = part
        return list(newest.values())

    def complete_multipart(self, upload: MultipartId, parts: Sequence[ChosenPart]) -> StoredBlock:
        """Lets S3 join the chosen parts; their SHA-256 is not known."""
        check_order(parts)
        address, theirs = _read_id(upload)
        key = self._prefix + address
        wanted = {part.number: unquoted(part.etag) for part in parts}
        stored: dict[int, StoredPart] = {}
        try:
            for part in self._objects.parts(key, theirs):
                # Of several with one number the one that was chosen, if it is among them.
                if part.number not in stored or wanted.get(part.number) == part.etag:
                    stored[part.number] = part
        except NotFound:
            return self._completed_before(address, list(wanted.values()))
        chosen = choose_parts(stored, parts)
        etag = self._objects.complete(key, theirs, chosen)
        size = sum(part.size for part in chosen)
        return StoredBlock(address, size, None, etag)

    def abort_multipart(self, upload: MultipartId) -> None:
        """Removes the parts; idempotent."""
        found = _ID.match(upload)
        if found is not None:
            address, theirs = _read_id(upload)
            self._objects.abort(self._prefix + address, theirs)

    def sweep_unfinished(self, before_us: int, limit: int = BLOCK_PAGE_MAX) -> int:
        """Aborts multipart uploads to which nothing was added since `before_us`."""
        removed = 0
        for found in self._unfinished():
            if removed == limit:
                break
            key, upload = str(found["Key"]), str(found["UploadId"])
            if not is_own(key.removeprefix(self._prefix)):
                continue
            if self._last_change_us(found, key, upload) < before_us:
                self._objects.abort(key, upload)
                removed += 1
        return removed

    def presign_get(self, address: BlockAddress, lifetime_s: int) -> str | None:
        """Returns a URL of S3 that reads the object."""
        objects, key = self._locate(address)
        _check_lifetime(lifetime_s)
        return self._client.presign("get_object", lifetime_s, Bucket=objects.bucket, Key=key)

    def presign_put(self, lifetime_s: int) -> PresignedPut | None:
        """Returns a URL of S3 that writes a new object if it does not exist."""
        _check_lifetime(lifetime_s)
        address = self._new_address()
        url = self._client.presign(
            "put_object",
            lifetime_s,
            Bucket=self._objects.bucket,
            Key=self._prefix + address,
            IfNoneMatch="*",
        )
        return PresignedPut(address, url, {"If-None-Match": "*"})

    def presign_parts(
        self, upload: MultipartId, numbers: Sequence[int], lifetime_s: int
    ) -> PresignedParts | None:
        """Returns URLs of S3 that write parts."""
        _check_lifetime(lifetime_s)
        address, theirs = _read_id(upload)
        urls = []
        for number in numbers:
            check_number(number)
            urls.append(
                self._client.presign(
                    "upload_part",
                    lifetime_s,
                    Bucket=self._objects.bucket,
                    Key=self._prefix + address,
                    UploadId=theirs,
                    PartNumber=number,
                )
            )
        return PresignedParts(address, tuple(urls))

    def list_foreign(
        self, prefix: str, after: str = "", limit: int = BLOCK_PAGE_MAX
    ) -> ForeignPage:
        """Lists objects below an allowed prefix."""
        root = read_foreign(prefix, self._imports, prefix=True)
        limit = min(limit, BLOCK_PAGE_MAX)
        found: list[ForeignObject] = []
        ignored = 0
        for each in self._listed(root.bucket, root.key, root.key + after):
            key = str(each["Key"])
            path = key.removeprefix(root.key)
            if not path or not is_plain_key(key):
                ignored += 1
                continue
            if len(found) == limit:
                return ForeignPage(found, found[-1].path, ignored)
            address = BlockAddress(ForeignKey(root.bucket, key).url)
            found.append(ForeignObject(path, _info(address, each)))
        return ForeignPage(found, None, ignored)

    def close(self) -> None:
        """Closes all connections; idempotent."""
        self._client.close()

    def _new_address(self) -> BlockAddress:
        return build_address(self._random.random_bytes(ADDRESS_BYTES))

    def _locate(self, address: str) -> tuple[S3Objects, str]:
        """Returns the bucket and the key of an address; Denied where it is not allowed."""
        self._client.check_open()
        if is_own(address):
            return self._objects, self._prefix + address
        if not is_foreign(address):
            raise Invalid(f"{address[:80]!r} is not the address of a block")
        found = read_foreign(address, self._imports)
        return S3Objects(self._client, found.bucket), found.key

    def _completed_before(self, address: BlockAddress, etags: Sequence[str]) -> StoredBlock:
        """Answers a repeated completion from the object; NotFound if it is another one."""
        head = self._objects.head(self._prefix + address)
        if head is None or head.etag != joined_etag(etags):
            raise NotFound(ENDED)
        return StoredBlock(address, head.size, None, head.etag)

    def _listed(self, bucket: str, prefix: str, start: str) -> Iterator[Answer]:
        arguments: dict[str, Any] = {"StartAfter": start} if start else {}
        while True:
            answer = self._client.call(
                "list_objects_v2",
                Bucket=bucket,
                Prefix=prefix,
                MaxKeys=BLOCK_PAGE_MAX,
                **arguments,
            )
            if answer is None:
                raise unavailable("S3 did not answer a listing")
            truncated = field(answer, "IsTruncated")
            yield from answer.get("Contents", ())
            if not truncated:
                return
            arguments = {"ContinuationToken": field(answer, "NextContinuationToken")}

    def _unfinished(self) -> Iterator[Answer]:
        arguments: dict[str, Any] = {}
        while True:
            answer = self._client.call(
                "list_multipart_uploads",
                Bucket=self._objects.bucket,
                Prefix=self._prefix,
                MaxUploads=BLOCK_PAGE_MAX,
                **arguments,
            )
            if answer is None:
                raise unavailable("S3 did not answer a listing")
            truncated = field(answer, "IsTruncated")
            yield from answer.get("Uploads", ())
            if not truncated:
                return
            arguments = {
                "KeyMarker": field(answer, "NextKeyMarker"),
                "UploadIdMarker": field(answer, "NextUploadIdMarker"),
            }

    def _last_change_us(self, found: Answer, key: str, upload: str) -> int:
        begun_us = time_us(found, "Initiated")
        try:
            return max([begun_us, *(part.modified_us for part in self._objects.parts(key, upload))])
        except NotFound:
            return begun_us


def _read_id(upload: MultipartId) -> tuple[BlockAddress, str]:
    found = _ID.match(upload)
    if found is None or len(upload) > MULTIPART_ID_BYTES_MAX:
        raise NotFound(ENDED)
    digits, theirs = found.groups()
    return build_address(bytes.fromhex(digits)), theirs


def _check_lifetime(lifetime_s: int) -> None:
    if not 1 <= lifetime_s <= PRESIGNED_S_MAX:
        raise Invalid(f"a signed URL is valid for 1 to {PRESIGNED_S_MAX} seconds")


def _info(address: BlockAddress, found: Answer) -> BlockInfo:
    return BlockInfo(
        address, int(field(found, "Size")), etag_of(found), time_us(found, "LastModified")
    )
