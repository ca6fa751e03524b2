"""Random requests on the catalog's service: namespaces, renames, resolved contents, chains of all.

Requests are made as a client would: it reads, and states what it has read. Every write goes through
the lanes of its server. Namespaces are made on several branches, and contents are renamed on
several, so that merges meet both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

import msgspec

from lochan.access.policy import Call
from lochan.base.ids import InstanceId
from lochan.base.keys import Key, table_elements
from lochan.base.names import RefName
from lochan.catalog.merge import read_resolutions
from lochan.catalog.types import NAMESPACE_PAYLOAD, ContentTypes
from lochan.codec.rows import Description
from lochan.kernel.merge_choices import Choices
from lochan.kernel.repository import Ports, create_repository
from lochan.model.commits import CommitMeta, ContentKey, Delete, Operation, Put
from lochan.model.contents import Content, IcebergTable, Namespace
from lochan.model.requests import (
    KeyResolution,
    MergeRequest,
    MoveRequest,
    NewReference,
    RebaseRequest,
    RevertRequest,
    TransplantRequest,
)
from lochan.model.specs import parse_spec
from lochan.service.pending_writes import PendingWrite
from lochan.service.repository import Repository
from lochan.testing.models import catalog as catalog_model
from lochan.testing.models import merges as model
from lochan.testing.models.catalog import CATALOG, Held
from lochan.testing.models.history import History as Plain
from lochan.testing.models.merges import Outcome
from lochan.testing.sim import Server
from tests.service.bench import optional_spec
from tests.sim.kernel_scenarios import parts_of
from tests.sim.mixed_requests import (
    BRANCHES,
    SIDE,
    THIRD,
    DrawnMove,
    Draws,
    Lanes,
    Moved,
    Request,
)

TABLES: list[ContentKey] = [("t",), ("u",), ("v",), ("n", "x")]
NAMESPACES: list[ContentKey] = [("n",), ("m",)]
VALUES = "AB"
TYPES = ContentTypes()
BEHAVIOURS = ("NORMAL", "FORCE", "TAKE_TARGET_ON_CONFLICT", "DROP")

Contents = Mapping[ContentKey, Content]


class App:
    """What one server has in memory."""

    def __init__(self, server: Server) -> None:
        self.context = parts_of(server, server.world.prepared[:2])
        self.repository = Repository(self.context)
        self.lanes = Lanes(self.repository.publisher)

    @staticmethod
    def read_key(raw: bytes) -> ContentKey:
        """Returns a key as the model has it."""
        return table_elements(Key(raw))

    @staticmethod
    def read_value(raw: bytes) -> Held:
        """Returns an element as the model has it."""
        kind = "NAMESPACE" if raw[1] == NAMESPACE_PAYLOAD else "TABLE"
        return Held(raw[34:].hex(), kind, raw[2:34].hex())

    @staticmethod
    def operation_of(hidden: dict[str, tuple[str, ...]]) -> str:
        """Returns by which request a commit was made: each has an author of its own."""
        return hidden.get("initiator", ("",))[0]


def table(value: str, content_id: str | None = None) -> IcebergTable:
    return IcebergTable(
        id=content_id,
        metadata_location=value,
        snapshot_id=1,
        schema_id=1,
        spec_id=1,
        sort_order_id=1,
    )


def set_up(server: Server) -> tuple[InstanceId, Description]:
    """Three branches: one has renamed a table, two have made the same namespace."""
    ports = Ports(server.clock, server.random, server.waiting)
    context = create_repository(server.store, ports, "default")
    repository = Repository(context)

    def publish(asked: PendingWrite[Any]) -> Any:
        (settled,) = repository.publisher(asked.branch).publish([asked.proposal])
        return asked.finish(settled)

    def commit(branch: str, *operations: Operation) -> None:
        head = repository.references.get(Call(), branch).hash
        meta = CommitMeta(message="setup")
        publish(
            repository.commits.commit(
                Call(principal="setup"), branch, parse_spec(head), meta, operations
            )
        )

    commit("main", *[Put(key=key, content=table("A")) for key in TABLES[:2]])
    for name in (SIDE, THIRD):
        new = NewReference(kind="BRANCH", name=name, source=parse_spec("main"))
        publish(repository.references.create(Call(), new))
    found = repository.contents.get(Call(), parse_spec("main"), TABLES[1])[0]
    commit("side", Delete(key=TABLES[1]), Put(key=TABLES[2], content=found))
    for name in (SIDE, THIRD):
        commit(name, Put(key=("n",), content=Namespace(elements=("n",))))
    commit("side", Put(key=("n", "x"), content=table("A")))
    return context.instance, context.description


def model_choices(choices: Choices) -> model.Choices:
    """Turns what the caller wants into values of the model."""

    def held(element: bytes | None, given: bool) -> Held | msgspec.UnsetType | None:
        if not given:
            return msgspec.UNSET
        return None if element is None else App.read_value(element)

    keys = {
        App.read_key(key): model.Choice(
            one.behaviour.value,
            held(one.expected_target, one.has_expected_target),
            held(one.resolved, one.has_resolved),
        )
        for key, one in choices.keys.items()
    }
    return model.Choices(choices.default.value, keys)


class CatalogDraws(Draws):
    """Draws what clients ask for."""

    @property
    def _repository(self) -> Repository:
        repository: Repository = self.server.app.repository
        return repository

    def read(self, branch: RefName) -> tuple[str, Contents]:
        """Reads a branch as a client does; returns the commit and its contents."""
        page = self._repository.contents.entries(Call(), parse_spec(branch), with_content=True)
        assert page.reference is not None
        found = {one.key: one.content for one in page.items if one.content is not None}
        return page.reference.hash, found

    def hashes(self, branch: RefName) -> list[str]:
        """Returns the last commits of a branch, oldest first."""
        page = self._repository.history.log(Call(), parse_spec(branch), 3)
        return [entry.meta.hash or "" for entry in page.items][::-1]

    def expected(self, branch: RefName) -> str | None:
        """Draws what a client expects of a branch: nothing, or one of the last commits."""
        if self.random.random() < 0.7:
            return None
        return self.random.choice(self.hashes(branch))

    def _request(
        self,
        name: str,
        kind: str,
        asked: PendingWrite[Any],
        outcomes: Callable[[Plain, str], list[Outcome]],
    ) -> Request:
        request = Request(name, kind, asked.branch, asked.proposal, outcomes)
        request.finish = asked.finish
        return request

    def commit(self, branch: RefName) -> Request:
        """Changes one key, as of what was read: update, create, delete, rename, namespaces."""
        name = self.name()
        expected, contents = self.read(branch)
        operations = draw_operations(self.random, contents)
        meta = CommitMeta(message=name)
        call = Call(principal=name)
        asked = self._repository.commits.commit(
            call, branch, parse_spec(expected), meta, operations
        )

        def outcomes(plain: Plain, head: str) -> list[Outcome]:
            return [commit_outcome(plain, head, expected, name, operations)]

        return self._request(name, "commit", asked, outcomes)

    def merge(self, branch: RefName, source: RefName | None = None) -> Request:
        """Merges a branch as it is now, perhaps with a word on one key."""
        random, name = self.random, self.name()
        squash = random.random() < 0.65
        view = self._repository.references.get(Call(), source or self.other(branch)).hash
        expected = self.expected(branch)
        default = random.choices(BEHAVIOURS, weights=(8, 3, 2, 1), k=1)[0]
        keys: dict[ContentKey, KeyResolution] = {}
        if random.random() < 0.45:
            _, target = self.read(branch)
            key = random.choice([*TABLES, *NAMESPACES, ("n",)])
            keys[key] = draw_wish(random, target.get(key))
        ask = MergeRequest(
            branch=branch,
            expected=optional_spec(expected),
            source=parse_spec(view),
            meta=CommitMeta(message=name),
            default=default,
            keys=keys,
            squash=squash,
        )
        wanted = model_choices(
            read_resolutions(self.server.app.context, TYPES, default, keys).choices
        )

        def outcomes(plain: Plain, head: str) -> list[Outcome]:
            if expected is not None and not plain.is_on_line(head, expected):
                return [Outcome(invalid="not there")]
            found = model.merge(plain, head, view, wanted, replay=not squash, merge_rules=CATALOG)
            return list(found.values())

        asked = self._repository.merges.merge(Call(principal=name), ask)
        request = self._request(name, "merge" if squash else "replay", asked, outcomes)
        request.source = view
        return request

    def pick(self, branch: RefName, *, transplant: bool) -> Request:
        """A transplant of commits that follow each other, or a pick of any, in any order."""
        random, name = self.random, self.name()
        squash = random.random() < 0.5
        default = random.choices(BEHAVIOURS, weights=(8, 3, 2, 1), k=1)[0]
        if transplant:
            line = self.hashes(self.other(branch))
            start = random.randrange(len(line))
            line = line[start : start + 2]
        else:
            others = [one for one in BRANCHES if one != branch]
            found = list(dict.fromkeys(view for one in others for view in self.hashes(one)))
            line = random.sample(found, random.choice((1, min(2, len(found)))))
        ask = TransplantRequest(
            branch=branch,
            expected=None,
            source="",
            hashes=tuple(map(parse_spec, tuple(line))),
            meta=CommitMeta(message=name),
            default=default,
            squash=squash,
        )

        def outcomes(plain: Plain, head: str) -> list[Outcome]:
            wanted = model.Choices(default)
            return [model.pick(plain, head, line, wanted, squash=squash, merge_rules=CATALOG)]

        merges = self._repository.merges
        make = merges.transplant if transplant else merges.cherry_pick
        kind = f"{'transplant' if transplant else 'pick'}{' squashed' if squash else ''}"
        return self._request(name, kind, make(Call(principal=name), ask), outcomes)

    def revert(self, branch: RefName) -> Request:
        """Undoes one of the last commits of the branch."""
        name, undone = self.name(), self.random.choice(self.hashes(branch))
        ask = RevertRequest(
            branch=branch,
            expected=None,
            hashes=(parse_spec(undone),),
            meta=CommitMeta(message=name),
        )

        def outcomes(plain: Plain, head: str) -> list[Outcome]:
            if not plain.is_on_line(head, undone):
                return [Outcome(invalid="not there")]
            return [model.revert(plain, head, [undone], merge_rules=CATALOG)]

        asked = self._repository.merges.revert(Call(principal=name), ask)
        return self._request(name, "revert", asked, outcomes)

    def any(self, branch: RefName) -> Request:
        """Draws a request of any kind."""
        kinds: list[Callable[[], Request]] = [
            lambda: self.commit(branch),
            lambda: self.merge(branch),
            lambda: self.pick(branch, transplant=True),
            lambda: self.pick(branch, transplant=False),
            lambda: self.revert(branch),
        ]
        return self.random.choices(kinds, weights=(5, 8, 1.5, 2, 1.5), k=1)[0]()

    def move(self, hows: Sequence[str]) -> tuple[DrawnMove, Callable[[], Moved]]:
        """Moves a branch to another one, or onto another one."""
        random, name = self.random, self.name()
        branch, how = self.branch(), random.choice(hows)
        source = self._repository.references.get(Call(), self.other(branch)).hash
        default = random.choices(BEHAVIOURS, weights=(8, 3, 2, 1), k=1)[0]
        request = DrawnMove(name, how, branch, source)
        merges, call = self._repository.merges, Call(principal=name)

        def outcome(plain: Plain, head: str) -> Outcome | None:
            if how == "rebase":
                wanted = model.Choices(default)
                rebased = model.rebase(plain, head, source, wanted, merge_rules=CATALOG)
                return rebased.outcome if rebased.moved else None
            return None if head == source else Outcome()

        def make() -> Moved:
            if how == "rebase":
                done = merges.rebase(
                    call, RebaseRequest(branch=branch, onto=parse_spec(source), default=default)
                )
            else:
                done = merges.force(call, MoveRequest(branch=branch, source=parse_spec(source)))
            return Moved(done.applied, done.hash or "")

        request.model = outcome
        return request, make


def draw_operations(random: Random, contents: Contents) -> list[Operation]:
    """Draws what a commit does with what was read."""
    tables = [key for key, one in contents.items() if isinstance(one, IcebergTable)]
    kind = random.random()
    if tables and kind < 0.35:
        key = random.choice(tables)
        return [Put(key=key, content=table(random.choice(VALUES), contents[key].id))]
    if tables and kind < 0.6:
        old = random.choice(tables)
        free = [key for key in TABLES if key not in contents and key[:1] in ((key), *contents)]
        if free:
            return [Delete(key=old), Put(key=random.choice(free), content=contents[old])]
    if tables and kind < 0.7:
        return [Delete(key=random.choice(tables))]
    if kind < 0.85:
        key = random.choice(NAMESPACES)
        if key in contents:
            return [Delete(key=key)]
        return [Put(key=key, content=Namespace(elements=key))]
    key = random.choice([key for key in TABLES if key not in contents] or TABLES)
    if key in contents:
        return [Delete(key=key)]
    return [Put(key=key, content=table(random.choice(VALUES)))]


def draw_wish(random: Random, target: Content | None) -> KeyResolution:
    """Draws a word on one key: a behaviour, or what is expected there, or that and a resolution."""
    kind = random.random()
    if kind < 0.3:
        return KeyResolution(behaviour=random.choice(BEHAVIOURS))
    expected = target
    if random.random() < 0.4:
        expected = None
        if isinstance(target, IcebergTable):
            expected = table(random.choice(VALUES), target.id)
        elif isinstance(target, Namespace):
            expected = Namespace(id=target.id, elements=target.elements, properties={"old": "1"})
    if kind < 0.6 or expected is None:
        return KeyResolution(expected_target=expected)
    resolved: Content | None = None
    if isinstance(expected, IcebergTable):
        resolved = table("R", expected.id)
    elif isinstance(expected, Namespace):
        resolved = Namespace(id=expected.id, elements=expected.elements, properties={"r": "1"})
    return KeyResolution(expected_target=expected, resolved=resolved)


def held_of(content: Content, content_id: str) -> Held:
    """Returns a content as the model has it."""
    kind = "NAMESPACE" if isinstance(content, Namespace) else "TABLE"
    value, _ = TYPES.encode(content, content_id)
    return Held(content_id.replace("-", ""), kind, value.hex())


def commit_outcome(
    plain: Plain, head: str, expected: str, name: str, operations: Sequence[Operation]
) -> Outcome:
    """What a client's commit must give; contents that are new get the ids that they got."""
    if not plain.is_on_line(head, expected):
        return Outcome(invalid="not there")
    made = _made_by(plain, head, name)
    wanted: list[catalog_model.Operation] = []
    new_ids: dict[ContentKey, str] = {}
    for one in operations:
        if isinstance(one, Put):
            found = made.get(one.key)
            new_id = found.content_id if isinstance(found, Held) else "0" * 32
            content_id = one.content.id
            held = held_of(one.content, content_id or _dashed(new_id))
            new_ids[one.key] = new_id
            given = None if content_id is None else held.content_id
            wanted.append(catalog_model.Put(one.key, held.type, held.value, given))
        else:
            wanted.append(catalog_model.Delete(one.key))
    return catalog_model.commit(plain, head, expected, wanted, new_ids, message=name).outcome


def _made_by(plain: Plain, head: str, name: str) -> Mapping[Any, Any]:
    """Returns what the commit of that name on that head holds, if there is one."""
    for commit in plain.commits.values():
        if commit.message == name and commit.parents[:1] == (head,):
            return commit.content
    return {}


def _dashed(raw: str) -> str:
    return f"{raw[:8]}-{raw[8:12]}-{raw[12:16]}-{raw[16:20]}-{raw[20:]}"
