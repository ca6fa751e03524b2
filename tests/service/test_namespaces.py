"""Namespaces of version 1: explicit and implicit, each write a commit of its own."""

from __future__ import annotations

import pytest

from lochan.access.policy import Call
from lochan.base.errors import (
    Invalid,
    KeysConflict,
    NamespaceExists,
    NamespaceNotEmpty,
    NamespaceNotFound,
    ReferenceNotFound,
    TooLarge,
)
from lochan.base.ids import ObjId
from lochan.base.keys import table_key
from lochan.base.names import RefName
from lochan.codec.elements import pack_table
from lochan.kernel.plan import ANY, CommitPlan, Operation
from lochan.kernel.publish import Published
from lochan.model.commits import Delete, Put
from lochan.model.contents import Namespace
from lochan.model.specs import parse_spec
from lochan.service import namespaces as service_namespaces
from lochan.service.contents import Contents
from tests.service.bench import optional_spec
from tests.service.workbench import CALL, Service, table


def space(*elements: str, **properties: str) -> Namespace:
    return Namespace(elements=elements, properties=properties)


class Spaces(Service):
    """Namespaces on main, run at once."""

    def create(self, *elements: str, call: Call = CALL, expected: str | None = None, **properties):
        made = space(*elements, **properties)
        return self.run(
            self.repository.namespaces.create(call, "main", optional_spec(expected), made)
        )

    def delete(self, *elements: str, call: Call = CALL, expected: str | None = None) -> None:
        self.run(self.repository.namespaces.delete(call, "main", optional_spec(expected), elements))

    def update(self, *elements: str, call: Call = CALL, changes=None, removals=()) -> None:
        lane = self.repository.namespaces.update(
            call, "main", None, elements, changes or {}, set(removals)
        )
        self.run(lane)

    def get(self, *elements: str, spec: str = "main") -> Namespace:
        return self.repository.namespaces.get(CALL, parse_spec(spec), elements)

    def names(self, *prefix: str) -> list[str]:
        return [
            ".".join(one.elements)
            for one in self.repository.namespaces.list(CALL, parse_spec("main"), prefix)
        ]

    def messages(self) -> list[str]:
        return [
            entry.meta.message
            for entry in self.repository.history.log(CALL, parse_spec("main")).items
        ]

    def orphan(self, *elements: str) -> None:
        """Puts a table without its parents, as an import may."""

        class Proposal:
            incarnation = None

            def plan(self, _):
                element = pack_table(1, ObjId(bytes(32)), bytes(16))
                return [CommitPlan([Operation(table_key(elements), element, ANY)], "orphan")]

        (settled,) = self.repository.publisher(RefName("main")).publish([Proposal()])
        assert isinstance(settled, Published)


@pytest.fixture
def spaces() -> Spaces:
    return Spaces()


def test_a_namespace_is_made_with_an_id_and_read_back(spaces):
    made = spaces.create("a", owner="me")
    assert made.id
    assert made.properties == {"owner": "me"}
    assert spaces.get("a") == made
    assert spaces.content(["a"]) == made
    assert spaces.messages() == ["create namespace 'a'"]


def test_the_id_that_a_caller_brings_is_not_taken(spaces):
    brought = Namespace(id="mine", elements=("a",))
    made = spaces.run(spaces.repository.namespaces.create(CALL, "main", None, brought))
    assert made.id not in (None, "mine")


def test_a_taken_name_is_refused_by_whatever_takes_it(spaces):
    spaces.create("a")
    spaces.put("a", "t.x")
    with pytest.raises(NamespaceExists, match=r"^Namespace 'a' already exists$") as caught:
        spaces.create("a")
    assert caught.value.key == ("a",)
    words = "^Another content object with name 'a.t\x1dx' already exists$"
    with pytest.raises(NamespaceExists, match=words):
        spaces.create("a", "t.x")


def test_a_namespace_needs_its_parents(spaces):
    with pytest.raises(KeysConflict, match="amespace 'a' must exist"):
        spaces.create("a", "b")
    assert spaces.names() == []


def test_of_two_that_are_made_at_once_one_wins(spaces):
    create = spaces.repository.namespaces.create
    answers = spaces.run_all(*(create(CALL, "main", None, space("a")) for _ in range(2)))
    assert isinstance(answers[0], Namespace)
    assert isinstance(answers[1], NamespaceExists)
    assert answers[1].message == "Namespace 'a' already exists"


def test_a_table_that_comes_first_is_told_as_another_content(spaces):
    lane = spaces.repository.namespaces.create(CALL, "main", None, space("a"))
    spaces.put("a")
    with pytest.raises(NamespaceExists, match="Another content object with name 'a'"):
        spaces.run(lane)


@pytest.mark.parametrize("call", ["get", "delete", "update", "create"])
def test_a_namespace_without_a_name_is_refused(spaces, call):
    with pytest.raises(Invalid, match="must not be empty"):
        getattr(spaces, call)()


def test_a_missing_namespace_is_told(spaces):
    spaces.put("t")
    for name in ("nobody", "t"):
        for call in (spaces.get, spaces.delete, spaces.update):
            with pytest.raises(NamespaceNotFound) as caught:
                call(name)
            assert caught.value.message == f"Namespace '{name}' does not exist"
            assert caught.value.key == (name,)


def test_an_unknown_branch_is_a_missing_reference(spaces):
    with pytest.raises(ReferenceNotFound):
        spaces.get("a", spec="nowhere")


def test_a_namespace_goes_when_it_is_empty(spaces):
    spaces.create("a")
    spaces.create("a", "b")
    spaces.create("ab")
    with pytest.raises(NamespaceNotEmpty, match=r"^Namespace 'a' is not empty$") as caught:
        spaces.delete("a")
    assert caught.value.key == ("a",)
    spaces.delete("a", "b")
    spaces.delete("a")
    assert spaces.names() == ["ab"]
    assert spaces.messages()[:2] == ["delete namespace 'a'", "delete namespace 'a.b'"]


def test_a_namespace_that_fills_while_it_goes_stays(spaces):
    spaces.create("a")
    lane = spaces.repository.namespaces.delete(CALL, "main", None, ("a",))
    spaces.put("a", "t")
    with pytest.raises(NamespaceNotEmpty):
        spaces.run(lane)
    assert spaces.names() == ["a"]


def test_of_two_that_delete_one_finds_nothing(spaces):
    spaces.create("a")
    delete = spaces.repository.namespaces.delete
    first, second = spaces.run_all(*(delete(CALL, "main", None, ("a",)) for _ in range(2)))
    assert first is None
    assert isinstance(second, NamespaceNotFound)


def test_a_table_that_takes_the_place_of_a_namespace_is_not_deleted(spaces):
    spaces.create("a")
    lane = spaces.repository.namespaces.delete(CALL, "main", None, ("a",))
    spaces.commit(Delete(key=("a",)))
    spaces.put("a")
    with pytest.raises(KeysConflict):
        spaces.run(lane)
    assert spaces.content(["a"]).id


def test_properties_are_changed_and_taken_away(spaces):
    made = spaces.create("a", kept="1", changed="2", gone="3")
    spaces.update("a", changes={"changed": "4", "new": "5"}, removals=["gone", "nobody"])
    found = spaces.get("a")
    assert found.properties == {"kept": "1", "changed": "4", "new": "5"}
    assert found.id == made.id
    assert spaces.messages()[0] == "update properties for namespace 'a'"


def test_a_property_that_is_removed_and_set_is_set(spaces):
    spaces.create("a", x="1")
    spaces.update("a", changes={"x": "2"}, removals=["x"])
    assert spaces.get("a").properties == {"x": "2"}


def test_an_update_does_not_overwrite_one_that_came_first(spaces):
    spaces.create("a")
    lane = spaces.repository.namespaces.update(CALL, "main", None, ("a",), {"x": "mine"}, set())
    spaces.update("a", changes={"y": "theirs"})
    with pytest.raises(KeysConflict):
        spaces.run(lane)
    assert spaces.get("a").properties == {"y": "theirs"}


def test_commits_elsewhere_do_not_disturb_an_update(spaces):
    spaces.create("a")
    lane = spaces.repository.namespaces.update(CALL, "main", None, ("a",), {"x": "1"}, set())
    spaces.put("t")
    spaces.run(lane)
    assert spaces.get("a").properties == {"x": "1"}


def test_what_is_expected_of_an_older_commit_counts(spaces):
    before = spaces.put("t").hash
    spaces.create("a")
    lane = spaces.repository.namespaces.create(CALL, "main", parse_spec(before), space("a"))
    with pytest.raises(NamespaceExists):
        spaces.run(lane)
    with pytest.raises(NamespaceNotFound):
        spaces.delete("a", expected=before)


def test_namespaces_are_listed_below_a_prefix(spaces):
    for name in (("a",), ("a", "b"), ("a", "b", "c"), ("a", "bb"), ("ab",), ("x",)):
        spaces.create(*name)
    spaces.put("a", "b", "c", "t")
    spaces.put("z")
    assert spaces.names() == ["a", "a.b", "a.b.c", "a.bb", "ab", "x"]
    assert spaces.names("a") == ["a", "a.b", "a.b.c", "a.bb"]
    assert spaces.names("a", "b") == ["a.b", "a.b.c"]
    assert spaces.names("a", "b", "c") == ["a.b.c"]
    assert spaces.names("z") == spaces.names("nobody") == []


def test_a_list_is_longer_than_a_page(spaces, monkeypatch):
    right = Contents.entry_pages

    def in_twos(self, call, spec, selection, *rest, **more):
        return right(self, call, spec, selection, *(rest or (2,)), **more)

    monkeypatch.setattr(Contents, "entry_pages", in_twos)
    for name in "abcde":
        spaces.create(name, x=name)
        spaces.put(name, "t")
    listed = spaces.repository.namespaces.list(CALL, parse_spec("main"))
    assert [(one.elements, one.properties) for one in listed] == [
        ((name,), {"x": name}) for name in "abcde"
    ]
    monkeypatch.setattr(service_namespaces, "NAMESPACES_LISTED_MAX", 4)
    with pytest.raises(TooLarge):
        spaces.names()


def test_prefixes_of_keys_are_implicit_namespaces(spaces):
    spaces.orphan("i", "j", "t")
    assert spaces.names() == ["i", "i.j"]
    assert spaces.names("i", "j") == ["i.j"]
    assert spaces.get("i") == Namespace(elements=("i",))
    assert spaces.get("i", "j").id is None
    with pytest.raises(NamespaceNotFound):
        spaces.get("j")
    with pytest.raises(NamespaceExists):
        spaces.create("i")
    with pytest.raises(NamespaceNotEmpty):
        spaces.delete("i")


def test_an_implicit_namespace_becomes_explicit_by_its_properties(spaces):
    spaces.orphan("i", "t")
    spaces.update("i", changes={"x": "1"})
    assert spaces.get("i").id
    assert spaces.get("i").properties == {"x": "1"}
    assert spaces.names() == ["i"]


def test_a_repeated_call_with_its_key_gives_the_same_answer_once(spaces):
    def key(text: str) -> Call:
        return Call("alice", text, text.encode())

    made = spaces.create("a", call=key("1"))
    assert spaces.create("a", call=key("1")) == made
    spaces.create("a", "b", call=key("2"))
    # Implicitly and explicitly taken by now, and still the same answer.
    assert spaces.create("a", call=key("1")).id == made.id
    spaces.update("a", call=key("3"), changes={"x": "1"})
    spaces.update("a", call=key("3"), changes={"x": "1"})
    spaces.delete("a", "b", call=key("4"))
    spaces.delete("a", "b", call=key("4"))
    spaces.delete("a", call=key("5"))
    spaces.put("a")
    spaces.delete("a", call=key("5"))
    assert len(spaces.messages()) == 6
    assert spaces.content(["a"]) is not None


def test_a_key_does_not_make_a_refused_call_succeed(spaces):
    spaces.put("t")
    spaces.orphan("i", "t")
    call = Call("alice", "k", b"d")
    with pytest.raises(NamespaceExists):
        spaces.create("t", call=call)
    with pytest.raises(NamespaceExists):
        spaces.create("i", call=Call("alice", "k1", b"d"))
    for number, name in enumerate(["nobody", "t"]):
        with pytest.raises(NamespaceNotFound):
            spaces.delete(name, call=Call("alice", f"d{number}", b"d"))
        with pytest.raises(NamespaceNotFound):
            spaces.update(name, call=Call("alice", f"u{number}", b"d"), changes={"x": "1"})
    assert len(spaces.messages()) == 2


def test_a_namespace_in_a_put_with_a_table_is_the_same_namespace(spaces):
    spaces.commit(Put(key=("a",), content=space("a", x="1")), Put(key=("a", "t"), content=table()))
    assert spaces.get("a").properties == {"x": "1"}
