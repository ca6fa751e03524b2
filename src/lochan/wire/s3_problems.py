"""Errors as S3 words them: a code, a status and a sentence, one for each error of ours.

Clients of S3 decide by the code: `NoSuchKey` is an absent file to them, `SlowDown` is tried again.
"""

from __future__ import annotations

from typing import Final

from lochan.base.errors import (
    AlreadyExists,
    BytesDiffer,
    ConditionFailed,
    Conflict,
    Denied,
    Exhausted,
    Invalid,
    InvalidKey,
    LochanError,
    NotABranch,
    NotFound,
    PathNotFound,
    RangeNotSatisfiable,
    ReferenceNotFound,
    Refusal,
    TooLarge,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
    Unknown,
    UploadNotFound,
)

S3Code = tuple[int, str]
"""A status, and the word for an error."""

CODES: Final[dict[type[LochanError], S3Code]] = {
    LochanError: (500, "InternalError"),
    NotFound: (404, "NoSuchBucket"),
    ReferenceNotFound: (404, "NoSuchKey"),
    PathNotFound: (404, "NoSuchKey"),
    UploadNotFound: (404, "NoSuchUpload"),
    AlreadyExists: (409, "BucketAlreadyExists"),
    Conflict: (409, "OperationAborted"),
    ConditionFailed: (412, "PreconditionFailed"),
    Invalid: (400, "InvalidArgument"),
    InvalidKey: (400, "KeyTooLongError"),
    BytesDiffer: (400, "IncompleteBody"),
    NotABranch: (405, "MethodNotAllowed"),
    RangeNotSatisfiable: (416, "InvalidRange"),
    TooLarge: (400, "EntityTooLarge"),
    Denied: (403, "AccessDenied"),
    Unauthenticated: (403, "AccessDenied"),
    Exhausted: (503, "SlowDown"),
    TooManyRequests: (503, "SlowDown"),
    Unknown: (500, "InternalError"),
    Unavailable: (503, "ServiceUnavailable"),
}

_DIFFERENT_BYTES: Final[dict[str, S3Code]] = {
    "size": (400, "IncompleteBody"),
    "sha256": (400, "XAmzContentSHA256Mismatch"),
    "md5": (400, "BadDigest"),
}

# What is wrong with a signature: status, code, sentence.
_FLAWS: Final[dict[str, tuple[int, str, str]]] = {
    "unknown key": (
        403,
        "InvalidAccessKeyId",
        "The AWS Access Key Id you provided does not exist in our records.",
    ),
    "signature": (
        403,
        "SignatureDoesNotMatch",
        (
            "The request signature we calculated does not match the signature you provided. "
            "Check your key and signing method."
        ),
    ),
    "skewed": (
        403,
        "RequestTimeTooSkewed",
        "The difference between the request time and the current time is too large.",
    ),
    "unsigned": (
        403,
        "AccessDenied",
        (
            "Access Denied: sign the request with an access key (Signature Version 4), "
            "or send a valid token or access key in the header Authorization."
        ),
    ),
    "expired": (403, "AccessDenied", "Request has expired"),
    "unsigned headers": (
        403,
        "AccessDenied",
        "There were headers present in the request which were not signed",
    ),
    "no date": (
        403,
        "AccessDenied",
        "AWS authentication requires a valid Date or x-amz-date header",
    ),
    "no digest": (
        400,
        "InvalidRequest",
        "Missing required header for this request: x-amz-content-sha256",
    ),
    "version 2": (
        400,
        "InvalidRequest",
        (
            "The authorization mechanism you have provided is not supported. "
            "Please use AWS4-HMAC-SHA256 (Signature Version 4)."
        ),
    ),
    "malformed header": (
        400,
        "AuthorizationHeaderMalformed",
        (
            "The authorization header is malformed; it has Credential, SignedHeaders and Signature "
            "of Signature Version 4 for the service s3."
        ),
    ),
    "malformed query": (
        400,
        "AuthorizationQueryParametersError",
        (
            "Error parsing the X-Amz-Credential parameter or another one of the signature; a URL "
            "is valid for less than a week."
        ),
    ),
}

# Refusals by the transport, before a handler has seen the request.
_STATUSES: Final = {
    400: "InvalidRequest",
    404: "NoSuchKey",
    405: "MethodNotAllowed",
    408: "RequestTimeout",
    411: "MissingContentLength",
    413: "EntityTooLarge",
    414: "InvalidURI",
    415: "InvalidRequest",
    417: "InvalidRequest",
    431: "RequestHeaderSectionTooLarge",
    501: "NotImplemented",
    503: "SlowDown",
    505: "InvalidRequest",
}


def not_implemented(what: str) -> Refusal:
    """Returns the refusal of something that S3 has and this server does not."""
    return Refusal(f"{what} is not implemented here; nothing was changed", 501, "NotImplemented")


def no_such_key(key: str) -> Refusal:
    """Returns the refusal of a key that no file can have."""
    return Refusal(f"The specified key does not exist: {key[:1_100]!r}", 404, "NoSuchKey")


def code_of_status(status: int) -> str:
    """Returns the word for a refusal by the transport."""
    return _STATUSES.get(status, "InvalidRequest" if status < 500 else "InternalError")


def code_of(error: LochanError) -> tuple[int, str, str]:
    """Returns status, code and message of an error; the message is for the client."""
    message = error.public_message
    if isinstance(error, Refusal):
        return error.status, error.code, message
    if isinstance(error, Unauthenticated):
        return _FLAWS.get(error.flaw, _FLAWS["unsigned"])
    if isinstance(error, BytesDiffer):
        return *_DIFFERENT_BYTES[error.stated], message
    status, code = next(CODES[kind] for kind in type(error).__mro__ if kind in CODES)
    return status, code, message
