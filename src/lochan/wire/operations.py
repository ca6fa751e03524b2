"""Every operation of the API, as data: its path, its parameters, its request and its response.

`faces/` binds a handler to each, and the OpenAPI document is generated from them, so both contain
the same operations.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from lochan.access.policy import Action
from lochan.model.specs import NAME_MESSAGE


class Parameter(msgspec.Struct, frozen=True):
    """A value in the path, the query or the headers."""

    name: str
    place: str
    about: str
    schema: dict[str, Any]
    required: bool = False


Needs = Literal["action", "repository", "credentials", "nothing"]
"""What a caller needs for an operation: the right to do an action, any right at all in the
repository, valid credentials, or nothing."""


class ApiOperation(msgspec.Struct, frozen=True):
    """One operation; `path` is below the prefix of its version, values in braces.

    Without a `response` it answers 204, unless it returns bytes. `beyond` marks what is not in
    Nessie's API. `action` is the first that the use case decides on; every operation that `needs`
    one has to name it.
    """

    id: str
    method: str
    path: str
    about: str
    response: Any = None
    parameters: tuple[str, ...] = ()
    request: Any = None
    request_needed: bool = True
    beyond: bool = False
    action: Action | None = None
    needs: Needs = "action"
    bytes_in: bool = False
    """Whether the body of the request is bytes, sent as a stream."""
    bytes_out: bool = False
    """Whether the body of the response is bytes, sent as a stream."""
    events_out: bool = False
    """Whether the body of the response is a stream of server-sent events."""


_TEXT: Final[dict[str, Any]] = {"type": "string"}
_FLAG: Final[dict[str, Any]] = {"type": "boolean", "default": False}
_FOLLOW: Final[dict[str, Any]] = {"type": "boolean", "default": True}
_TEXTS: Final[dict[str, Any]] = {"type": "array", "items": {"type": "string"}}
_COUNT: Final[dict[str, Any]] = {"type": "integer", "minimum": 0, "maximum": 2_147_483_647}
_FETCH: Final[dict[str, Any]] = {"type": "string", "enum": ["MINIMAL", "ALL"]}
_KIND: Final[dict[str, Any]] = {"type": "string", "enum": ["branch", "tag", "BRANCH", "TAG"]}
_NAME: Final[dict[str, Any]] = {"type": "string", "minLength": 1, "examples": ["main"]}
_KEY: Final[dict[str, Any]] = {"type": "string", "minLength": 1, "examples": ["ns.table"]}
_HEX: Final[dict[str, Any]] = {"type": "string", "pattern": "^([0-9a-f]{2})*$"}
_HASH: Final[dict[str, Any]] = {"type": "string", "pattern": "^[0-9a-fA-F]{8,64}$"}

_REF: Final = (
    "A reference: `name`, `name@hash` or `@hash`, each followed by relative steps (`~N`, `^N`, "
    "`*T`); `-` is the default branch. A name that holds a slash is followed by `@`, or its "
    "slashes are percent-encoded."
)
_EXPECTED: Final = (
    "The branch and the hash that the writer has read, `name@hash`; `If-Match` may contain the "
    "hash instead."
)


_FILE_PATH: Final = (
    "The path of a file: 1 to 1,024 bytes of UTF-8 without NUL, percent-encoded. Every such text "
    "is a path; `.`, `..` and `//` have no meaning."
)
_SLASHES: Final = "A slash in it is percent-encoded."
_FILE: Final[dict[str, Any]] = {"type": "string", "minLength": 1, "examples": ["a/b.csv"]}


def _id(example: str) -> dict[str, Any]:
    pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
    return {"type": "string", "pattern": pattern, "examples": [example]}


def _parameters(*parameters: Parameter) -> dict[str, Parameter]:
    return {each.name: each for each in parameters}


PARAMETERS: Final = _parameters(
    Parameter("ref", "path", _REF, _NAME, True),
    Parameter("to-ref", "path", f"The other side. {_REF}", _NAME, True),
    Parameter("branch", "path", _EXPECTED, _NAME, True),
    Parameter(
        "content-key",
        "path",
        "A key: elements joined by dots, or in the escaped form that starts with a dot.",
        _KEY,
        True,
    ),
    Parameter("name", "query", NAME_MESSAGE, _NAME, True),
    Parameter("type", "query", "The kind of the reference.", _KIND, True),
    Parameter("expected-type", "query", "The kind that the reference must have.", _KIND),
    Parameter(
        "bare", "query", "Creates a branch without commits; the body contains no hash.", _FLAG
    ),
    Parameter("config-type", "query", "Which settings; repeat for several.", _TEXTS),
    Parameter("fetch", "query", "ALL adds fields that cost more to read.", _FETCH),
    Parameter(
        "filter",
        "query",
        "A CEL expression; only entries for which it is true are returned.",
        _TEXT,
    ),
    Parameter("max-records", "query", "How many at most.", _COUNT),
    Parameter("page-token", "query", "The token of the page before.", _TEXT),
    Parameter("scan-commits", "query", "Above 0 the commits are checked.", _COUNT),
    Parameter("key", "query", "A key to be returned; repeat for several.", _TEXTS),
    Parameter("min-key", "query", "The first key.", _TEXT),
    Parameter("max-key", "query", "The last key.", _TEXT),
    Parameter("prefix-key", "query", "This key and all below it.", _TEXT),
    Parameter("job-key", "query", "The key whose jobs are returned.", _KEY, True),
    Parameter("job", "query", "A job to be returned; repeat for several.", _TEXTS),
    Parameter("min-job", "query", "The first name of a job.", _TEXT),
    Parameter("prefix-job", "query", "What the names of jobs begin with.", _TEXT),
    Parameter("content", "query", "Whether contents are returned too.", _FLAG),
    Parameter("with-doc", "query", "Has no effect.", _FLAG),
    Parameter("for-write", "query", "Has no effect.", _FLAG),
    Parameter("limit-hash", "query", "The oldest commit of the log.", _TEXT),
    Parameter("If-Match", "header", "The expected hash in quotes, as in `ETag`; or `*`.", _TEXT),
    Parameter(
        "Idempotency-Key",
        "header",
        "Makes a write take effect once, however often it is sent.",
        {"type": "string", "minLength": 1, "maxLength": 255},
    ),
    # Version 1.
    Parameter("v1-ref", "path", NAME_MESSAGE, _NAME, True),
    Parameter("v1-branch", "path", NAME_MESSAGE, _NAME, True),
    Parameter("v1-name", "path", NAME_MESSAGE, _NAME, True),
    Parameter("v1-kind", "path", "The kind of the reference.", _KIND, True),
    Parameter("v1-namespace", "path", "A namespace, elements joined by dots.", _KEY, True),
    Parameter("v1-from", "path", "A reference, `name` or `name*hash`.", _NAME, True),
    Parameter("v1-to", "path", "A reference, `name` or `name*hash`.", _NAME, True),
    Parameter("maxRecords", "query", "How many at most.", _COUNT),
    Parameter("pageToken", "query", "The token of the page before.", _TEXT),
    Parameter("expectedHash", "query", "Where the reference must be.", _HASH),
    Parameter("hashOnRef", "query", "A commit of the reference.", _HASH),
    Parameter("startHash", "query", "The oldest commit of the log.", _HASH),
    Parameter("endHash", "query", "The newest commit of the log.", _HASH),
    Parameter("sourceRefName", "query", "The reference to start from.", _TEXT),
    Parameter("namespaceDepth", "query", "How many elements of a key are shown.", _COUNT),
    Parameter("v1-contents-ref", "query", "A reference; the default branch if missing.", _TEXT),
    Parameter("message", "query", "The message of the commit.", _TEXT),
    Parameter("v1-below", "query", "Only namespaces below this one.", _TEXT),
    # Access.
    Parameter("user-id", "path", "A user.", _id("ada"), True),
    Parameter("group-id", "path", "A group.", _id("analysts"), True),
    Parameter("policy-id", "path", "A policy.", _id("sales"), True),
    Parameter("token-id", "path", "A token, by the id in its text.", _id("t1"), True),
    Parameter("access-key-id", "path", "An access key.", _id("k1"), True),
    Parameter("member", "path", "A user.", _id("ada"), True),
    Parameter("policy", "path", "A policy.", _id("sales"), True),
    # A store.
    Parameter("exact", "query", "Counts everything instead of a sample.", _FLAG),
    Parameter("partition", "query", "A partition, or how its name begins, in hex.", _HEX, True),
    Parameter("start", "query", "The first key, in hex.", _HEX),
    Parameter("end", "query", "The first key that is not wanted, in hex.", _HEX),
    Parameter("cursor", "query", "Where the page before has ended, in hex.", _HEX),
    # Files.
    Parameter("file-path", "query", _FILE_PATH, _FILE, True),
    Parameter("file-branch", "path", f"A branch. {_SLASHES}", _NAME, True),
    Parameter(
        "file-ref",
        "path",
        "A branch with its staged files, or with a hash, a step, or as a tag the files of that "
        f"commit. {_SLASHES}",
        _NAME,
        True,
    ),
    Parameter("file-to-ref", "path", f"The other side. {_SLASHES}", _NAME, True),
    Parameter("file-prefix", "query", "Only paths that begin with this text.", _TEXT),
    Parameter(
        "delimiter",
        "query",
        "Paths that share the text up to this one, after the prefix, are shown as one entry.",
        _TEXT,
    ),
    Parameter("after", "query", "Only paths and common prefixes after this path.", _TEXT),
    Parameter("since-base", "query", "Compares with the common ancestor of both sides.", _FLAG),
    Parameter("file-paths", "query", "A path; repeat for several.", _TEXTS),
    Parameter("file-prefixes", "query", "A prefix of paths; repeat for several.", _TEXTS),
    Parameter("allow-empty", "query", "Commits even if nothing is staged.", _FLAG),
    Parameter("Range", "header", "One range of bytes: `bytes=0-99`, `bytes=100-`.", _TEXT),
    Parameter("If-None-Match", "header", "For a write `*`: there must be no file.", _TEXT),
    Parameter("file-if-match", "header", "The ETag that the file must have; `*` for any.", _TEXT),
    Parameter("Lochan-If-SHA256", "header", "The SHA-256 that the file must have.", _TEXT),
    Parameter("Content-MD5", "header", "The MD5 of the body in Base64; checked.", _TEXT),
    Parameter("Content-Digest", "header", "`sha-256=:…:` of the body; checked.", _TEXT),
    # Events.
    Parameter(
        "events-reference",
        "query",
        "A branch or tag, or a pattern with `?` and one `*`; the default branch if missing.",
        _TEXT,
    ),
    Parameter("events-type", "query", "A type of events; repeat for several.", _TEXTS),
    Parameter("events-key", "query", "A pattern of keys; repeat for several.", _TEXTS),
    Parameter("content-type", "query", "A type of contents; repeat for several.", _TEXTS),
    Parameter("from", "query", "The id of the last event that was received.", _TEXT),
    Parameter("Last-Event-ID", "header", "The same; it counts before `from`.", _TEXT),
    Parameter("since", "query", "Begins behind this time, ISO 8601 with its zone.", _TEXT),
    Parameter("follow", "query", "With `false` the stream ends at the present.", _FOLLOW),
    Parameter(
        "Lochan-Metadata",
        "header",
        "Metadata of the file: `name=value&name=value`, percent-encoded.",
        _TEXT,
    ),
)

WIRE_NAMES: Final = {
    "content-key": "key",
    "job-key": "key",
    "expected-type": "type",
    "config-type": "type",
    "branch": "ref",
    "v1-ref": "ref",
    "v1-branch": "branch",
    "v1-name": "name",
    "v1-kind": "type",
    "v1-namespace": "name",
    "v1-from": "from",
    "v1-to": "to",
    "v1-contents-ref": "ref",
    "v1-below": "name",
    "user-id": "id",
    "group-id": "id",
    "policy-id": "id",
    "token-id": "id",
    "access-key-id": "id",
    "member": "user",
    "file-path": "path",
    "file-branch": "ref",
    "file-ref": "ref",
    "file-to-ref": "to-ref",
    "file-prefix": "prefix",
    "file-paths": "path",
    "file-prefixes": "prefix",
    "file-if-match": "If-Match",
    "events-reference": "reference",
    "events-type": "type",
    "events-key": "key",
}
"""The names on the wire of parameters that share a name but not a meaning."""
