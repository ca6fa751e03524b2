"""A caller without the right gets 403 or 404 from every operation of S3, and nothing is changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lochan.access.policy import Action
from lochan.faces.s3.operations import OPERATIONS_S3
from lochan.kv.observe import ObservedStore
from lochan.model.access import Statement
from lochan.system import SystemClock
from tests.faces.s3.gateway import REPOSITORY, Gateway, gateway
from tests.faces.s3.test_hostile import Writes

KEY = {"Bucket": REPOSITORY, "Key": "main/a"}
BUCKET = {"Bucket": REPOSITORY}
SOURCE = {"Bucket": REPOSITORY, "Key": "main/a"}

Calls = dict[str, Callable[[Any, str], Any]]

CALLS: Calls = {
    "ListBuckets": lambda s3, _: s3.list_buckets(),
    "CreateBucket": lambda s3, _: s3.create_bucket(Bucket=REPOSITORY),
    "HeadBucket": lambda s3, _: s3.head_bucket(**BUCKET),
    "GetBucketLocation": lambda s3, _: s3.get_bucket_location(**BUCKET),
    "GetBucketVersioning": lambda s3, _: s3.get_bucket_versioning(**BUCKET),
    "ListObjects": lambda s3, _: s3.list_objects(**BUCKET, Prefix="main/"),
    "ListObjectsV2": lambda s3, _: s3.list_objects_v2(**BUCKET, Prefix="main/"),
    "ListMultipartUploads": lambda s3, _: s3.list_multipart_uploads(**BUCKET),
    "GetObject": lambda s3, _: s3.get_object(**KEY)["Body"].read(),
    "HeadObject": lambda s3, _: s3.head_object(**KEY),
    "GetObjectTagging": lambda s3, _: s3.get_object_tagging(**KEY),
    "PutObject": lambda s3, _: s3.put_object(**KEY, Body=b"2"),
    "CopyObject": lambda s3, _: s3.copy_object(Bucket=REPOSITORY, Key="main/b", CopySource=SOURCE),
    "DeleteObject": lambda s3, _: s3.delete_object(**KEY),
    "DeleteObjects": lambda s3, _: s3.delete_objects(
        **BUCKET, Delete={"Objects": [{"Key": "main/a"}]}
    ),
    "CreateMultipartUpload": lambda s3, _: s3.create_multipart_upload(**KEY),
    "UploadPart": lambda s3, upload: s3.upload_part(
        **KEY, UploadId=upload, PartNumber=2, Body=b"2"
    ),
    "UploadPartCopy": lambda s3, upload: s3.upload_part_copy(
        **KEY, UploadId=upload, PartNumber=2, CopySource=SOURCE
    ),
    "ListParts": lambda s3, upload: s3.list_parts(**KEY, UploadId=upload),
    "CompleteMultipartUpload": lambda s3, upload: s3.complete_multipart_upload(
        **KEY,
        UploadId=upload,
        MultipartUpload={
            "Parts": [{"PartNumber": 1, "ETag": '"c4ca4238a0b923820dcc509a6f75849b"'}]
        },
    ),
    "AbortMultipartUpload": lambda s3, upload: s3.abort_multipart_upload(**KEY, UploadId=upload),
}

# What is answered to a caller that sees the names of references and nothing else.
FOR_A_VIEWER = {"HeadBucket", "GetBucketLocation", "GetBucketVersioning", "CreateBucket"}


class World:
    """A server with one object and one upload, and callers who may do too little."""

    def __init__(self, one: Gateway, writes: Writes) -> None:
        self.gateway = one
        self.writes = writes
        one.put("main/a", b"1")
        self.upload = one.s3.create_multipart_upload(**KEY)["UploadId"]
        one.s3.upload_part(**KEY, UploadId=self.upload, PartNumber=1, Body=b"1")
        elsewhere = Statement(effect="allow", actions=("*",), repositories=("other",))
        view = Statement(effect="allow", actions=("view_reference",))
        self.callers = {
            "without policies": one.client(*one.user("bob")),
            "elsewhere": one.client(*one.user("cleo", elsewhere)),
            "viewer": one.client(*one.user("dan", view)),
            "unknown": one.client("LOCH" + "A" * 16, "a" * 52),
            "wrong": one.client(one.key, "a" * 52),
        }

    def state(self) -> tuple[Any, ...]:
        """Returns everything that a caller could change, and how much was written to the store."""
        s3 = self.gateway.s3
        parts = s3.list_parts(**KEY, UploadId=self.upload)["Parts"]
        uploads = s3.list_multipart_uploads(**BUCKET)["Uploads"]
        return (
            len(self.writes.made),
            self.gateway.keys(),
            self.gateway.get("main/a"),
            [(part["PartNumber"], part["ETag"]) for part in parts],
            [each["UploadId"] for each in uploads],
        )


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory):
    folder: Path = tmp_path_factory.mktemp("blocks")
    writes = Writes()
    watch = lambda store: ObservedStore(store, writes, SystemClock())  # noqa: E731 - for one call
    with gateway(folder, "other", wrap=watch) as one:
        yield World(one, writes)


def test_every_operation_is_tried_and_declares_its_right():
    assert CALLS.keys() == {each.id for each in OPERATIONS_S3}
    assert all(each.action is None or isinstance(each.action, Action) for each in OPERATIONS_S3)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("caller", ["without policies", "elsewhere", "viewer", "unknown", "wrong"])
def test_without_the_right_every_operation_is_refused_and_nothing_is_changed(world, name, caller):
    before = world.state()
    status, answer = _attempt(CALLS[name], world, caller)
    allowed: tuple[int, ...] = (403, 404)
    if name == "CreateBucket":
        # Nobody makes one here; who does not see it does not learn that it exists.
        allowed = (403, 404, 501, 409) if caller == "viewer" else (403, 404, 501)
    shown = (caller, name, answer)
    assert status in allowed or (status == 200 and _shows_nothing(name, caller, answer)), shown
    assert world.state() == before


def _attempt(call: Callable[[Any, str], Any], world: World, caller: str) -> tuple[int, Any]:
    try:
        return 200, call(world.callers[caller], world.upload)
    except ClientError as error:
        return error.response["ResponseMetadata"]["HTTPStatusCode"], error.response


def _shows_nothing(name: str, caller: str, answer: Any) -> bool:
    """Returns whether an answer with success has nothing that the caller may not see."""
    if name == "ListBuckets":
        return caller == "elsewhere" and [one["Name"] for one in answer["Buckets"]] == ["other"]
    if name == "DeleteObjects":
        return [one["Code"] for one in answer["Errors"]] == ["AccessDenied"]
    if name == "ListMultipartUploads":
        return caller == "viewer" and "Uploads" not in answer
    return caller == "viewer" and name in FOR_A_VIEWER
