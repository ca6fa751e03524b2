"""Which decisions the use cases on files need, for `test_authorisation.py`; holds no test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from lochan.access.policy import Action, Call
from lochan.model.commits import CommitMeta
from lochan.model.files import FileProperties, ImportSource, UploadedPart, WriteCondition
from lochan.model.specs import parse_spec
from lochan.service.file_places import FileSupport
from lochan.service.repository import Repository
from tests.service.bench import ME

Decision = tuple[Action, str | None, bool]


class Case(msgspec.Struct, frozen=True):
    """`optional` is what the answer leaves out, or None if the case does not say."""

    run: Callable[[Repository, Call], Any]
    decisions: Sequence[Decision]
    optional: Sequence[Decision] | None = None


A = Action
MAIN, SIDE = parse_spec("main"), parse_spec("side")
META = CommitMeta(message="m")
READ_MAIN = (A.READ_CONTENT, "main", True)
READ_SIDE = (A.READ_CONTENT, "side", True)
ENTRIES_MAIN = (A.READ_ENTRIES, "main", True)
LOG_MAIN = (A.READ_LOG, "main", True)
COMMIT = (A.COMMIT, "main", True)
COMMIT_BY_NAME = (A.COMMIT, "main", False)
WRITE = (A.WRITE_CONTENT, "main", True)


def upload(one: Repository, call: Call) -> Any:
    with one.uploads.begin(call, "main", "f/c") as begun:
        begun.write(b"c")
        return begun.finish()


class Lake:
    """The files of all tests here: a directory that is imported, one for blocks."""

    url = ""
    upload = ("", "", "")
    job = ""
    parts: Sequence[UploadedPart] = ()
    support = FileSupport()


LAKE = Lake()


def reserved(one: Repository) -> str:
    """A token, reserved by a server without a policy."""
    return _open(one).addresses.reserve(ME, "main", "f/c").token


def begin_upload(one: Repository) -> None:
    """Begins an upload in parts and sends its only part, and an import, for their cases."""
    sources = [ImportSource(LAKE.url, "in/")]
    LAKE.job = one.import_jobs.start(ME, "main", sources, META).id
    LAKE.upload = "main", "f/c", one.multiparts.create(ME, "main", "f/c")
    part = one.multiparts.begin_part(ME, *LAKE.upload, 1)
    part.write(b"c")
    LAKE.parts = [part.finish()]


def _open(one: Repository) -> Repository:
    return Repository(one.context, files=LAKE.support)


FILE_CASES = {
    "files.stat": Case(lambda one, call: one.files.stat(call, MAIN, "f/a"), [READ_MAIN]),
    "files.open": Case(lambda one, call: one.files.open(call, MAIN, "f/a").read(), [READ_MAIN]),
    "files.open_stored": Case(
        lambda one, call: one.files.open_stored(call, MAIN, "f/a"), [READ_MAIN]
    ),
    "files.presign": Case(lambda one, call: one.files.presign(call, MAIN, "f/b"), [READ_MAIN]),
    "files.copy": Case(
        lambda one, call: one.files.copy(call, "main", "f/c", SIDE, "f/a"), [WRITE, READ_SIDE]
    ),
    "files.stage_foreign": Case(
        lambda one, call: one.files.stage_foreign(
            call, "main", "f/c", f"{LAKE.url}x", FileProperties()
        ),
        [WRITE, (A.IMPORT_FILES, "main", True)],
    ),
    "files.update": Case(
        lambda one, call: one.files.update(call, "main", "f/a", content_type="x"),
        [WRITE, READ_MAIN],
    ),
    "files.delete": Case(
        lambda one, call: one.files.delete(call, "main", "f/a", WriteCondition(if_match="*")),
        [(A.DELETE_CONTENT, "main", True), READ_MAIN],
    ),
    "files.delete_many": Case(
        lambda one, call: one.files.delete_many(call, "main", ["f/a"]),
        [(A.DELETE_CONTENT, "main", True)],
    ),
    "uploads.begin": Case(upload, [WRITE, WRITE]),
    "multiparts.create": Case(
        lambda one, call: one.multiparts.create(call, "main", "f/c"), [WRITE]
    ),
    "multiparts.create_signed": Case(
        lambda one, call: one.multiparts.create_signed(call, "main", "f/c", 1),
        [WRITE, WRITE, WRITE, WRITE],
    ),
    "multiparts.sign_parts": Case(
        lambda one, call: one.multiparts.sign_parts(call, *LAKE.upload, [1]), [WRITE, WRITE]
    ),
    "multiparts.begin_part": Case(
        lambda one, call: one.multiparts.begin_part(call, *LAKE.upload, 1).abort(), [WRITE]
    ),
    "multiparts.list_parts": Case(
        lambda one, call: one.multiparts.list_parts(call, *LAKE.upload), [WRITE]
    ),
    "multiparts.list_uploads": Case(lambda one, call: one.multiparts.list_uploads(call, ""), []),
    "multiparts.complete": Case(
        lambda one, call: one.multiparts.complete(call, *LAKE.upload, LAKE.parts), [WRITE, WRITE]
    ),
    "multiparts.abort": Case(lambda one, call: one.multiparts.abort(call, *LAKE.upload), [WRITE]),
    "addresses.reserve": Case(
        lambda one, call: one.addresses.reserve(call, "main", "f/c"), [WRITE]
    ),
    "addresses.link": Case(
        lambda one, call: one.addresses.link(call, "main", "f/c", reserved(one)), [WRITE]
    ),
    "file_listings.list": Case(
        lambda one, call: one.file_listings.list(call, MAIN), [ENTRIES_MAIN]
    ),
    "file_listings.uncommitted": Case(
        lambda one, call: one.file_listings.uncommitted(call, "main"), [ENTRIES_MAIN]
    ),
    "file_history.diff": Case(
        lambda one, call: one.file_history.diff(call, MAIN, SIDE),
        [ENTRIES_MAIN, (A.READ_ENTRIES, "side", True)],
    ),
    "file_history.log": Case(
        lambda one, call: one.file_history.log(call, MAIN, paths=["f/a"]), [LOG_MAIN]
    ),
    "resets.reset": Case(
        lambda one, call: one.resets.reset(call, "main", path="f/a"),
        [WRITE, (A.DELETE_CONTENT, "main", True)],
    ),
    "resets.hard_reset": Case(
        lambda one, call: one.resets.hard_reset(call, "side", MAIN),
        [(A.ASSIGN_REFERENCE, "side", False), READ_MAIN, (A.ASSIGN_REFERENCE, "side", True)],
    ),
    "import_jobs.start": Case(
        lambda one, call: one.import_jobs.start(
            call, "main", [ImportSource(LAKE.url, "in/")], META
        ),
        [COMMIT, (A.IMPORT_FILES, "main", True)],
    ),
    "import_jobs.status": Case(
        lambda one, call: one.import_jobs.status(call, "main", LAKE.job), [LOG_MAIN]
    ),
    "import_jobs.cancel": Case(
        lambda one, call: one.import_jobs.cancel(call, "main", LAKE.job),
        [(A.IMPORT_FILES, "main", True)],
    ),
    "imports.import_files": Case(
        lambda one, call: one.imports.import_files(
            call, "main", [ImportSource(LAKE.url, "in/")], META
        ),
        [COMMIT_BY_NAME, (A.IMPORT_FILES, "main", True), COMMIT],
    ),
}
