"""Which operation of S3 a request is: by method, target, parameters and headers.

What S3 has and this server does not is named here too, so that it is refused and never taken for
something else: `GET /bucket?acl` is no listing.
"""

from __future__ import annotations

from typing import Final

import msgspec

from lochan.access.policy import Action
from lochan.base.errors import Refusal
from lochan.faces.s3.targets import ObjectName
from lochan.transport.exchange import Request
from lochan.wire.s3_problems import not_implemented


class S3Operation(msgspec.Struct, frozen=True):
    """One operation, and the right that it needs; None is that of seeing the repository."""

    id: str
    action: Action | None


OPERATIONS_S3: Final = tuple(
    S3Operation(name, action)
    for name, action in (
        ("ListBuckets", Action.LIST_REPOSITORIES),
        ("CreateBucket", None),
        ("HeadBucket", None),
        ("GetBucketLocation", None),
        ("GetBucketVersioning", None),
        ("ListObjects", Action.READ_ENTRIES),
        ("ListObjectsV2", Action.READ_ENTRIES),
        ("ListMultipartUploads", Action.WRITE_CONTENT),
        ("GetObject", Action.READ_CONTENT),
        ("HeadObject", Action.READ_CONTENT),
        ("GetObjectTagging", Action.READ_CONTENT),
        ("PutObject", Action.WRITE_CONTENT),
        ("CopyObject", Action.WRITE_CONTENT),
        ("DeleteObject", Action.DELETE_CONTENT),
        ("DeleteObjects", Action.DELETE_CONTENT),
        ("CreateMultipartUpload", Action.WRITE_CONTENT),
        ("UploadPart", Action.WRITE_CONTENT),
        ("UploadPartCopy", Action.WRITE_CONTENT),
        ("ListParts", Action.WRITE_CONTENT),
        ("CompleteMultipartUpload", Action.WRITE_CONTENT),
        ("AbortMultipartUpload", Action.WRITE_CONTENT),
    )
)

# Parameters that choose an operation, by method and whether there is a key.
_CHOSEN: Final[dict[tuple[str, bool, str], str]] = {
    ("GET", False, "location"): "GetBucketLocation",
    ("GET", False, "versioning"): "GetBucketVersioning",
    ("GET", False, "uploads"): "ListMultipartUploads",
    ("POST", False, "delete"): "DeleteObjects",
    ("POST", True, "uploads"): "CreateMultipartUpload",
    ("GET", True, "tagging"): "GetObjectTagging",
    ("GET", True, "uploadId"): "ListParts",
    ("PUT", True, "uploadId"): "UploadPart",
    ("POST", True, "uploadId"): "CompleteMultipartUpload",
    ("DELETE", True, "uploadId"): "AbortMultipartUpload",
}

_PLAIN: Final = {
    ("GET", False): "ListObjects",
    ("HEAD", False): "HeadBucket",
    ("PUT", False): "CreateBucket",
    ("GET", True): "GetObject",
    ("HEAD", True): "HeadObject",
    ("PUT", True): "PutObject",
    ("DELETE", True): "DeleteObject",
}

# Parameters that say more about an operation. Any other without a value is taken for the name of
# something that S3 has and this server does not.
_MORE: Final = frozenset(
    [
        "list-type",
        "prefix",
        "delimiter",
        "marker",
        "max-keys",
        "encoding-type",
        "start-after",
        "continuation-token",
        "fetch-owner",
        "key-marker",
        "upload-id-marker",
        "max-uploads",
        "max-parts",
        "part-number-marker",
        "partNumber",
        "uploadId",
        "max-buckets",
        "bucket-region",
        "x-id",
        "location",
        "versioning",
        "uploads",
        "delete",
    ]
)

# Those of them that are refused with a value, too.
_UNSUPPORTED: Final = frozenset(
    [
        "accelerate",
        "acl",
        "analytics",
        "attributes",
        "cors",
        "encryption",
        "intelligent-tiering",
        "inventory",
        "legal-hold",
        "lifecycle",
        "logging",
        "metrics",
        "notification",
        "object-lock",
        "ownershipControls",
        "policy",
        "policyStatus",
        "publicAccessBlock",
        "replication",
        "requestPayment",
        "restore",
        "retention",
        "select",
        "select-type",
        "tagging",
        "torrent",
        "versions",
        "website",
        "append",
        "renameObject",
        "session",
        "metadataTable",
        "metadataConfiguration",
        "metadataInventoryTable",
        "metadataJournalTable",
        "abac",
    ]
)


def choose_operation(request: Request, target: ObjectName) -> str:
    """Returns the name of an operation; raises the refusal of one that there is not."""
    method, has_key = request.method, bool(target.key)
    query = request.query
    chosen = ""
    if query.raw:
        for name in query.names():
            found = _CHOSEN.get((method, has_key, name), "")
            if not found:
                _check_parameter(name, query.get(name) or "")
            chosen = chosen or found
        if query.get("partNumber") is not None and chosen != "UploadPart":
            raise not_implemented("Reading one part of an object")
    if not target.bucket:
        if method in ("GET", "HEAD"):
            return "ListBuckets"
        raise _not_allowed(method)
    name = chosen or _PLAIN.get((method, has_key), "")
    if name == "ListObjects" and query.get("list-type") == "2":
        return "ListObjectsV2"
    if name in ("PutObject", "UploadPart") and request.headers.get("x-amz-copy-source"):
        return "CopyObject" if name == "PutObject" else "UploadPartCopy"
    if name:
        return name
    if (method, has_key) == ("DELETE", False):
        raise not_implemented("Deleting a bucket")
    if method == "POST":
        raise not_implemented("An upload by a form")
    raise _not_allowed(method)


def _check_parameter(name: str, value: str) -> None:
    if name in _UNSUPPORTED or (name == "versionId" and value != "null"):
        raise not_implemented(f"The parameter {name}")
    if not value and name not in _MORE and not name.startswith(("X-Amz-", "response-")):
        raise not_implemented(f"The parameter {name[:80]!r}")


def _not_allowed(method: str) -> Refusal:
    return Refusal(
        f"The specified method is not allowed against this resource: {method}",
        405,
        "MethodNotAllowed",
    )
