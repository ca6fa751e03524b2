"""Commits on keys and contents: what is taken, what is refused and in which words."""

from __future__ import annotations

import msgspec
import pytest

from lochan.access.policy import Call
from lochan.base.errors import ContentNotFound, Invalid, KeysConflict, ReferenceNotFound
from lochan.base.limits.requests import COMMIT_OPERATIONS_MAX
from lochan.model.commits import CommitMeta, Committed, Delete, Put, Unchanged
from lochan.model.contents import (
    Content,
    DeltaLakeTable,
    IcebergView,
    Namespace,
    OtherContent,
    UserFunction,
)
from lochan.model.specs import parse_spec
from tests.service.bench import (
    ME,
    Bench,
    conflicts,
    details,
    key,
    new,
    space,
    table,
    where,
    writes,
)

UNKNOWN = "ab" * 32


@pytest.fixture
def bench() -> Bench:
    """Has `ns` with two tables on main."""
    one = Bench()
    one.fill("ns.a", "ns.b")
    return one


def view(name: str, content_id: str | None = None) -> Put:
    content = IcebergView(id=content_id, metadata_location="v", version_id=1, schema_id=1)
    return Put(key=key(name), content=content)


def refused(bench: Bench, *does, **more) -> KeysConflict:
    """Commits what must be refused by conflict and must change nothing."""
    before = bench.head()
    with pytest.raises(KeysConflict) as caught:
        bench.commit(*does, **more)
    assert bench.head() == before
    return caught.value


def test_new_content_gets_an_id_that_the_answer_tells_and_that_stays(bench):
    done = bench.commit(new("ns.c"), space("other"))
    assert done.branch == "main"
    assert done.hash == bench.head()
    assert [one.key for one in done.added] == [("ns", "c"), ("other",)]
    for one in done.added:
        assert bench.contents.get(ME, parse_spec("main"), one.key)[0].id == one.content_id
    changed = bench.change("ns.c", "elsewhere")
    assert changed.added == ()
    content, reference = bench.contents.get(ME, parse_spec("main"), ("ns", "c"))
    assert (where(content), content.id) == ("elsewhere", done.added[0].content_id)
    assert reference.hash == changed.hash


def test_contents_of_every_type_come_back_as_they_were(bench):
    rich = msgspec.structs.replace(table("t"), metadata={"deep": [{"er": 1}], "none": None})
    wanted: dict[tuple[str, ...], Content] = {
        ("ns", "rich"): rich,
        ("ns", "v"): IcebergView(metadata_location="v", version_id=1, schema_id=2, sql_text="s"),
        ("ns", "d"): DeltaLakeTable(
            metadata_location_history=("a", "b"),
            checkpoint_location_history=(),
            last_checkpoint="c",
        ),
        ("ns", "n"): Namespace(elements=("ns", "n"), properties={"owner": "me"}),
        ("ns", "f"): UserFunction(sql_text="select 1", dialect="spark"),
        ("ns", "o"): OtherContent("OURS", None, {"any": {"thing": [1, 2.5, "x", True, None]}}),
    }
    done = bench.commit(*[Put(key=at, content=one) for at, one in wanted.items()])
    ids = {one.key: one.content_id for one in done.added}
    for at, content in wanted.items():
        assert bench.contents.get(ME, parse_spec("main"), at)[0] == msgspec.structs.replace(
            content, id=ids[at]
        )
    types = {
        entry.key: entry.type for entry in bench.contents.entries(ME, parse_spec("main")).items
    }
    assert types["ns", "o"] == "OURS"
    assert types["ns", "f"] == "UDF"


def test_new_content_must_not_bring_an_id(bench):
    with pytest.raises(Invalid, match="must not have a content ID"):
        bench.commit(Put(key=("ns", "c"), content=table("c", "my-own-id")))
    assert "ns.c" not in bench.state()


def test_an_update_without_an_id_is_refused(bench):
    with pytest.raises(Invalid, match="no content ID"):
        bench.commit(new("ns.a", "again"))


def test_who_names_no_commit_must_find_the_key_free(bench):
    refusal = refused(bench, new("ns.a", "again"), expected=None)
    assert conflicts(refusal) == [("KEY_EXISTS", "ns.a")]
    (told,) = details(refusal)
    assert (where(told.source), where(told.target), told.base) == ("again", "ns.a", None)
    assert bench.commit(new("ns.c"), expected=None).added


def test_who_names_no_commit_may_say_what_is_expected_instead(bench):
    content, _ = bench.contents.get(ME, parse_spec("main"), ("ns", "a"))
    after = msgspec.structs.replace(content, metadata_location="second")
    bench.commit(Put(key=("ns", "a"), content=after, expected=content), expected=None)
    assert bench.state()["ns.a"] == "second"
    refusal = refused(bench, Put(key=("ns", "a"), content=after, expected=content), expected=None)
    assert conflicts(refusal) == [("VALUE_DIFFERS", "ns.a")]


def test_an_expected_content_goes_before_the_expected_hash(bench):
    old = bench.head()
    content, _ = bench.contents.get(ME, parse_spec("main"), ("ns", "a"))
    bench.change("ns.a", "second")
    second, _ = bench.contents.get(ME, parse_spec("main"), ("ns", "a"))
    third = msgspec.structs.replace(content, metadata_location="third")
    bench.commit(Put(key=("ns", "a"), content=third, expected=second), expected=old)
    assert bench.state()["ns.a"] == "third"


def test_a_stale_update_of_the_same_table_is_refused_with_all_sides(bench):
    old = bench.head()
    stale = bench.changed("ns.a", "mine")
    bench.change("ns.a", "theirs")
    refusal = refused(bench, stale, expected=old)
    assert conflicts(refusal) == [("VALUE_DIFFERS", "ns.a")]
    (told,) = details(refusal)
    assert [where(one) for one in (told.base, told.source, told.target)] == [
        "ns.a",
        "mine",
        "theirs",
    ]


def test_a_stale_write_of_other_tables_succeeds(bench):
    old = bench.head()
    for number in range(30):
        bench.change("ns.b", f"b{number}")
    done = bench.commit(bench.changed("ns.a", "mine"), expected=old)
    assert bench.state() == {"ns": "", "ns.a": "mine", "ns.b": "b29"}
    assert done.hash == bench.head()


def test_all_conflicts_are_told_together(bench):
    old = bench.head()
    stale = bench.changed("ns.a", "mine")
    bench.change("ns.a", "theirs")
    bench.remove("ns.b")
    bench.commit(new("ns.c"))
    refusal = refused(
        bench, stale, Delete(key=key("ns.b")), new("ns.c"), new("gone.d"), expected=old
    )
    assert sorted(conflicts(refusal)) == [
        ("KEY_DOES_NOT_EXIST", "ns.b"),
        ("KEY_EXISTS", "ns.c"),
        ("NAMESPACE_ABSENT", "gone"),
        ("VALUE_DIFFERS", "ns.a"),
    ]


def test_a_conflict_with_a_commit_of_the_same_chain_is_told_with_its_content(bench):
    old = bench.head()
    asked = [
        bench.commits.commit(
            ME, "main", parse_spec(old), CommitMeta(message=name), [bench.changed("ns.a", name)]
        )
        for name in ("first", "second")
    ]
    first, second = bench.run_together(*asked)
    assert isinstance(first, Committed)
    assert isinstance(second, KeysConflict)
    assert conflicts(second) == [("VALUE_DIFFERS", "ns.a")]
    assert where(details(second)[0].target) == "first"


def test_a_type_that_nobody_registered_is_compared_within_a_chain_too(bench):
    """Such a type is in the value only, which nobody can fetch before it is published."""
    meta = CommitMeta(message="m")
    own = OtherContent("OURS", None, {"n": 1})
    bench.commit(Put(key=("ns", "o"), content=own))
    other, _ = bench.contents.get(ME, parse_spec("main"), ("ns", "o"))
    asked = []
    for number in (2, 3):
        changed = OtherContent("OURS", other.id, {"n": number})
        put = Put(key=("ns", "o"), content=changed, expected=other)
        asked.append(bench.commits.commit(ME, "main", None, meta, [put]))
    wrong = Put(key=("ns", "o"), content=OtherContent("THEIRS", other.id, {}), expected=other)
    asked.append(bench.commits.commit(ME, "main", None, meta, [wrong]))
    first, second, third = bench.run_together(*asked)
    assert isinstance(first, Committed)
    assert isinstance(second, KeysConflict)
    assert conflicts(second) == [("VALUE_DIFFERS", "ns.o")]
    assert isinstance(third, KeysConflict)
    assert conflicts(third) == [("PAYLOAD_DIFFERS", "ns.o")]


def test_ids_of_new_expected_and_present_content_agree(bench):
    content, _ = bench.contents.get(ME, parse_spec("main"), ("ns", "a"))
    with pytest.raises(Invalid, match="must be the same"):
        bench.commit(Put(key=("ns", "a"), content=table("x", "other"), expected=content))
    with pytest.raises(Invalid, match="must be the same"):
        bench.commit(Put(key=("ns", "a"), content=table("x"), expected=content))
    with pytest.raises(Invalid, match="belongs to another content"):
        bench.commit(Put(key=("ns", "a"), content=table("x", "other")))


def test_a_table_that_was_replaced_is_another_content(bench):
    old = bench.head()
    stale = bench.changed("ns.a", "mine")
    bench.remove("ns.a")
    bench.commit(new("ns.a", "new one"))
    assert conflicts(refused(bench, stale, expected=old)) == [("CONTENT_ID_DIFFERS", "ns.a")]


def test_the_type_of_a_content_never_changes(bench):
    content, _ = bench.contents.get(ME, parse_spec("main"), ("ns", "a"))
    assert conflicts(refused(bench, view("ns.a", content.id))) == [("PAYLOAD_DIFFERS", "ns.a")]
    bench.commit(Put(key=("ns", "o"), content=OtherContent("OURS", None, {})))
    other, _ = bench.contents.get(ME, parse_spec("main"), ("ns", "o"))
    changed = Put(key=("ns", "o"), content=OtherContent("THEIRS", other.id, {}))
    assert conflicts(refused(bench, changed)) == [("PAYLOAD_DIFFERS", "ns.o")]
    renamed = [Delete(key=("ns", "a")), view("ns.c", content.id)]
    assert conflicts(refused(bench, *renamed)) == [("PAYLOAD_DIFFERS", "ns.c")]


def test_a_rename_takes_the_content_along(bench):
    content, _ = bench.contents.get(ME, parse_spec("main"), ("ns", "a"))
    done = bench.commit(Delete(key=("ns", "a")), Put(key=("ns", "c"), content=content))
    assert done.added == ()
    assert bench.contents.get(ME, parse_spec("main"), ("ns", "c"))[0] == content
    with pytest.raises(ContentNotFound) as caught:
        bench.contents.get(ME, parse_spec("main"), ("ns", "a"))
    assert caught.value.key == ("ns", "a")


def test_a_rename_may_take_the_place_of_what_the_same_commit_deletes(bench):
    content, _ = bench.contents.get(ME, parse_spec("main"), ("ns", "a"))
    bench.commit(new("ns.c", "in the way"))
    place = Put(key=("ns", "c"), content=content)
    with pytest.raises(Invalid, match="belongs to another content"):
        bench.commit(Delete(key=("ns", "a")), place)
    bench.commit(Delete(key=("ns", "a")), Delete(key=("ns", "c")), place)
    assert bench.contents.get(ME, parse_spec("main"), ("ns", "c"))[0] == content
    assert "ns.a" not in bench.state()


def test_what_takes_a_place_must_come_from_a_key_of_the_same_commit(bench):
    bench.commit(new("ns.c", "in the way"))
    other, _ = bench.contents.get(ME, parse_spec("main"), ("ns", "a"))
    stranger = Put(key=("ns", "c"), content=other)
    with pytest.raises(Invalid, match="must not have a content ID"):
        bench.commit(Delete(key=("ns", "c")), stranger)


@pytest.mark.parametrize("name", ["", "X" * 201])
def test_the_name_of_a_type_has_a_limit(bench, name):
    with pytest.raises(Invalid, match="1 to 200 characters"):
        bench.commit(Put(key=("ns", "o"), content=OtherContent(name, None, {})))


def test_one_content_is_renamed_to_one_key_only(bench):
    content, _ = bench.contents.get(ME, parse_spec("main"), ("ns", "a"))
    with pytest.raises(Invalid, match="content ID"):
        bench.commit(
            Delete(key=("ns", "a")),
            Put(key=("ns", "c"), content=content),
            Put(key=("ns", "d"), content=content),
        )
    assert "ns.c" not in bench.state()


def test_a_rename_of_what_was_changed_since_is_refused(bench):
    old = bench.head()
    content, _ = bench.contents.get(ME, parse_spec("main"), ("ns", "a"))
    bench.change("ns.a", "theirs")
    rename = [Delete(key=("ns", "a")), Put(key=("ns", "c"), content=content)]
    assert conflicts(refused(bench, *rename, expected=old)) == [("VALUE_DIFFERS", "ns.a")]


def test_a_table_made_anew_in_one_commit_is_another_content(bench):
    before, _ = bench.contents.get(ME, parse_spec("main"), ("ns", "a"))
    done = bench.commit(Delete(key=("ns", "a")), new("ns.a", "fresh"))
    after, _ = bench.contents.get(ME, parse_spec("main"), ("ns", "a"))
    assert after.id != before.id
    assert [(one.key, one.content_id) for one in done.added] == [(("ns", "a"), after.id)]


def test_deleting_what_is_not_there_is_told(bench):
    assert conflicts(refused(bench, Delete(key=("ns", "z")))) == [("KEY_DOES_NOT_EXIST", "ns.z")]
    assert conflicts(refused(bench, Delete(key=("ns", "z")), expected=None)) == [
        ("KEY_DOES_NOT_EXIST", "ns.z")
    ]


def test_what_a_commit_relies_on_must_not_have_changed(bench):
    old = bench.head()
    put = bench.changed("ns.a", "mine")
    bench.change("ns.b", "theirs")
    refusal = refused(bench, put, Unchanged(key=("ns", "b")), expected=old)
    assert conflicts(refusal) == [("VALUE_DIFFERS", "ns.b")]
    bench.commit(put, Unchanged(key=("ns", "b")))
    assert bench.state()["ns.a"] == "mine"


def test_a_commit_may_rely_on_a_key_being_absent(bench):
    old = bench.head()
    bench.commit(bench.changed("ns.a", "again"), Unchanged(key=("ns", "z")))
    assert bench.state()["ns.a"] == "again"
    bench.commit(new("ns.x"), Unchanged(key=("ns", "z")), expected=old)
    bench.commit(new("ns.z"))
    refusal = refused(bench, new("ns.y"), Unchanged(key=("ns", "z")), expected=old)
    assert conflicts(refusal) == [("KEY_EXISTS", "ns.z")]


def test_a_key_is_named_once(bench):
    with pytest.raises(Invalid, match="Duplicate"):
        bench.commit(new("ns.c"), new("ns.c"))
    with pytest.raises(Invalid, match="Duplicate"):
        bench.commit(Delete(key=("ns", "a")), Delete(key=("ns", "a")))
    with pytest.raises(Invalid, match="Duplicate"):
        bench.commit(bench.changed("ns.a", "x"), Unchanged(key=("ns", "a")))


def test_every_parent_of_a_new_key_is_a_namespace(bench):
    assert conflicts(refused(bench, new("p.q.t"))) == [
        ("NAMESPACE_ABSENT", "p"),
        ("NAMESPACE_ABSENT", "p.q"),
    ]
    assert conflicts(refused(bench, new("ns.a.t"))) == [("NOT_A_NAMESPACE", "ns.a")]
    bench.commit(new("p.q.t"), space("p.q"), space("p"))
    assert set(bench.state()) >= {"p", "p.q", "p.q.t"}


def test_a_namespace_goes_when_nothing_is_left_in_it(bench):
    assert conflicts(refused(bench, Delete(key=("ns",)))) == [("NAMESPACE_NOT_EMPTY", "ns")]
    assert conflicts(refused(bench, Delete(key=("ns",)), Delete(key=("ns", "a")))) == [
        ("NAMESPACE_NOT_EMPTY", "ns")
    ]
    bench.remove("ns", "ns.a", "ns.b")
    assert bench.state() == {}


def test_a_namespace_does_not_go_while_the_same_commit_puts_something_in_it(bench):
    bench.remove("ns.a", "ns.b")
    assert conflicts(refused(bench, Delete(key=("ns",)), new("ns.c"))) == [
        ("NAMESPACE_ABSENT", "ns"),
        ("NAMESPACE_NOT_EMPTY", "ns"),
    ]


def test_a_namespace_that_holds_something_is_not_replaced_by_a_table(bench):
    replaced = [Delete(key=("ns",)), Put(key=("ns",), content=table("no namespace"))]
    assert conflicts(refused(bench, *replaced)) == [("NAMESPACE_NOT_EMPTY", "ns")]
    bench.remove("ns.a", "ns.b")
    bench.commit(*replaced)
    assert bench.state() == {"ns": "no namespace"}


def test_a_namespace_may_be_made_anew_around_what_it_holds(bench):
    bench.commit(Delete(key=("ns",)), space("ns", owner="me"))
    content, _ = bench.contents.get(ME, parse_spec("main"), ("ns",))
    assert isinstance(content, Namespace)
    assert content.properties == {"owner": "me"}


def test_a_name_that_begins_like_a_namespace_does_not_hold_it(bench):
    bench.commit(space("n"), new("nsx"), new("ns2"))
    bench.remove("n")
    assert "n" not in bench.state()


def test_a_commit_has_a_bounded_number_of_operations(bench):
    for does in ([], [Delete(key=("x",))] * (COMMIT_OPERATIONS_MAX + 1)):
        with pytest.raises(Invalid, match="operations"):
            bench.commits.commit(ME, "main", None, CommitMeta(message="m"), does)


@pytest.mark.parametrize(
    ("expected", "error"),
    [
        (UNKNOWN, ReferenceNotFound),
        ("", Invalid),
        ("~1", Invalid),
        ("main", Invalid),
        ("xyz", Invalid),
    ],
)
def test_an_expected_hash_that_is_none_is_refused(bench, expected, error):
    with pytest.raises(error):
        bench.commit(new("ns.c"), expected=expected)


def test_an_expected_hash_of_another_branch_is_refused(bench):
    bench.branch("side")
    aside = bench.commit(new("ns.s"), branch="side").hash
    with pytest.raises(ReferenceNotFound, match="in reference 'main'"):
        bench.commit(new("ns.c"), expected=aside)


def test_an_expected_hash_may_be_relative_to_a_commit(bench):
    old = bench.head()
    bench.change("ns.b", "theirs")
    bench.commit(bench.changed("ns.a", "mine"), expected=f"{bench.head()}~1")
    assert bench.log()[0].parent != old
    with pytest.raises(KeysConflict):
        bench.commit(bench.changed("ns.b", "mine"), expected=f"{bench.head()}~2")


def test_tags_and_missing_branches_take_no_commits(bench):
    with pytest.raises(ReferenceNotFound):
        bench.commit(new("ns.c"), branch="nowhere", expected=None)
    with pytest.raises(ReferenceNotFound):
        bench.commit(new("ns.c"), branch="int/refs", expected=None)


def test_the_default_branch_has_a_short_name(bench):
    assert bench.commit(new("ns.c"), branch="-", expected=None).branch == "main"
    assert "ns.c" in bench.state("-")


def test_what_is_said_of_a_commit_comes_back(bench):
    done = bench.commit(
        new("ns.c"),
        message="why",
        authors=("a", "b"),
        signed_off_by=("s",),
        author_time_us=5_000_000,
        properties=(("k", ("v", "w")),),
        call=Call(principal="sender"),
    )
    meta = bench.log()[0].meta
    assert (meta.message, meta.authors, meta.signed_off_by) == ("why", ("a", "b"), ("s",))
    assert (meta.author_time_us, meta.committer) == (5_000_000, "sender")
    assert meta.properties == (("k", ("v", "w")),)
    assert meta.commit_time_us == bench.clock.now_us()
    assert meta.hash == done.hash
    with pytest.raises(Invalid, match="once"):
        bench.commit(new("ns.d"), properties=(("k", ("v",)), ("k", ("w",))))


def test_a_refused_commit_writes_nothing(bench):
    other, counts = bench.counted()
    stale = bench.changed("ns.a", "mine")
    old = bench.head()
    bench.change("ns.a", "theirs")
    with pytest.raises(KeysConflict):
        other.commit(stale, expected=old)
    assert writes(counts) == {}


def test_a_commit_on_a_warm_server_is_one_write(bench):
    other, counts = bench.counted()
    done = other.commit(other.changed("ns.a", "one"))
    other.commit(other.changed("ns.a", "two"), expected=done.hash)
    assert writes(counts) == {"apply": 2}
