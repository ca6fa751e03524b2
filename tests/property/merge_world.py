"""A repository in memory with plain-dict copies of its branches, for tests of the merge family."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from lochan.assembly import open_store
from lochan.base.ids import EMPTY_ID, ObjId
from lochan.base.keys import Universe, file_key, table_key
from lochan.base.names import RefName, ref_name
from lochan.codec.elements import encode_file, pack_table
from lochan.index.layers import read_page
from lochan.kernel.build import Head
from lochan.kernel.plan import CommitPlan, Operation
from lochan.kernel.provenance import UNNAMED
from lochan.kernel.publish import Proposal, Published, Publisher
from lochan.kernel.references import NewReferenceRow, ReferenceIndex
from lochan.kernel.repository import Ports, create_repository
from lochan.kernel.views import CommitView
from lochan.model.entries import FileEntry
from lochan.testing.ports import ManualClock, RecordedWaiting, SeededRandom

Content = dict[bytes, bytes]


class Given:
    """A proposal that plans the same operations on every head."""

    incarnation = None

    def __init__(self, operations: Sequence[Operation], message: str) -> None:
        self._plan = CommitPlan(operations, message)

    def plan(self, head: Head) -> Sequence[CommitPlan]:
        return [self._plan]


class MergeWorld:
    """Branches, each with the content it must have."""

    def __init__(self, seed: int) -> None:
        self.pick = Random(seed)
        clock = ManualClock()
        ports = Ports(clock, SeededRandom(seed), RecordedWaiting(clock))
        self.context = create_repository(open_store("memory:"), ports, "default")
        self.names = ReferenceIndex(self.context)
        self.content: dict[str, Content] = {"main": {}}
        self.publishers = {"main": Publisher(self.context, ref_name("main"))}
        self._values = 0

    def branch(self, name: str, source: str) -> None:
        self.names.create_many(
            [NewReferenceRow(ref_name(name), "BRANCH", self.head(source).obj_id)], UNNAMED
        )
        self.content[name] = dict(self.content[source])
        self.publishers[name] = Publisher(self.context, ref_name(name))

    def head(self, name: str) -> CommitView:
        row = self.names.get(RefName(name)).row
        return self.context.views.load(ObjId(row.pointer))

    def edit(self, name: str, keys: Sequence[bytes]) -> Published:
        """Puts or removes keys in one commit."""
        content = self.content[name]
        operations = []
        for key in keys:
            self._values += 1
            gone = key in content and self.pick.random() < 0.3
            element = None if gone else self.element(key, self._values)
            operations.append(Operation(key, element, content.get(key)))
            if element is None:
                del content[key]
            else:
                content[key] = element
        published = self.publish(name, Given(operations, f"edit {self._values}"))
        self.check(name)
        return published

    def put(self, name: str, key: bytes, number: int) -> None:
        """Puts one value."""
        element = self.element(key, number)
        self.publish(name, Given([Operation(key, element)], f"put {number}"))
        self.content[name][key] = element
        self.check(name)

    def element(self, key: bytes, number: int) -> bytes:
        if key[0] == Universe.TABLES:
            return pack_table(1, ObjId(number.to_bytes(32, "big")), bytes(16))
        return encode_file(FileEntry("", number, 1, number.to_bytes(32, "big")))

    def publish(self, name: str, proposal: Proposal) -> Published:
        (settled,) = self.publishers[name].publish([proposal])
        if not isinstance(settled, Published):
            raise settled
        return settled

    def check(self, name: str) -> None:
        """The branch holds exactly what it must."""
        head = self.head(name)
        found: Content = {}
        for universe in Universe:
            found |= dict(read_page(self.context.nodes, head.index(universe), b"", None, 10_000))
        assert found == self.content[name]

    def keys(self, count: int, space: int) -> list[bytes]:
        chosen = self.pick.sample(range(space), count)
        return [
            bytes(table_key(["ns", f"t{n}"]) if n % 3 else file_key(f"lake/{n}")) for n in chosen
        ]


EMPTY = EMPTY_ID
