"""Copies whose source is replaced after its conditions were looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lochan.faces.s3 import multipart_handlers, object_handlers
from tests.faces.s3.gateway import REPOSITORY, Gateway

OLD, NEW = b"old" * 9_000, b"new" * 10_000
SOURCE = {"Bucket": REPOSITORY, "Key": "main/raced/source"}


@pytest.fixture
def raced(shared: Gateway, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A source that another client replaces as soon as its conditions were looked at once."""
    tag = shared.put(SOURCE["Key"], OLD)["ETag"]

    def patched(original: Callable[..., None]) -> Callable[..., None]:
        def check(*given: Any) -> None:
            original(*given)
            if shared.get(SOURCE["Key"]) == OLD:
                shared.put(SOURCE["Key"], NEW)

        return check

    for module in (object_handlers, multipart_handlers):
        monkeypatch.setattr(module, "check_copy", patched(module.check_copy))
    return {"CopySource": SOURCE, "CopySourceIfMatch": tag}


def refused(copy: Callable[..., Any], **more: Any) -> str:
    with pytest.raises(ClientError) as error:
        copy(**more)
    return str(error.value.response["Error"]["Code"])


@pytest.mark.parametrize("bucket", [REPOSITORY, "other"])
def test_a_copy_is_of_the_object_whose_conditions_hold(shared, raced, bucket):
    key = {"Bucket": bucket, "Key": "main/raced/copy"}
    assert refused(shared.s3.copy_object, **key, **raced) == "PreconditionFailed"
    assert refused(shared.s3.head_object, **key) == "404"


def test_a_copied_part_is_of_the_object_whose_conditions_hold(shared, raced):
    key = {"Bucket": REPOSITORY, "Key": "main/raced/parts"}
    upload = shared.s3.create_multipart_upload(**key)["UploadId"]
    part = {**key, "UploadId": upload, "PartNumber": 1, "CopySourceRange": "bytes=0-26999"}
    assert refused(shared.s3.upload_part_copy, **part, **raced) == "PreconditionFailed"
    assert "Parts" not in shared.s3.list_parts(**key, UploadId=upload)


def test_a_copy_between_repositories_without_a_condition_is_of_one_state(shared, raced):
    key = {"Bucket": "other", "Key": "main/raced/any"}
    shared.s3.copy_object(**key, CopySource=SOURCE)
    assert shared.s3.get_object(**key)["Body"].read() == NEW
