"""Uploads in parts: true ETags, lists, copies of ranges, conditions, and every way to be wrong."""

from __future__ import annotations

import hashlib

import pytest

from lochan.base.limits.blocks import PART_BYTES_MIN
from tests.faces.s3.gateway import REPOSITORY, Gateway, code_of
from tests.faces.s3.test_access import refused

ONE, TWO = b"1" * PART_BYTES_MIN, b"2" * 1_000


def etag_of(*parts: bytes) -> str:
    digests = b"".join(hashlib.md5(part, usedforsecurity=False).digest() for part in parts)
    return f'"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(parts)}"'


class Upload:
    """One upload of boto3."""

    def __init__(self, gateway: Gateway, key: str, **more) -> None:
        self.s3 = gateway.s3
        self.names = {"Bucket": REPOSITORY, "Key": key}
        self.id = self.s3.create_multipart_upload(**self.names, **more)["UploadId"]
        self.parts: list[dict[str, object]] = []

    @property
    def all(self) -> dict[str, str]:
        return {**self.names, "UploadId": self.id}

    def send(self, number: int, body: bytes) -> str:
        etag: str = self.s3.upload_part(**self.all, PartNumber=number, Body=body)["ETag"]
        self.parts.append({"PartNumber": number, "ETag": etag})
        return etag

    def complete(self, parts=None, **more):
        chosen = {"Parts": self.parts if parts is None else parts}
        return self.s3.complete_multipart_upload(**self.all, MultipartUpload=chosen, **more)


def test_parts_become_an_object_with_the_etag_of_s3(shared):
    upload = Upload(shared, "main/parts/a", ContentType="a/b", Metadata={"m": "1"})
    assert upload.send(1, ONE) == f'"{hashlib.md5(ONE, usedforsecurity=False).hexdigest()}"'
    upload.send(7, TWO)
    assert "main/parts/a" not in shared.keys("main/parts/")
    done = upload.complete()
    assert done["ETag"] == etag_of(ONE, TWO)
    found = shared.s3.get_object(Bucket=REPOSITORY, Key="main/parts/a")
    assert found["Body"].read() == ONE + TWO
    assert (found["ContentType"], found["Metadata"]) == ("a/b", {"m": "1"})
    assert shared.get("main/parts/a", Range=f"bytes={PART_BYTES_MIN - 1}-{PART_BYTES_MIN}") == b"12"
    # An answer that was lost is given again.
    assert upload.complete()["ETag"] == done["ETag"]
    assert refused(upload.send, 2, TWO) == (404, "NoSuchUpload")


def test_a_part_that_is_sent_again_replaces_the_one_before(shared):
    upload = Upload(shared, "main/parts/again")
    old = upload.send(1, b"old")
    upload.parts.clear()
    upload.send(1, b"new")
    wrong = [{"PartNumber": 1, "ETag": old}]
    assert refused(upload.complete, wrong) == (400, "InvalidPart")
    upload.complete()
    assert shared.get("main/parts/again") == b"new"


def test_parts_and_uploads_are_listed(own):
    uploads = [Upload(own, f"main/list/{name}") for name in "bbac"]
    for number in (3, 1, 2):
        uploads[0].send(number, b"%d" % number)
    paginator = own.s3.get_paginator("list_parts")
    pages = paginator.paginate(**uploads[0].all, PaginationConfig={"PageSize": 2})
    parts = [part for page in pages for part in page.get("Parts", ())]
    assert [(part["PartNumber"], part["Size"]) for part in parts] == [(1, 1), (2, 1), (3, 1)]
    for size in (1, 3, 100):
        paginator = own.s3.get_paginator("list_multipart_uploads")
        config = {"PageSize": size}
        pages = paginator.paginate(Bucket=REPOSITORY, Prefix="main/l", PaginationConfig=config)
        found = [each for page in pages for each in page.get("Uploads", ())]
        assert [each["Key"][-1] for each in found] == ["a", "b", "b", "c"]
        assert {each["UploadId"] for each in found} == {each.id for each in uploads}
    uploads[0].complete([part for part in uploads[0].parts if part["PartNumber"] == 3])
    own.s3.abort_multipart_upload(**uploads[1].all)
    left = own.s3.list_multipart_uploads(Bucket=REPOSITORY)["Uploads"]
    assert [each["Key"] for each in left] == ["main/list/a", "main/list/c"]
    assert "Uploads" not in own.s3.list_multipart_uploads(Bucket=REPOSITORY, Prefix="other/")


def test_an_upload_that_is_aborted_leaves_nothing(own):
    upload = Upload(own, "main/aborted")
    upload.send(1, ONE)
    assert own.stored()
    own.s3.abort_multipart_upload(**upload.all)
    assert own.stored() == []
    assert refused(own.s3.abort_multipart_upload, **upload.all) == (404, "NoSuchUpload")
    assert refused(upload.complete) == (404, "NoSuchUpload")
    assert refused(own.s3.list_parts, **upload.all) == (404, "NoSuchUpload")
    assert own.keys() == []


def test_a_part_is_copied_from_an_object_or_a_range_of_it(shared):
    body = ONE + TWO
    shared.put("main/parts/source", body)
    shared.s3.put_object(Bucket="other", Key="main/source", Body=b"elsewhere")
    upload = Upload(shared, "main/parts/copied")

    def copy(number: int, bucket: str, key: str, **more) -> None:
        source = {"Bucket": bucket, "Key": key}
        made = shared.s3.upload_part_copy(
            **upload.all, PartNumber=number, CopySource=source, **more
        )["CopyPartResult"]
        upload.parts.append({"PartNumber": number, "ETag": made["ETag"]})

    copy(1, REPOSITORY, "main/parts/source")
    first = f"bytes=0-{PART_BYTES_MIN - 1}"
    copy(2, REPOSITORY, "main/parts/source", CopySourceRange=first)
    copy(3, "other", "main/source", CopySourceRange="bytes=4-8")
    assert upload.complete()["ETag"] == etag_of(body, ONE, b"where")
    assert shared.get("main/parts/copied") == body + ONE + b"where"
    for bad in ("bytes=5-", "bytes=9-5", "bytes=0-99999999", "0-5"):
        code = refused(copy, 4, "other", "main/source", CopySourceRange=bad)
        assert code == (400, "InvalidArgument")
    assert refused(copy, 4, "other", "main/none") == (404, "NoSuchKey")
    assert refused(copy, 4, "nowhere", "main/none") == (404, "NoSuchBucket")


def test_parts_that_cannot_be_joined_are_refused(shared):
    upload = Upload(shared, "main/parts/bad")
    upload.send(1, b"small")
    upload.send(2, TWO)
    one, two = upload.parts
    assert refused(upload.complete) == (400, "EntityTooSmall")
    assert refused(upload.complete, [two, one]) == (400, "InvalidPartOrder")
    assert refused(upload.complete, [one, one]) == (400, "InvalidPartOrder")
    missing = {"PartNumber": 3, "ETag": '"x"'}
    assert refused(upload.complete, [two, missing]) == (400, "InvalidPart")
    assert refused(upload.complete, []) == (400, "MalformedXML")
    assert refused(upload.send, 10_001, b"x") == (400, "InvalidArgument")
    assert refused(upload.send, 0, b"x") == (400, "InvalidArgument")
    assert shared.keys("main/parts/bad") == []
    upload.complete([two])
    assert shared.get("main/parts/bad") == TWO


def test_a_completion_may_have_a_condition(shared):
    shared.put("main/parts/taken", b"first")
    upload = Upload(shared, "main/parts/taken")
    upload.send(1, b"second")
    assert refused(upload.complete, IfNoneMatch="*") == (412, "PreconditionFailed")
    assert shared.get("main/parts/taken") == b"first"
    tag = shared.s3.head_object(Bucket=REPOSITORY, Key="main/parts/taken")["ETag"]
    upload.complete(IfMatch=tag)
    assert shared.get("main/parts/taken") == b"second"


def test_an_upload_belongs_to_its_key_and_branch(shared):
    with shared.admin() as client:
        client.references.create("gone")
    upload = Upload(shared, "gone/x")
    upload.send(1, b"x")
    for key in ("gone/y", "main/x"):
        with_other = {**upload.all, "Key": key}
        send = shared.s3.upload_part
        assert refused(send, **with_other, PartNumber=1, Body=b"") == (404, "NoSuchUpload")
    with shared.admin() as client:
        client.references.delete("gone")
        client.references.create("gone")
    # Another branch of the same name is another branch.
    assert refused(upload.complete) == (404, "NoSuchUpload")
    code = refused(shared.s3.create_multipart_upload, Bucket=REPOSITORY, Key="nowhere/x")
    assert code == (404, "NoSuchBucket")


@pytest.mark.parametrize(
    "body", [b"", b"<x/>", b"<CompleteMultipartUpload><Part/></CompleteMultipartUpload>", b"<" * 99]
)
def test_a_completion_that_is_malformed_is_refused(shared, body):
    upload = Upload(shared, "main/parts/xml")
    target = f"/{REPOSITORY}/main/parts/xml?uploadId={upload.id}"
    assert code_of(shared.send("POST", target, {}, body)) == (400, "MalformedXML")
