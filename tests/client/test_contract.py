"""What every catalog promises, embedded or over HTTP, blocking or awaited: one list."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lochan.base.errors import (
    AlreadyExists,
    ContentNotFound,
    HeadConflict,
    Invalid,
    KeysConflict,
    LochanError,
    NamespaceExists,
    NamespaceNotEmpty,
    NamespaceNotFound,
    ReferenceNotFound,
)
from lochan.base.ids import EMPTY_ID
from lochan.client import NewReference
from lochan.model.commits import CommitMeta, Delete, Put, Unchanged
from lochan.model.contents import (
    Content,
    DeltaLakeTable,
    IcebergTable,
    IcebergView,
    Namespace,
    OtherContent,
    UserFunction,
)
from lochan.model.references import Annotation

ORDERS = ("orders",)
ITEMS = ("items",)


def table(version: int = 1, content_id: str | None = None) -> IcebergTable:
    return IcebergTable(
        id=content_id,
        metadata_location=f"s3://t/{version}",
        snapshot_id=version,
        schema_id=0,
        spec_id=0,
        sort_order_id=0,
    )


def put(catalog: Any, branch: str, key: tuple[str, ...], version: int, **more: Any) -> str:
    """Puts a table, new or changed; returns the hash."""
    there, _ = catalog.contents.get_many(branch, [key])
    content_id = there[0][1].id if there else None
    done = catalog.commits.commit(
        branch, f"{key[-1]} {version}", [Put(key=key, content=table(version, content_id))], **more
    )
    return str(done.hash)


def version_of(catalog: Any, spec: str, key: tuple[str, ...]) -> int | None:
    there, _ = catalog.contents.get_many(spec, [key])
    return there[0][1].snapshot_id if there else None


def conflicts_of(refusal: Any) -> list[Any]:
    """The conflicts of a refused write."""
    return list(refusal.value.details)


def messages(catalog: Any, spec: str) -> list[str]:
    return [entry.meta.message for entry in catalog.history.iterate(spec)]


def test_a_new_repository_has_an_empty_default_branch(catalog):
    config = catalog.config()
    assert config.default_branch == "main"
    assert config.empty_hash == EMPTY_ID.hex()
    assert config.created_us is not None
    main = catalog.references.get()
    assert (main.kind, main.name, main.hash) == ("BRANCH", "main", EMPTY_ID.hex())
    assert list(catalog.history.iterate("main")) == []
    assert list(catalog.contents.iterate("main")) == []


def test_a_commit_is_read_back_whole(catalog):
    meta = CommitMeta(
        message="first\nwith a body",
        authors=("Ada", "Bob"),
        signed_off_by=("Eve",),
        author_time_us=1_600_000_000_000_000,
        properties=(("a", ("1", "2")), ("b", ("3",))),
    )
    done = catalog.commits.commit("main", meta, [Put(key=ORDERS, content=table())])
    assert done.branch == "main"
    assert [added.key for added in done.added] == [ORDERS]
    content, reference = catalog.contents.get("main", ORDERS)
    assert content == table(1, done.added[0].content_id)
    assert (reference.name, reference.hash) == ("main", done.hash)
    (entry,) = catalog.history.log("main", fetch_all=True).items
    stored = entry.meta
    assert (stored.message, stored.authors, stored.signed_off_by) == (
        meta.message,
        meta.authors,
        meta.signed_off_by,
    )
    assert (stored.author_time_us, stored.properties) == (meta.author_time_us, meta.properties)
    assert stored.hash == done.hash
    assert stored.commit_time_us is not None
    assert entry.operations == (Put(key=ORDERS, content=content),)


CONTENTS: list[Content] = [
    table(),
    IcebergView(metadata_location="s3://v", version_id=3, schema_id=4, sql_text="select 1"),
    DeltaLakeTable(
        metadata_location_history=("a", "b"),
        checkpoint_location_history=("c",),
        last_checkpoint="d",
    ),
    Namespace(elements=("it",), properties={"owner": "ada"}),
    UserFunction(metadata_location="s3://u", version_id="1", signature_id="2"),
    OtherContent("SOMETHING_NEW", None, {"anything": [1, {"nested": True}]}),
]


@pytest.mark.parametrize("content", CONTENTS, ids=lambda one: type(one).__name__)
def test_every_type_of_content_is_stored_and_returned(catalog, content):
    done = catalog.commits.commit("main", "it", [Put(key=("it",), content=content)])
    found, _ = catalog.contents.get("main", ("it",))
    assert found == msgspec.structs.replace(content, id=done.added[0].content_id)
    (entry,) = catalog.contents.iterate("main", with_content=True)
    assert entry.content == found


def test_contents_change_and_go(catalog):
    put(catalog, "main", ORDERS, 1)
    before = put(catalog, "main", ORDERS, 2)
    catalog.commits.commit("main", "gone", [Delete(key=ORDERS)])
    with pytest.raises(ContentNotFound) as refusal:
        catalog.contents.get("main", ORDERS)
    assert refusal.value.key == ORDERS
    assert version_of(catalog, before, ORDERS) == 2
    assert version_of(catalog, "main~2", ORDERS) == 1
    assert messages(catalog, "main") == ["gone", "orders 2", "orders 1"]


def test_keys_of_any_text_are_found_again(catalog):
    keys = [
        ("dots.inside", "a/b", "100%"),
        ("back\\slash", "star*", "ü日本"),
        ("blank s", "q?&=#+"),
    ]
    operations = []
    for key in keys:
        for length in range(1, len(key)):
            operations.append(Put(key=key[:length], content=Namespace(elements=key[:length])))
        operations.append(Put(key=key, content=table()))
    catalog.commits.commit("main", "odd", operations)
    for key in keys:
        content, _ = catalog.contents.get("main", key)
        assert content.snapshot_id == 1
        assert [one.key for one in catalog.contents.iterate("main", keys=[key])] == [key]
        assert key in [one.key for one in catalog.contents.iterate("main", prefix=key[:1])]


def test_a_branch_with_a_slash_in_its_name_works_like_any_other(catalog):
    catalog.references.create("feature/one")
    put(catalog, "feature/one", ORDERS, 1)
    assert version_of(catalog, "feature/one", ORDERS) == 1
    assert version_of(catalog, "feature/one~1", ORDERS) is None
    assert len(messages(catalog, "feature/one")) == 1
    assert [one.key for one in catalog.history.iterate_diff("main", "feature/one")] == [ORDERS]
    catalog.references.delete("feature/one")
    with pytest.raises(ReferenceNotFound):
        catalog.references.get("feature/one")


def test_listings_page_by_themselves_and_by_hand(catalog):
    names = [f"t{number:02}" for number in range(25)]
    operations = [Put(key=(name,), content=table()) for name in names]
    catalog.commits.commit("main", "many", operations)
    assert [one.key[0] for one in catalog.contents.iterate("main")] == names
    page = catalog.contents.entries("main", 10)
    assert [one.key[0] for one in page.items] == names[:10]
    put(catalog, "main", ("t00a",), 1)
    rest = catalog.contents.entries("main", 100, page.token)
    assert [one.key[0] for one in rest.items] == names[10:]
    assert rest.token is None
    within = catalog.contents.iterate("main", start=("t03",), end=("t05",))
    assert [one.key[0] for one in within] == ["t03", "t04", "t05"]


def test_a_stale_hash_is_refused_where_it_matters_and_only_there(catalog):
    old = put(catalog, "main", ORDERS, 1)
    put(catalog, "main", ITEMS, 1)
    assert put(catalog, "main", ORDERS, 2, expected=old)
    content_id = catalog.contents.get("main", ORDERS)[0].id
    stale = [Put(key=ORDERS, content=table(3, content_id))]
    with pytest.raises(KeysConflict) as refusal:
        catalog.commits.commit("main", "stale", stale, expected=old)
    (conflict,) = conflicts_of(refusal)
    assert conflict.kind == "VALUE_DIFFERS"
    assert conflict.key == ORDERS
    assert version_of(catalog, "main", ORDERS) == 2
    with pytest.raises(KeysConflict):
        catalog.commits.commit("main", "relies", [Unchanged(key=ORDERS)], expected=old)


def test_all_conflicts_are_reported_at_once(catalog):
    put(catalog, "main", ORDERS, 1)
    with pytest.raises(KeysConflict) as refusal:
        catalog.commits.commit(
            "main",
            "no",
            [
                Put(key=ORDERS, content=table()),
                Delete(key=ITEMS),
                Put(key=("a", "b"), content=table()),
            ],
            expected=EMPTY_ID.hex(),
        )
    kinds = {conflict.key: conflict.kind for conflict in conflicts_of(refusal)}
    assert kinds[ORDERS] == "KEY_EXISTS"
    assert kinds[ITEMS] == "KEY_DOES_NOT_EXIST"
    assert "NAMESPACE_ABSENT" in kinds.values()
    assert len(messages(catalog, "main")) == 1


def test_references_are_made_listed_moved_and_deleted(catalog):
    first = put(catalog, "main", ORDERS, 1)
    second = put(catalog, "main", ORDERS, 2)
    dev = catalog.references.create("dev", "main~1")
    assert (dev.kind, dev.hash) == ("BRANCH", first)
    tag = catalog.references.create(
        "v1", kind="TAG", annotation=Annotation(message="done", properties=(("by", ("ada",)),))
    )
    assert (tag.kind, tag.hash) == ("TAG", second)
    assert catalog.references.get("v1").annotation.message == "done"
    assert [one.name for one in catalog.references.iterate()] == ["dev", "main", "v1"]
    assert [one.name for one in catalog.references.iterate(prefix="d")] == ["dev"]
    assert [one.name for one in catalog.references.list(1, prefix="v").items] == ["v1"]
    assert catalog.references.list(1, prefix="nothing").items == ()
    with pytest.raises(AlreadyExists):
        catalog.references.create("dev")
    assert catalog.references.assign("dev", "main").hash == second
    with pytest.raises(HeadConflict):
        catalog.references.assign("dev", "main~1", expected=first)
    with pytest.raises(HeadConflict):
        catalog.references.delete("dev", expected=first)
    with pytest.raises(LochanError):
        catalog.references.delete("dev", kind="TAG")
    assert catalog.references.delete("dev").name == "dev"
    with pytest.raises(Invalid):
        catalog.references.delete("main")
    page = catalog.references.list(1)
    assert [one.name for one in page.items] == ["main"]
    assert [one.name for one in catalog.references.list(5, page.token).items] == ["v1"]


def test_many_references_are_made_together_or_not_at_all(catalog):
    put(catalog, "main", ORDERS, 1)
    many = [NewReference(name=f"b{number}") for number in range(5)]
    many.append(NewReference(name="bare", source=None))
    many.append(NewReference(name="t", kind="TAG"))
    created = catalog.references.create_many(many)
    assert [one.name for one in created] == ["b0", "b1", "b2", "b3", "b4", "bare", "t"]
    assert catalog.references.get("bare").hash == EMPTY_ID.hex()
    with pytest.raises(AlreadyExists):
        catalog.references.create_many([NewReference(name="new"), NewReference(name="b3")])
    with pytest.raises(ReferenceNotFound):
        catalog.references.get("new")


def test_a_branch_may_expire_and_a_bare_one_holds_nothing(catalog):
    put(catalog, "main", ORDERS, 1)
    later_us = 4_000_000_000_000_000
    assert catalog.references.create("short", expires_us=later_us).expires_us == later_us
    assert catalog.references.get("short").expires_us == later_us
    bare = catalog.references.create("bare", None)
    assert bare.hash == EMPTY_ID.hex()


def test_metadata_has_distances(catalog):
    put(catalog, "main", ORDERS, 1)
    catalog.references.create("dev")
    put(catalog, "dev", ITEMS, 1)
    put(catalog, "dev", ITEMS, 2)
    put(catalog, "main", ORDERS, 2)
    known = catalog.references.get("dev", fetch_all=True).metadata
    assert (known.ahead, known.behind, known.total) == (2, 1, 3)
    assert known.head.message == "items 2"


def test_the_ref_log_lists_all_heads_of_a_branch(catalog):
    catalog.references.create("dev")
    first = put(catalog, "dev", ORDERS, 1)
    catalog.references.assign("dev", "main")
    moves = list(catalog.references.iterate_log("dev"))
    assert [move.kind for move in moves] == ["assign", "commit", "create"]
    assert (moves[0].old, moves[0].new) == (first, EMPTY_ID.hex())
    page = catalog.references.log("dev", 1)
    assert [move.kind for move in page.items] == ["assign"]
    assert [move.kind for move in catalog.references.log("dev", 1, page.token).items] == ["commit"]


def test_recent_changes_list_the_recent_heads_of_a_branch(catalog):
    first = put(catalog, "main", ORDERS, 1)
    second = put(catalog, "main", ORDERS, 2)
    found = catalog.references.recent_changes("main", scan_commits=True)
    assert found.reference.name == "main"
    assert (found.current.hash, found.current.consistent) == (second, True)
    assert first in [one.hash for one in found.previous]


def test_differences_show_both_sides(catalog):
    put(catalog, "main", ORDERS, 1)
    put(catalog, "main", ITEMS, 1)
    catalog.references.create("dev")
    put(catalog, "dev", ORDERS, 2)
    put(catalog, "dev", ("new",), 1)
    catalog.commits.commit("dev", "gone", [Delete(key=ITEMS)])
    found = {
        one.key: (one.left and one.left.snapshot_id, one.right and one.right.snapshot_id)
        for one in catalog.history.iterate_diff("main", "dev")
    }
    assert found == {ITEMS: (1, None), ("new",): (None, 1), ORDERS: (1, 2)}
    page = catalog.history.diff("main", "dev", 2)
    assert len(page.items) == 2
    assert (page.reference.name, page.other.name) == ("main", "dev")
    assert len(catalog.history.diff("main", "dev", 2, page.token).items) == 1
    assert list(catalog.history.iterate_diff("main", "main")) == []


def test_logs_page_stop_and_filter(catalog):
    hashes = [put(catalog, "main", ORDERS, number) for number in range(1, 8)]
    page = catalog.history.log("main", 3)
    assert [one.meta.hash for one in page.items] == hashes[:3:-1]
    again = catalog.history.log("main", 3, page.token)
    assert [one.meta.hash for one in again.items] == hashes[3:0:-1]
    until = catalog.history.iterate("main", limit_hash=hashes[4])
    assert [one.meta.hash for one in until] == hashes[:3:-1]
    filtered = catalog.history.iterate("main", filter="commit.message == 'orders 4'")
    assert [one.meta.message for one in filtered] == ["orders 4"]
    assert [one.parent for one in catalog.history.log(hashes[0]).items] == [EMPTY_ID.hex()]


def test_namespaces_are_made_changed_listed_and_deleted(catalog):
    created = catalog.namespaces.create("main", ("a",), {"owner": "ada"})
    assert (created.elements, created.properties) == (("a",), {"owner": "ada"})
    catalog.namespaces.create("main", ("a", "b"))
    assert [one.elements for one in catalog.namespaces.list("main")] == [("a",), ("a", "b")]
    assert [one.elements for one in catalog.namespaces.list("main", ("a", "b"))] == [("a", "b")]
    catalog.namespaces.update("main", ("a",), {"colour": "red"}, ["owner"])
    assert catalog.namespaces.get("main", ("a",)).properties == {"colour": "red"}
    with pytest.raises(NamespaceExists):
        catalog.namespaces.create("main", ("a",))
    with pytest.raises(NamespaceNotEmpty):
        catalog.namespaces.delete("main", ("a",))
    catalog.namespaces.delete("main", ("a", "b"))
    with pytest.raises(NamespaceNotFound):
        catalog.namespaces.get("main", ("a", "b"))


def test_settings_are_kept(catalog):
    assert catalog.settings.get() == []
    rules = {"type": "GARBAGE_COLLECTOR", "defaultCutoffPolicy": "P30D"}
    assert catalog.settings.update(rules) is None
    (kept,) = catalog.settings.get(["GARBAGE_COLLECTOR"])
    assert kept["defaultCutoffPolicy"] == "P30D"
    previous = catalog.settings.update(rules | {"defaultCutoffPolicy": "P7D"})
    assert previous["defaultCutoffPolicy"] == "P30D"


REFUSED = [
    (ReferenceNotFound, lambda catalog: catalog.references.get("nowhere")),
    (ReferenceNotFound, lambda catalog: catalog.contents.get("nowhere", ORDERS)),
    (ReferenceNotFound, lambda catalog: catalog.contents.get("main@" + "ab" * 32, ORDERS)),
    (ReferenceNotFound, lambda catalog: put(catalog, "nowhere", ORDERS, 1)),
    (ReferenceNotFound, lambda catalog: catalog.references.create("b", "nowhere")),
    (ReferenceNotFound, lambda catalog: catalog.merges.merge("main", "nowhere")),
    (Invalid, lambda catalog: catalog.references.get("main~1")),
    (Invalid, lambda catalog: catalog.references.get("main@" + "ab" * 32)),
    (Invalid, lambda catalog: catalog.references.create("no..name")),
    (Invalid, lambda catalog: catalog.references.create("HEAD")),
    (Invalid, lambda catalog: catalog.commits.commit("main", "nothing", [])),
    (Invalid, lambda catalog: catalog.contents.entries("main", 10, "not a token")),
    (Invalid, lambda catalog: list(catalog.history.iterate("main", filter="no ( filter"))),
    (Invalid, lambda catalog: catalog.merges.merge("main", "main", default="SIDEWAYS")),
    (Invalid, lambda catalog: catalog.settings.update({"type": "NO_SUCH_TYPE"})),
    (Invalid, lambda catalog: catalog.contents.get("main", ("a\x01b",))),
]


@pytest.mark.parametrize(("expected", "act"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_wrong_is_refused_with_the_same_error_everywhere(catalog, expected, act):
    put(catalog, "main", ("there",), 1)
    before = catalog.references.get("main").hash
    with pytest.raises(expected) as refusal:
        act(catalog)
    assert refusal.value.message
    assert catalog.references.get("main").hash == before


def test_commits_go_to_branches_only(catalog):
    put(catalog, "main", ORDERS, 1)
    catalog.references.create("v1", kind="TAG")
    with pytest.raises(Invalid):
        put(catalog, "v1", ITEMS, 1)


@pytest.mark.parametrize("name", ["a/./b", "a/..", "a//b"])
def test_a_name_that_no_address_can_hold_is_refused(catalog, name):
    with pytest.raises(Invalid, match="name"):
        catalog.references.create(name)
    with pytest.raises(Invalid, match="name"):
        catalog.references.create_many([NewReference(name=name)])
    assert [each.name for each in catalog.references.list().items] == ["main"]


def test_numbers_and_times_out_of_range_are_refused_by_name(catalog):
    put(catalog, "main", ORDERS, 1)
    for changed in ({"snapshot_id": 2**63}, {"schema_id": 2**31}, {"spec_id": -(2**40)}):
        content = msgspec.structs.replace(table(), **changed)
        with pytest.raises(Invalid, match="Id"):
            catalog.commits.commit("main", "m", [Put(key=ITEMS, content=content)])
    meta = CommitMeta(message="m", author_time_us=10**18)
    with pytest.raises(Invalid, match="authorTime"):
        catalog.commits.commit("main", meta, [Put(key=ITEMS, content=table())])
    with pytest.raises(Invalid, match="expiresAt"):
        catalog.references.create("dev", expires_us=10**18)


def test_a_commit_may_rely_on_a_key_being_absent(catalog):
    put(catalog, "main", ORDERS, 1)
    old = catalog.references.get("main").hash
    catalog.commits.commit(
        "main", "m", [Put(key=ITEMS, content=table()), Unchanged(key=("more",))], expected=old
    )
    put(catalog, "main", ("more",), 1)
    with pytest.raises(KeysConflict):
        catalog.commits.commit(
            "main", "m", [Put(key=("x",), content=table()), Unchanged(key=("more",))], expected=old
        )
