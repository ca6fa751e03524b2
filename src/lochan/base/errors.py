"""One tree of errors, sorted by what the caller should do about them.

A class is a reaction, not a place in the code: code that catches an error knows from its branch
whether to read again, to give up, to retry later or to stop the process. `kind` is stable and
appears in logs and on the wire; kinds are only ever added.

An error has two texts. `message` is for the operator and the log; it may contain messages of a
driver or of the system with hosts, users and paths. `public_message` is for callers on other
machines. Where the caller has to act (NotFound, AlreadyExists, Conflict, Invalid, Denied) both are
the same. All other classes have a fixed sentence, unless the code that raises the error gives
another (`public`).

    LochanError
        NotFound
            ReferenceNotFound
            ContentNotFound
            NamespaceNotFound
            PathNotFound
            UploadNotFound
        AlreadyExists
            NamespaceExists
        Conflict
            KeysConflict
            HeadConflict
            NamespaceNotEmpty
            RequirementFailed
            ConditionFailed
            StagedWork
        Invalid
            AuditFailed
            BytesDiffer
            InvalidKey
            InvalidUrl
            KeyReused
            NotABranch
            NothingToCommit
            Refusal
            RangeNotSatisfiable
            TooLarge
        Denied
            Unauthenticated
        Exhausted
            TooManyRequests
        Unknown
        Unavailable
            StoreClosed
                StoreForked
            StoreLocked
        Corrupt
        NewerFormat
        Bug
"""

from __future__ import annotations

from typing import ClassVar, Final

INTERNAL: Final = "internal error; the server's log has the reason"
"""The public message of errors that only the operator can act on."""


class LochanError(Exception):
    """The root; never raised itself."""

    kind: ClassVar[str] = "lochan"

    sentence: ClassVar[str] = INTERNAL
    """The public message of a class whose messages are for the operator; "" for all others."""

    def __init__(self, message: str, *, public: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.public = public

    @property
    def public_message(self) -> str:
        """The message for a caller on another machine: without hosts, users, paths or rows."""
        return self.public or self.sentence or self.message


class _OfOneKey(Exception):
    """What errors about one key of a repository share; it is no class of the tree."""

    def __init__(self, message: str, key: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.key = key


class NotFound(LochanError):
    """What was named does not exist."""

    kind = "not_found"
    sentence = ""


class ReferenceNotFound(NotFound):
    """There is no such branch, tag or commit."""

    kind = "reference_not_found"


class ContentNotFound(_OfOneKey, NotFound):
    """The key holds no content on that reference."""

    kind = "content_not_found"


class NamespaceNotFound(_OfOneKey, NotFound):
    """There is no such namespace."""

    kind = "namespace_not_found"


class PathNotFound(NotFound):
    """There is no file at that path."""

    kind = "path_not_found"


class UploadNotFound(NotFound):
    """There is no such upload in parts, or it has ended."""

    kind = "upload_not_found"


class AlreadyExists(LochanError):
    """The name is taken."""

    kind = "already_exists"
    sentence = ""


class NamespaceExists(_OfOneKey, AlreadyExists):
    """There is such a namespace already."""

    kind = "namespace_exists"


class Conflict(LochanError):
    """Another change came first: read again, then retry."""

    kind = "conflict"
    sentence = ""


class KeysConflict(Conflict):
    """A commit found keys that are not as it expected; `details` lists all of them."""

    kind = "keys_conflict"

    def __init__(self, message: str, details: tuple[object, ...]) -> None:
        super().__init__(message)
        self.details = details


class HeadConflict(Conflict):
    """A reference does not point where the caller expected."""

    kind = "head_conflict"


class NamespaceNotEmpty(_OfOneKey, Conflict):
    """A namespace that still contains something cannot be deleted."""

    kind = "namespace_not_empty"


class RequirementFailed(Conflict):
    """A table or view is not as its writer assumed."""

    kind = "requirement_failed"


class ConditionFailed(Conflict):
    """A file is not as its writer demanded; nothing was written."""

    kind = "condition_failed"


class StagedWork(Conflict):
    """A branch has staged changes, which the request would discard."""

    kind = "staged_work"


class Invalid(LochanError):
    """The request itself is wrong: never retry it unchanged."""

    kind = "invalid"
    sentence = ""


class AuditFailed(Invalid):
    """Data failed at least one of its checks and is therefore not published."""

    kind = "audit_failed"


class InvalidKey(Invalid):
    """A content key or a path that no repository may hold."""

    kind = "invalid_key"


class InvalidUrl(Invalid):
    """A store address that cannot be understood or that no installed store serves."""

    kind = "invalid_url"
    sentence = INTERNAL


class KeyReused(Invalid):
    """An idempotency key was used again with another request."""

    kind = "key_reused"


class NotABranch(Invalid):
    """The request needs a branch, and the reference is a tag or a commit."""

    kind = "not_a_branch"


class NothingToCommit(Invalid):
    """A branch has no staged changes, or none that differ from its head."""

    kind = "nothing_to_commit"


class BytesDiffer(Invalid):
    """Bytes are not those that their sender stated, and were not stored: send them again.

    `stated` is what they do not have: `size`, `sha256` or `md5`.
    """

    kind = "bytes_differ"

    def __init__(self, message: str, stated: str = "size") -> None:
        super().__init__(message)
        self.stated = stated


class Refusal(Invalid):
    """A request that the protocol of its face refuses, with a status and a word of its own."""

    kind = "refusal"

    def __init__(self, message: str, status: int = 400, code: str = "InvalidRequest") -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class RangeNotSatisfiable(Invalid):
    """A range of bytes begins behind the end of the file, which has `size` bytes."""

    kind = "range_not_satisfiable"

    def __init__(self, message: str, size: int = 0) -> None:
        super().__init__(message)
        self.size = size


class TooLarge(Invalid):
    """A value over a limit of `base/limits/` or of the store."""

    kind = "too_large"


class Denied(LochanError):
    """The caller may not do this; `recorded` is whether the audit log has it."""

    kind = "denied"
    sentence = ""
    recorded = False


class Unauthenticated(Denied):
    """The request has no credentials, or none that are valid.

    `flaw` is a word for what is wrong with a signature, for faces whose protocol names it.
    """

    kind = "unauthenticated"
    flaw = ""


class Exhausted(LochanError):
    """A bound on time, attempts or queue was reached: retry later."""

    kind = "exhausted"
    sentence = "the server is too busy: nothing was changed; try again later"


class TooManyRequests(Exhausted):
    """One caller, or one repository, is over its quota: nothing was changed, retry later."""

    kind = "too_many_requests"

    def __init__(self, message: str, *, public: str = "", retry_after_s: int = 1) -> None:
        super().__init__(message, public=public)
        self.retry_after_s = retry_after_s


class Unknown(LochanError):
    """The write may or may not have taken effect: resolve it, never assume."""

    kind = "unknown"
    sentence = (
        "it is unknown whether the change took effect: read it, or send the same request with its "
        "idempotency key again"
    )


class Unavailable(LochanError):
    """The call had definitely no effect and may be sent again."""

    kind = "unavailable"
    sentence = "the store is not available now: nothing was changed; try again later"


class StoreClosed(Unavailable):
    """The store was closed, by its owner or after a failed flush."""

    kind = "store_closed"


class StoreForked(StoreClosed):
    """The store belongs to the process from which this one was forked."""

    kind = "store_forked"


class StoreLocked(Unavailable):
    """Another process owns the store's files."""

    kind = "store_locked"


class Corrupt(LochanError):
    """Stored bytes are not what was written: stop, never repair silently.

    `obj_id` names the object that was missing or changed, where it is one.
    """

    kind = "corrupt"

    def __init__(
        self, message: str, obj_id: bytes | None = None, *, missing: bool = False, public: str = ""
    ) -> None:
        super().__init__(message, public=public)
        self.obj_id = obj_id
        self.missing = missing


class NewerFormat(LochanError):
    """A store or a row was written by a newer Lochan and is not damaged: upgrade, then retry."""

    kind = "newer_format"
    sentence = "this was written by a newer Lochan: upgrade the server"


class Bug(LochanError):
    """An invariant of our own code was violated."""

    kind = "bug"
