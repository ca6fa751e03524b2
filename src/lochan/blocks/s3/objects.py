"""Single objects and multipart uploads of one bucket, with their checksums compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from lochan.base.errors import LochanError, NotFound, Unknown
from lochan.base.limits.blocks import BLOCK_PAGE_MAX
from lochan.blocks.parts import joined_etag
from lochan.blocks.s3.client import Answer, S3Client
from lochan.blocks.s3.failures import field, unavailable
from lochan.blocks.s3.spool import Spool
from lochan.staging.block_store import StoredPart

GONE: Final = frozenset({"NoSuchKey", "404", "NotFound"})
NO_UPLOAD: Final = frozenset({"NoSuchUpload"})
ENDED: Final = "there is no such multipart upload: it was completed, aborted or swept"


class ObjectHead(msgspec.Struct, frozen=True):
    """What S3 knows about an object."""

    size: int
    etag: str
    modified_us: int


class S3Objects:
    """Objects of one bucket by their key."""

    def __init__(self, client: S3Client, bucket: str) -> None:
        self.client = client
        self.bucket = bucket

    def head(self, key: str) -> ObjectHead | None:
        """Returns what is known about an object, None if there is none in an existing bucket."""
        answer = self.client.call("head_object", absent=GONE, Bucket=self.bucket, Key=key)
        if answer is None:
            self.check_bucket()
            return None
        return ObjectHead(
            int(field(answer, "ContentLength")), etag_of(answer), time_us(answer, "LastModified")
        )

    def check_bucket(self) -> None:
        """Raises Unavailable if there is no such bucket, of which a 404 would say nothing."""
        if self.client.call("head_bucket", absent=_NO_BUCKET, Bucket=self.bucket) is None:
            raise unavailable(f"there is no bucket {self.bucket}")

    def put(self, key: str, spool: Spool) -> None:
        """Stores an object by one request; Unavailable unless S3 has the bytes that were sent."""
        answer = self._answer(
            "put_object",
            Key=key,
            Body=spool.body(),
            ContentLength=spool.size,
            ContentMD5=spool.content_md5,
            ContentType="application/octet-stream",
        )
        if etag_of(answer) != spool.md5:
            self._check_size(key, spool.size)

    def begin_multipart(self, key: str) -> str:
        """Begins a multipart upload and returns S3's id; sent once, because each one is kept."""
        answer = self._answer(
            "create_multipart_upload",
            once=True,
            Key=key,
            ContentType="application/octet-stream",
        )
        return str(field(answer, "UploadId"))

    def put_part(self, key: str, upload: str, number: int, spool: Spool) -> str:
        """Stores a part and returns its ETag; NotFound if the upload has ended."""
        answer = self.client.call(
            "upload_part",
            absent=NO_UPLOAD,
            Bucket=self.bucket,
            Key=key,
            UploadId=upload,
            PartNumber=number,
            Body=spool.body(),
            ContentLength=spool.size,
            ContentMD5=spool.content_md5,
        )
        if answer is None:
            raise NotFound(ENDED)
        return etag_of(answer)

    def complete(self, key: str, upload: str, parts: Sequence[StoredPart]) -> str:
        """Joins the parts and returns the ETag of the object.

        Repeatable: an upload that has ended is complete if its object is there as it should be,
        else NotFound. A lost answer is resolved by looking for the object; Unknown if that fails.
        """
        size = sum(part.size for part in parts)
        expected = joined_etag([part.etag for part in parts])
        given = [{"PartNumber": part.number, "ETag": f'"{part.etag}"'} for part in parts]
        try:
            answer = self.client.call(
                "complete_multipart_upload",
                absent=NO_UPLOAD,
                once=True,
                in_doubt=True,
                Bucket=self.bucket,
                Key=key,
                UploadId=upload,
                MultipartUpload={"Parts": given},
            )
        except Unknown as error:
            return self._resolve(key, size, expected, error)
        if answer is None:
            return self._resolve(key, size, expected, NotFound(ENDED))
        if answer.get("ETag") != f'"{expected}"':
            return self._resolve(key, size, None, Unknown(f"S3 does not have {key} as a whole"))
        return etag_of(answer)

    def abort(self, key: str, upload: str) -> None:
        """Ends an upload and removes its parts; idempotent."""
        self.client.call(
            "abort_multipart_upload", absent=NO_UPLOAD, Bucket=self.bucket, Key=key, UploadId=upload
        )

    def parts(self, key: str, upload: str, after: int = 0) -> Iterator[StoredPart]:
        """Yields parts in the order of their numbers; NotFound if the upload has ended.

        SeaweedFS lists a part that was replaced once more for each time.
        """
        marker = after
        while True:
            answer = self.client.call(
                "list_parts",
                absent=NO_UPLOAD,
                Bucket=self.bucket,
                Key=key,
                UploadId=upload,
                PartNumberMarker=marker,
                MaxParts=BLOCK_PAGE_MAX,
            )
            if answer is None:
                raise NotFound(ENDED)
            truncated = field(answer, "IsTruncated")
            for part in answer.get("Parts", ()):
                yield StoredPart(
                    int(field(part, "PartNumber")),
                    int(field(part, "Size")),
                    etag_of(part),
                    time_us(part, "LastModified"),
                )
            if not truncated:
                return
            marker = int(field(answer, "NextPartNumberMarker"))

    def delete(self, key: str) -> None:
        """Removes an object; idempotent."""
        self.client.call("delete_object", absent=GONE, Bucket=self.bucket, Key=key)

    def _resolve(self, key: str, size: int, expected: str | None, error: LochanError) -> str:
        """Returns the ETag of a completed object; raises the error if it is not there."""
        try:
            head = self.head(key)
        except LochanError as other:
            # An object that cannot be asked for may be there: no reason to call it not found.
            raise Unknown(f"S3 may have completed {key}: {other.message}") from other
        if head is None or head.size != size or (expected is not None and head.etag != expected):
            raise error
        return head.etag

    def _check_size(self, key: str, size: int) -> None:
        """Compares at least the size, where the ETag is no MD5: with keys of a key server."""
        head = self.head(key)
        if head is None or head.size != size:
            raise unavailable(f"S3 acknowledged {size} bytes of {key} and has others")

    def _answer(self, operation: str, *, once: bool = False, **arguments: Any) -> Answer:
        answer = self.client.call(operation, once=once, Bucket=self.bucket, **arguments)
        if answer is None:
            raise unavailable(f"S3 did not answer {operation}")
        return answer


_NO_BUCKET: Final = frozenset({"NoSuchBucket", "404", "NotFound"})


def unquoted(etag: str) -> str:
    """Returns an ETag without its quotation marks."""
    return etag.strip('"')


def etag_of(answer: Answer) -> str:
    """Returns the ETag that an answer states, without its quotation marks."""
    return unquoted(str(field(answer, "ETag")))


def time_us(answer: Answer, name: str) -> int:
    """Returns a time that an answer states, in microseconds since 1970."""
    return int(field(answer, name).timestamp() * 1_000_000)
