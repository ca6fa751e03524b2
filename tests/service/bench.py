"""A repository on the memory store as a user of one server has it; time and chance in hand.

Shared by the tests of the service; holds no test of its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from lochan.access.policy import Call
from lochan.base.errors import KeysConflict
from lochan.base.limits.storage import KEY_PACK_COMMITS
from lochan.base.names import RefName
from lochan.kernel.context import Tuning
from lochan.kernel.publish import Publisher
from lochan.kernel.repository import Ports, create_repository, open_repository
from lochan.kv.observe import ObservedStore
from lochan.kv.store import Store
from lochan.model.commits import CommitMeta, Committed, ContentKey, Delete, LogEntry, Operation, Put
from lochan.model.contents import Content, IcebergTable, Namespace
from lochan.model.files import FileInfo
from lochan.model.requests import MergeRequest, NewReference
from lochan.model.results import ContentConflict, Merged, Page
from lochan.model.specs import ReferenceSpec, parse_spec
from lochan.service.file_places import NO_PLACES, FileSupport
from lochan.service.pending_writes import PendingWrite
from lochan.service.repository import Repository
from lochan.stores.memory.store import MemoryStore
from lochan.testing.call_counts import CallCounts
from lochan.testing.ports import ManualClock, RecordedWaiting, SeededRandom

ME = Call(principal="me")

WRITES = (
    "add_many",
    "put_many",
    "set_if",
    "delete",
    "delete_if",
    "apply",
    "hold",
    "drop_partition",
)

_Answer = TypeVar("_Answer")
_Item = TypeVar("_Item")
_Request = TypeVar("_Request", bound=msgspec.Struct)


class Bench:
    """One server's repository; keeps a publisher for each branch, as drivers do."""

    def __init__(
        self,
        store: Store | None = None,
        *,
        seed: int = 1,
        name: str = "repo",
        fresh: bool = True,
        files: FileSupport = NO_PLACES,
        key_pack_commits: int = KEY_PACK_COMMITS,
    ) -> None:
        self.store: Store = MemoryStore() if store is None else store
        self.clock = ManualClock()
        ports = Ports(self.clock, SeededRandom(seed), RecordedWaiting(self.clock))
        make = create_repository if fresh else open_repository
        self.support = files
        self.key_pack_commits = key_pack_commits
        context = make(self.store, ports, name, tuning=Tuning(key_pack_commits=key_pack_commits))
        self.repository = Repository(context, files=files)
        self.files = self.repository.files
        self.references = self.repository.references
        self.contents = self.repository.contents
        self.history = self.repository.history
        self.commits = self.repository.commits
        self.merges = self.repository.merges
        self._publishers: dict[RefName, Publisher] = {}

    def again(self, store: Store | None = None, *, seed: int = 2) -> Bench:
        """Another server on the same store, or on a wrapper of it; nothing is in its memory."""
        kept = self.store if store is None else store
        return Bench(
            kept,
            seed=seed,
            fresh=False,
            files=self.support,
            key_pack_commits=self.key_pack_commits,
        )

    def counted(self) -> tuple[Bench, CallCounts]:
        """Another server, whose calls to the store are counted."""
        counts = CallCounts()
        return self.again(ObservedStore(self.store, counts, ManualClock())), counts

    def publisher(self, branch: RefName) -> Publisher:
        if branch not in self._publishers:
            self._publishers[branch] = self.repository.publisher(branch)
        return self._publishers[branch]

    def run(self, asked: PendingWrite[_Answer]) -> _Answer:
        """Does what was prepared, alone."""
        publisher = self.publisher(asked.branch)
        publish = publisher.preview if asked.dry_run else publisher.publish
        (settled,) = publish([asked.proposal])
        return asked.finish(settled)

    def run_together(self, *asked: PendingWrite[_Answer]) -> list[_Answer | Exception]:
        """Does several things in one chain; errors are among the answers."""
        publisher = self.publisher(asked[0].branch)
        settled = publisher.publish([one.proposal for one in asked])
        answers: list[_Answer | Exception] = []
        for one, outcome in zip(asked, settled, strict=True):
            try:
                answers.append(one.finish(outcome))
            except Exception as error:
                answers.append(error)
        return answers

    def commit(
        self,
        *does: Operation,
        branch: str = "main",
        expected: str | None = "head",
        message: str = "m",
        call: Call = ME,
        **said: object,
    ) -> Committed:
        """Commits as of the head, or of an expected hash, or of none."""
        if expected == "head":
            expected = self.head(branch)
        meta = msgspec.convert({"message": message, **said}, CommitMeta)
        return self.run(self.commits.commit(call, branch, optional_spec(expected), meta, does))

    def fill(self, *names: str, branch: str = "main") -> Committed:
        """Makes tables by their names with dots, and the namespaces that they need."""
        there = {entry.key for entry in self.contents.entries(ME, parse_spec(branch)).items}
        keys = [tuple(name.split(".")) for name in names]
        spaces = {key[:length] for key in keys for length in range(1, len(key))} - there
        does: list[Operation] = [
            Put(key=key, content=Namespace(elements=key)) for key in sorted(spaces)
        ]
        does += [Put(key=key, content=table(".".join(key))) for key in keys]
        return self.commit(*does, branch=branch, message=f"fill {' '.join(names)}")

    def change(self, name: str, where: str, *, branch: str = "main", **more: Any) -> Committed:
        """Moves a table's metadata elsewhere."""
        return self.commit(self.changed(name, where, branch), branch=branch, **more)

    def changed(self, name: str, where: str, spec: str = "main") -> Put:
        content, _ = self.contents.get(ME, parse_spec(spec), key(name))
        return Put(key=key(name), content=moved(content, where))

    def remove(self, *names: str, branch: str = "main") -> Committed:
        return self.commit(*[Delete(key=key(name)) for name in names], branch=branch)

    def head(self, spec: str = "main") -> str:
        return self.references.get(ME, spec).hash

    def branch(self, name: str, source: str | None = "main") -> str:
        new = NewReference(kind="BRANCH", name=name, source=optional_spec(source))
        return self.run(self.references.create(ME, new)).hash

    def merge(self, source: str, branch: str = "main", **more: Any) -> Merged:
        ask = MergeRequest(branch=branch, expected=None, source=parse_spec(source))
        return self.run(self.merges.merge(ME, changed_request(ask, **more)))

    def state(self, spec: str = "main") -> dict[str, str]:
        """Where the tables of a commit are; a namespace is nowhere."""
        page = self.contents.entries(ME, parse_spec(spec), with_content=True)
        return {".".join(entry.key): where(entry.content) for entry in page.items}

    def put(
        self, path: str, data: bytes = b"", branch: str = "main", call: Call = ME, **more: Any
    ) -> FileInfo:
        """Stages a file."""
        with self.repository.uploads.begin(call, branch, path, **more) as upload:
            upload.write(data)
            return upload.finish()

    def read(self, path: str, spec: str = "main") -> bytes:
        with self.files.open(ME, parse_spec(spec), path) as stream:
            return stream.read()

    def commit_files(
        self, branch: str = "main", message: str = "m", *does: Operation, call: Call = ME
    ) -> Committed:
        """Commits what is staged, and operations on tables."""
        meta = CommitMeta(message=message)
        expected = optional_spec(self.head(branch)) if does else None
        return self.run(self.commits.commit(call, branch, expected, meta, does, staged=True))

    def tree(self, spec: str = "main") -> dict[str, bytes]:
        """All files with their bytes."""
        listed = self.repository.file_listings.list
        found = pages(lambda token: listed(ME, parse_spec(spec), token=token))
        return {one.path: self.read(one.path, spec) for one in found}

    def log(self, spec: str = "main") -> list[LogEntry]:
        return list(self.history.log(ME, parse_spec(spec), fetch_all=True).items)

    def messages(self, spec: str = "main") -> list[str]:
        return [entry.meta.message for entry in self.log(spec)]


def forked(files: FileSupport = NO_PLACES) -> Bench:
    """Main has `ns` with three tables; side has changed a, added d and removed c since."""
    one = Bench(files=files)
    one.fill("ns.a", "ns.b", "ns.c")
    one.branch("side")
    one.change("ns.a", "side", branch="side", message="side 1")
    one.commit(new("ns.d"), Delete(key=key("ns.c")), branch="side", message="side 2")
    return one


def key(name: str) -> ContentKey:
    return tuple(name.split("."))


def table(location: str, content_id: str | None = None) -> IcebergTable:
    return IcebergTable(
        id=content_id,
        metadata_location=location,
        snapshot_id=1,
        schema_id=2,
        spec_id=3,
        sort_order_id=4,
    )


def new(name: str, location: str | None = None) -> Put:
    return Put(key=key(name), content=table(location or name))


def space(name: str, **properties: str) -> Put:
    return Put(key=key(name), content=Namespace(elements=key(name), properties=properties))


def moved(content: Content, location: str) -> Content:
    changed: Content = msgspec.structs.replace(content, metadata_location=location)
    return changed


def where(content: Content | None) -> str:
    return content.metadata_location if isinstance(content, IcebergTable) else ""


def pages(
    ask: Callable[[str | None], Page[_Item]], tokens_max: int = 100, token: str | None = None
) -> list[_Item]:
    """Reads page after page to the end, from a token on if there is one."""
    found: list[_Item] = []
    for _ in range(tokens_max):
        page = ask(token)
        found += page.items
        token = page.token
        if token is None:
            return found
    raise AssertionError("the listing has no end")


def conflicts(error: KeysConflict) -> list[tuple[str, str]]:
    """Which kinds of conflict on which keys."""
    return [(one.kind, ".".join(one.key or ())) for one in details(error)]


def details(error: KeysConflict) -> Sequence[ContentConflict]:
    found = [one for one in error.details if isinstance(one, ContentConflict)]
    assert len(found) == len(error.details)
    return found


def writes(counts: CallCounts) -> dict[str, int]:
    return {name: counts.calls[name] for name in WRITES if counts.calls[name]}


def names(items: Iterable[Any]) -> list[str]:
    """The names of references, or the keys of entries."""
    return [getattr(one, "name", None) or ".".join(one.key) for one in items]


def optional_spec(text: str | None) -> ReferenceSpec | None:
    """What a writer expects, or where a reference starts, if that is named at all."""
    return None if text is None else parse_spec(text)


def changed_request(request: _Request, **texts: Any) -> _Request:
    """The same request with other fields; what it expects and its source are given as texts."""
    for field in ("expected", "source"):
        if isinstance(texts.get(field), str) and not isinstance(getattr(request, field), str):
            texts[field] = parse_spec(texts[field])
    return msgspec.structs.replace(request, **texts)


def use_cases(repository: Repository) -> dict[str, Callable[..., Any]]:
    """All public methods of the groups of a repository, as `group.method`."""
    return {
        f"{name}.{method}": function
        for name, group in sorted(vars(repository).items())
        if not name.startswith("_")
        and name not in ("info", "staged_heads")
        and type(group).__module__.startswith("lochan.service.")
        for method, function in inspect.getmembers(type(group), inspect.isfunction)
        if not method.startswith("_")
    }
