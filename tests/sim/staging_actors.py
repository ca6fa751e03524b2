"""Staged files under the explorer: what actors do.

Every write has a value of its own, so that a value that was read names its write. A deletion is a
write of "nothing"; a merge that brings a file is a write of it; so is the re-creation of a branch,
which brings back what its first commit had. A reset is a write of what the head has.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from lochan.base.errors import HeadConflict, LochanError
from lochan.base.ids import ObjId, StagingToken
from lochan.base.keys import Key, file_key, file_path
from lochan.base.limits.staging import SEALED_FOLD_MIN
from lochan.base.names import RefName, ref_name
from lochan.codec.elements import decode_file
from lochan.codec.rows import ReferenceRow
from lochan.kernel.head_moves import HeadMoved, HeadMoves, Source
from lochan.kernel.merge import MergeProposal
from lochan.kernel.merge_choices import Choices
from lochan.kernel.provenance import Initiator
from lochan.kernel.publish import Published, Publisher
from lochan.kernel.references import NewReferenceRow, ReferenceIndex
from lochan.kernel.repository import Ports, create_repository
from lochan.staging.committer import CommitTexts
from lochan.staging.conditions import IfAbsent
from lochan.staging.listing import BranchListings, ListingLimits, ListingRange
from lochan.staging.staging import Staging
from lochan.staging.sweeper import sweep_tokens
from lochan.staging.tokens import BranchTokens
from lochan.testing.sim import Faults, Server
from tests.sim.kernel_scenarios import Write, parts_of
from tests.staging.workbench import entry_of

MAIN = ref_name("main")
SIDE = ref_name("side")
WHO = Initiator("sim")
PATHS = ("x", "y", "m")
HOUR_MS = 3_600_000.0

LOSSY = Faults(lost_reply=0.06, late=0.05, not_applied=0.03, most=3)
CRASHES = Faults(lost_reply=0.03, late=0.04, crash_before=0.03, crash_after=0.04, most=3)


class App:
    """What one server has in memory."""

    fold_min = SEALED_FOLD_MIN

    def __init__(self, server: Server) -> None:
        self.context = parts_of(server, server.world.prepared[:2])
        self.names = ReferenceIndex(self.context)
        self.staging = Staging(self.context, self.names, server.new_lock, self.fold_min)
        self.rounds: set[object] = set()
        put_each = self.context.staged.put_each

        def counted(token: StagingToken, records: Any) -> Any:
            # To write over another record of the same token is no further round.
            self.rounds.update((token, one.value) for one in records)
            return put_each(token, records)

        self.context.staged.put_each = counted  # type: ignore[method-assign, assignment]


class FoldingApp(App):
    """A server that folds sealed tokens as soon as there are two."""

    fold_min = 2


class SearchingApp(App):
    """A server whose listings seal, search and remember from the first deleted file on."""

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        staging, tokens = self.staging, BranchTokens(self.context, self.names.find)
        limits = ListingLimits(hidden_max=1, passed_max=3, sealed_max=2, run_min=1)
        self.staging.listings = BranchListings(
            self.context, staging.rows, tokens, staging.reader, server.new_lock, limits
        )


def set_up(server: Server) -> Any:
    """Main and side have the file x; side also has m, which main has not."""
    ports = Ports(server.clock, server.random, server.waiting)
    context = create_repository(server.store, ports, "default")
    names = ReferenceIndex(context)
    staging = Staging(context, names, server.new_lock)
    staging.writer.put(MAIN, file_key("x"), entry_of("first"))
    staging.committer.commit(Publisher(context, MAIN), MAIN, text_of("first"))
    head = ObjId(names.get(MAIN).row.pointer)
    names.create_many([NewReferenceRow(SIDE, "BRANCH", head)], WHO)
    staging.writer.put(SIDE, file_key("m"), entry_of("merged"))
    staging.committer.commit(Publisher(context, SIDE), SIDE, text_of("side"))
    side = ObjId(names.get(SIDE).row.pointer)
    return context.instance, context.description, head, side


def text_of(message: str) -> CommitTexts:
    return CommitTexts(message, hidden=(("operation", (message,)),))


def put(server: Server, branch: RefName, path: str, value: str) -> None:
    server.app.staging.writer.put(branch, file_key(path), entry_of(value))


def deletes_many(*paths: str) -> Callable[[Server], None]:
    def delete(server: Server, branch: RefName, *paths: str) -> None:
        server.app.staging.writer.delete_many(branch, [file_key(path) for path in paths])

    def act(server: Server) -> None:
        server.attempt("delete_many", delete, server, MAIN, *paths)

    return act


def writes(path: str, *values: str, branch: RefName = MAIN) -> Callable[[Server], None]:
    def act(server: Server) -> None:
        for value in values:
            server.attempt("write", put, server, branch, path, value)

    return act


def claims_path(path: str, value: str) -> Callable[[Server], None]:
    """Puts a file if there is none."""

    def put_if_absent(server: Server, branch: RefName, path: str, value: str) -> None:
        server.app.staging.writer.put(branch, file_key(path), entry_of(value), IfAbsent())

    def act(server: Server) -> None:
        server.attempt("claim", put_if_absent, server, MAIN, path, value)

    return act


def deletes(path: str) -> Callable[[Server], None]:
    def delete(server: Server, branch: RefName, path: str) -> bool:
        return bool(server.app.staging.writer.delete(branch, file_key(path)))

    def act(server: Server) -> None:
        server.attempt("delete", delete, server, MAIN, path)

    return act


def seals(times: int = 1) -> Callable[[Server], None]:
    """Seals as a commit does that is never published."""

    def seal(server: Server) -> None:
        server.app.staging.committer.prepare(MAIN, text_of("never"))

    def act(server: Server) -> None:
        for _ in range(times):
            server.attempt("seal", seal, server)

    return act


def read(server: Server, branch: RefName, path: str) -> str | None:
    found = server.app.staging.reader.find(branch, file_key(path))
    return None if found is None else str(found.address)


def reads(path: str, times: int = 1, branch: RefName = MAIN) -> Callable[[Server], None]:
    def act(server: Server) -> None:
        for _ in range(times):
            server.attempt("read", read, server, branch, path)

    return act


def fetches(times: int) -> Callable[[Server], None]:
    """Reads the row of main, sharing the read with other actors; the result is its version."""

    def fetch(server: Server) -> int:
        # Which read is joined is decided before the first call of the store.
        server.pause("begin")
        return int(server.app.staging.rows.fetch(MAIN).version)

    def act(server: Server) -> None:
        for _ in range(times):
            server.attempt("fetch", fetch, server)

    return act


def listing(server: Server, branch: RefName) -> dict[str, str]:
    staging = server.app.staging
    at, end = ListingRange().keys()
    found: list[tuple[bytes, bytes]] = []
    further: bytes | None = at
    while further is not None:
        # The pages of one listing may be of different moments.
        page, further = staging.reader.read(branch, partial(read_page, staging, further, end))
        found += page
    return {file_path(Key(key)): decode_file(element).address for key, element in found}


def read_page(staging: Staging, start: bytes, end: bytes | None, row: ReferenceRow) -> Any:
    listings = staging.listings
    return listings.page(row, start, end, 1_000, listings.effort(row.name))


def lists(times: int = 1) -> Callable[[Server], None]:
    def act(server: Server) -> None:
        for _ in range(times):
            server.attempt("list", listing, server, MAIN)

    return act


def commit_files(server: Server, branch: RefName, message: str, tables: bool) -> Published:
    app = server.app
    texts = text_of(message)
    more = {"tables": Write(message, [message])} if tables else {}
    publisher = Publisher(app.context, branch, app.names.find)
    published: Published = app.staging.committer.commit(publisher, branch, texts, **more)
    return published


def commits(*names: str, tables: bool = False, branch: RefName = MAIN) -> Callable[[Server], None]:
    def act(server: Server) -> None:
        for message in names:
            server.attempt("commit_files", commit_files, server, branch, message, tables)

    return act


def commit_tables(server: Server, name: str) -> None:
    app = server.app
    publisher = Publisher(app.context, MAIN, app.names.find)
    (settled,) = publisher.publish([Write(name, [name])])
    if isinstance(settled, LochanError):
        raise settled


def table_commits(*names: str) -> Callable[[Server], None]:
    def act(server: Server) -> None:
        for name in names:
            server.attempt("tables", commit_tables, server, name)

    return act


def merges(server: Server) -> None:
    """Merges what side was in the beginning into main, which brings the file m."""

    def merge(server: Server, branch: RefName, path: str, value: str) -> None:
        app = server.app
        source = app.context.views.load(server.world.prepared[3])
        hidden = text_of("merge").hidden
        proposal = MergeProposal(app.context, source, "merge", Choices(), hidden=hidden)
        (settled,) = Publisher(app.context, branch, app.names.find).publish([proposal])
        if isinstance(settled, LochanError):
            raise settled

    server.attempt("write", merge, server, MAIN, "m", "merged")


def moves(
    how: Callable[[HeadMoves, RefName, Source], HeadMoved],
) -> Callable[[Server], None]:
    """Moves main to the head of side, which brings the file m and changes no other."""

    def move(server: Server, branch: RefName, path: str, value: str) -> None:
        app = server.app
        heads = HeadMoves(app.context, app.names, app.staging.guard)
        side = app.context.views.load(ObjId(app.names.get(SIDE).row.pointer))
        if not how(heads, branch, Source(side)).moved:
            raise HeadConflict("the branch is there already")

    def act(server: Server) -> None:
        server.attempt("write", move, server, MAIN, "m", "merged")

    return act


def forces(server: Server) -> None:
    moves(lambda heads, name, source: heads.force(name, source, WHO))(server)


def fast_forwards(server: Server) -> None:
    moves(lambda heads, name, source: heads.fast_forward(name, source, WHO))(server)


def recreates(server: Server) -> None:
    """Deletes side and creates it again where main was in the beginning."""
    names = server.app.names

    def delete(server: Server, branch: RefName) -> None:
        names.delete(SIDE, ObjId(names.get(SIDE).row.pointer), WHO)

    def create(server: Server, branch: RefName) -> None:
        names.create_many([NewReferenceRow(SIDE, "BRANCH", server.world.prepared[2])], WHO)

    server.attempt("gone", delete, server, SIDE)
    server.attempt("recreate", create, server, SIDE)


def resets(branch: RefName = MAIN) -> Callable[[Server], None]:
    """Gives up all that is staged on a branch."""

    def reset(server: Server, branch: RefName, paths: tuple[str, ...]) -> None:
        server.app.staging.resets.reset_branch(branch)

    def act(server: Server) -> None:
        server.attempt("reset", reset, server, branch, PATHS)

    return act


def resets_path(path: str) -> Callable[[Server], None]:
    """Gives up what is staged at a path."""

    def reset(server: Server, branch: RefName, paths: tuple[str, ...]) -> None:
        server.app.staging.resets.reset_key(branch, file_key(paths[0]))

    def act(server: Server) -> None:
        server.attempt("reset", reset, server, MAIN, (path,))

    return act


def resets_hard(*, discard: bool) -> Callable[[Server], None]:
    """Moves side to where main was in the beginning, which had the first x and nothing else."""

    def reset(server: Server, branch: RefName) -> None:
        target = server.world.prepared[2]
        server.app.staging.resets.hard_reset(branch, target, WHO, discard_staged=discard)

    def act(server: Server) -> None:
        server.attempt("recreate", reset, server, SIDE)

    return act


def sweeps(server: Server) -> None:
    """Once: no writer is under way for longer than the hour between two drops of a token."""
    server.waiting.sleep_ms(HOUR_MS)
    server.attempt("sweep", sweep_tokens, server.app.context)


def in_turn(*acts: Callable[[Server], None]) -> Callable[[Server], None]:
    def act(server: Server) -> None:
        for one in acts:
            one(server)

    return act


def increments(server: Server) -> None:
    """Reads a number and writes the next one, as a careless application does."""
    found = server.attempt("read", read, server, MAIN, "x")
    number = 1 if found in (None, "first") else int(str(found))
    server.attempt("write", put, server, MAIN, "x", str(number + 1))
