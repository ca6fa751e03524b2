"""A small repository that has a row of every kind, and nodes and commits small enough to flip.

Holds no test of its own. Limits are lowered while it is made and checked, so that forty keys make a
tree of several levels and six make a commit that does not list them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest

from lochan.access.policy import Call
from lochan.base.ids import ObjId
from lochan.base.keys import file_key, table_key
from lochan.base.names import RefName
from lochan.catalog.types import ContentTypes
from lochan.codec.elements import encode_file, pack_table
from lochan.embedded import Embedded
from lochan.kernel.check_findings import Report
from lochan.kernel.check_store import CheckOptions, check_store
from lochan.kernel.plan import CommitPlan, Operation
from lochan.kernel.provenance import Initiator
from lochan.kernel.publish import Publisher
from lochan.kernel.references import NewReferenceRow
from lochan.kernel.repository import Ports
from lochan.kernel.tags import Tags
from lochan.kv.format import check_format
from lochan.kv.store import Kind, Partition, Store
from lochan.model.commits import Delete, Put
from lochan.model.contents import (
    Content,
    DeltaLakeTable,
    IcebergTable,
    IcebergView,
    Namespace,
    OtherContent,
    UserFunction,
)
from lochan.model.entries import FileEntry
from lochan.model.references import Annotation
from lochan.service.repositories import Repositories
from lochan.stores.memory.store import MemoryStore
from lochan.testing.ports import ManualClock, RecordedWaiting, SeededRandom
from tests.kernel.workbench import Wants, claim, published

TYPES = ContentTypes()
LOWERED = {
    "NODE_ELEMENTS_MIN": 2,
    "NODE_ELEMENTS_EAGER": 3,
    "NODE_ELEMENTS_MAX": 4,
    "EMBEDDED_BYTES_MAX": 500,
    "EMBEDDED_STAGGER_BYTES": 40,
    "COMMIT_OWN_KEYS_MAX": 5,
}

Row = tuple[Partition, bytes, bytes]


@contextmanager
def lowered_limits() -> Iterator[None]:
    """Lowers limits in every module that has imported them."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in LOWERED.items():
            for module in [*sys.modules.values()]:
                known = (getattr(module, "__name__", "") or "").startswith("lochan.")
                if known and isinstance(vars(module).get(name), int):
                    patch.setattr(module, name, value)
        yield


def ports(later_us: int = 0) -> Ports:
    clock = ManualClock()
    clock.advance_us(later_us)
    return Ports(clock, SeededRandom(3), RecordedWaiting(clock))


def table(number: int) -> IcebergTable:
    return IcebergTable(
        metadata_location=f"s3://b/{number}",
        snapshot_id=number,
        schema_id=1,
        spec_id=2,
        sort_order_id=3,
    )


def grown() -> MemoryStore:
    """Makes the store; two repositories, of which the second is there to exchange rows with."""
    store = MemoryStore()
    check_format(store)
    repositories = Repositories(store, ports())
    for name in ("repo", "other"):
        _grow(Embedded(store, repositories.create(Call("me"), name), "me"), name)
    return store


def _grow(repo: Embedded, name: str) -> None:
    commit, references = repo.commits.commit, repo.references
    namespace = Put(key=("db",), content=Namespace(elements=("db",)))
    commit("main", "first", [namespace])
    commit("main", "kinds", [Put(key=("db", kind), content=one) for kind, one in kinds().items()])
    if name == "other":
        repo.settings.update({"type": "GARBAGE_COLLECTOR", "defaultCutoffPolicy": "P9D"})
        return
    many = [Put(key=("db", f"t{number:02}"), content=table(number)) for number in range(30)]
    commit("main", "many", many)
    references.create("side", "main")
    references.create("gone", "main")
    references.create("again", "main")
    for number in range(4):
        commit("side", f"side {number}", [Put(key=("db", f"s{number}"), content=table(number))])
    _put_again(repo)
    commit("main", "remove", [Delete(key=("db", "t07"))])
    repo.merges.merge("side", "main", message="merge")
    commit("gone", "lost", [Put(key=("db", "lost"), content=table(99))])
    references.delete("gone")
    references.delete("again")
    references.create("again", "main")
    _write_below_the_catalog(repo)
    _move_often(repo)
    _tag(repo)
    repo.settings.update({"type": "GARBAGE_COLLECTOR", "defaultCutoffPolicy": "P30D"})
    claim(repo._repository.context, "me", "key-1", b"digest", RefName("main"))


def kinds() -> dict[str, Content]:
    return {
        "view": IcebergView(metadata_location="v", version_id=1, schema_id=2, sql_text="x"),
        "delta": DeltaLakeTable(metadata_location_history=("a",), checkpoint_location_history=()),
        "udf": UserFunction(metadata_location="u", version_id="1", signature_id="s"),
        "other": OtherContent("SOMETHING_NEW", None, {"a": [1, {"b": None}]}),
    }


def _put_again(repo: Embedded) -> None:
    """Commits some keys as they are, some changed: more than a commit lists."""
    operations = []
    for number in range(8):
        key = ("db", f"t{number:02}")
        content, _ = repo.contents.get("main", key)
        changed = content if number % 2 else msgspec.structs.replace(content, schema_id=7)
        operations.append(Put(key=key, content=changed))
    repo.commits.commit("main", "put again", operations)


def _write_below_the_catalog(repo: Embedded) -> None:
    """Puts files, and a content whose id is no UUID, which the catalog would not choose."""
    context = repo._repository.context
    value, raw = TYPES.encode(table(5), "an id of its own")
    element = pack_table(1, value, None)
    plans = [
        CommitPlan(
            [Operation(table_key(["db", "named"]), element)], "named", objects=[(value, raw)]
        ),
        CommitPlan(
            [
                Operation(
                    file_key(f"dir/file{number:02}"),
                    encode_file(
                        FileEntry(f"s3://{number}", number, 1, bytes(32), "sum", (("k", "v"),), "t")
                    ),
                )
                for number in range(12)
            ],
            "files",
        ),
    ]
    (settled,) = Publisher(context, RefName("main")).publish([Wants(*plans)])
    published(settled)


def _move_often(repo: Embedded) -> None:
    """Moves a branch more often than its row remembers, and a commit between."""
    repo.references.create("moving", "main")
    for number in range(19):
        repo.references.assign("moving", "side" if number % 2 else "main")
        if number == 3:
            repo.commits.commit("moving", "m", [Put(key=("db", "m"), content=table(3))])


def _tag(repo: Embedded) -> None:
    """Makes a tag, an annotated tag, and one on the tag object of that."""
    repo.references.create("plain", "main", kind="TAG")
    context = repo._repository.context
    tags = Tags(context)
    head = ObjId(bytes.fromhex(repo.references.get("side").hash))
    first = tags.annotate(head, Annotation("one", (("k", ("v",)),), b"signed"))
    second = tags.annotate(first, Annotation("two"))
    for name, pointer in (("v1", first), ("v2", second)):
        new = NewReferenceRow(RefName(name), "TAG", pointer)
        repo._repository._names.create_many([new], Initiator("me"))


def rows_of(store: MemoryStore) -> list[Row]:
    """Returns every row of a store, in order."""
    return [
        (Partition(place), entry.key, entry.value)
        for place, held in sorted(store._tables.items())
        for entry in (held.rows[key] for key in held.keys)
    ]


def kind_of(row: Row) -> Kind:
    return Kind(row[0][16])


def checked(store: Store, *, history: bool = True, unreferenced: bool = False) -> Report:
    """Checks a store as `lochan check --all` does, an hour after everything was made."""
    later = ports(3_600_000_000)
    options = CheckOptions(decode=TYPES.decode, history=history, unreferenced=unreferenced)
    return check_store(store, later, options)
