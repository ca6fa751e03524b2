"""The eight strict validations of a commit, each in the seed's words, refused and allowed.

What a put expects is the content that was sent as expected, else what the key held at the expected
hash. Whatever is refused leaves the branch and the store as they were.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from lochan.base.errors import Invalid, KeysConflict, LochanError
from lochan.kv.observe import ObservedStore
from lochan.model.commits import CommitMeta, Delete, Operation, Put
from lochan.model.contents import (
    Content,
    DeltaLakeTable,
    IcebergView,
    Namespace,
    OtherContent,
    UserFunction,
    with_id,
)
from lochan.model.results import ContentConflict
from lochan.model.specs import parse_spec
from lochan.testing.call_counts import CallCounts
from lochan.testing.ports import ManualClock
from tests.service.workbench import CALL, Service, table

KEY = ("ns", "t")
STRANGER = "11111111-2222-3333-4444-555555555555"
WRITES = {"add_many", "put_many", "set_if", "delete", "delete_if", "apply"}

OTHERS: Sequence[Content] = [
    IcebergView(metadata_location="v", version_id=1, schema_id=1),
    DeltaLakeTable(metadata_location_history=("a",), checkpoint_location_history=()),
    Namespace(elements=KEY),
    UserFunction(sql_text="select 1"),
    OtherContent("HUDI", None, {"path": "p"}),
]


class Catalog:
    """A repository that holds one table under KEY; the commit before and after it was put."""

    def __init__(self) -> None:
        self.service = Service()
        self.before = self.service.space("ns").hash
        self.after = self.service.put(*KEY).hash

    @property
    def present(self) -> Content:
        return self.service.content(KEY)

    def change(self, snapshot: int = 2) -> Content:
        """Changes the table and returns what it was."""
        was = self.present
        self.service.commit(put(table(snapshot=snapshot, content_id=was.id), expected=was))
        return was

    def commit(self, *operations: Operation, expected: str | None = None) -> Content:
        """Commits what must be taken, and returns what the key holds then."""
        self.service.commit(*operations, expected=expected)
        return self.present

    def refuse(self, *operations: Operation, expected: str | None = None) -> LochanError:
        """Commits what must be refused, and checks that nothing was written."""
        counts = CallCounts()
        server = self.service.again(ObservedStore(self.service.store, counts, ManualClock()))
        head = server.repository.references.get(CALL, "main")
        with pytest.raises((Invalid, KeysConflict)) as caught:
            server.commit(*operations, expected=expected)
        assert server.repository.references.get(CALL, "main") == head
        assert not WRITES & {name for name, count in counts.calls.items() if count}
        return caught.value

    def conflict(self, *operations: Operation, expected: str | None = None) -> list[str]:
        """The kinds of conflicts that a commit is refused by."""
        error = self.refuse(*operations, expected=expected)
        assert isinstance(error, KeysConflict), error
        assert all(isinstance(one, ContentConflict) for one in error.details)
        return [one.kind for one in error.details if isinstance(one, ContentConflict)]

    def invalid(self, *operations: Operation, expected: str | None = None) -> str:
        error = self.refuse(*operations, expected=expected)
        assert isinstance(error, Invalid), error
        return error.message


def put(content: Content, key=KEY, expected: Content | None = None) -> Put:
    return Put(key=key, content=content, expected=expected)


@pytest.fixture
def catalog() -> Catalog:
    return Catalog()


def test_new_content_must_not_bring_a_content_id(catalog):
    new = put(table(content_id=STRANGER), ("ns", "new"))
    for expected in (None, catalog.after):
        assert "must not have a content ID" in catalog.invalid(new, expected=expected)


def test_new_content_without_a_content_id_gets_one(catalog):
    for name, expected in (("a", None), ("b", catalog.after)):
        catalog.commit(put(table(), ("ns", name)), expected=expected)
        assert catalog.service.content(("ns", name)).id not in (None, catalog.present.id)


def test_a_content_id_moves_along_with_a_rename_but_not_with_a_copy(catalog):
    was = catalog.present
    moved = put(was, ("ns", "moved"))
    assert "must not have a content ID" in catalog.invalid(moved, expected=catalog.after)
    catalog.service.commit(Delete(key=KEY), moved, expected=catalog.after)
    assert catalog.service.content(("ns", "moved")) == was


def test_new_content_must_not_use_an_existing_key(catalog):
    new = put(table(snapshot=9))
    assert "has no content ID" in catalog.invalid(new, expected=catalog.after)
    assert catalog.conflict(new, expected=catalog.before) == ["KEY_EXISTS"]
    assert catalog.conflict(new) == ["KEY_EXISTS"]


def test_new_content_may_use_a_key_that_the_same_commit_frees(catalog):
    was = catalog.present
    now = catalog.commit(Delete(key=KEY), put(table(snapshot=9)), expected=catalog.after)
    assert now.id not in (None, was.id)
    assert with_id(now, "") == with_id(table(snapshot=9), "")


def test_existing_content_must_come_with_what_is_expected(catalog):
    changed = put(table(snapshot=2, content_id=catalog.present.id))
    assert catalog.conflict(changed) == ["KEY_EXISTS"]


def test_existing_content_is_expected_by_content_or_by_hash(catalog):
    was = catalog.present
    second = table(snapshot=2, content_id=was.id)
    assert catalog.commit(put(second, expected=was)) == second
    third = table(snapshot=3, content_id=was.id)
    head = catalog.service.repository.references.get(CALL, "main").hash
    assert catalog.commit(put(third), expected=head) == third


def test_what_is_expected_goes_before_the_expected_hash(catalog):
    first = catalog.change()
    second = catalog.present
    third = table(snapshot=3, content_id=first.id)
    # At the expected hash the key held `first`; what was sent says `second`, and that is there.
    assert catalog.commit(put(third, expected=second), expected=catalog.after) == third


def test_the_new_values_content_id_must_be_that_of_the_existing_content(catalog):
    stranger = put(table(snapshot=2, content_id=STRANGER))
    for expected in (catalog.after, None):
        assert STRANGER in catalog.invalid(stranger, expected=expected)


def test_the_expected_contents_id_must_be_that_of_the_existing_content(catalog):
    was = catalog.present
    changed = table(snapshot=2, content_id=was.id)
    for other in (with_id(was, STRANGER), msgspec.structs.replace(was, id=None)):
        for expected in (catalog.after, None):
            words = catalog.invalid(put(changed, expected=other), expected=expected)
            assert "ids for new and expected content" in words
    both = put(with_id(changed, STRANGER), expected=with_id(was, STRANGER))
    assert STRANGER in catalog.invalid(both, expected=catalog.after)


def test_the_expected_content_must_match_the_existing_content(catalog):
    was = catalog.change()
    third = table(snapshot=3, content_id=was.id)
    for expected in (None, catalog.after):
        assert catalog.conflict(put(third, expected=was), expected=expected) == ["VALUE_DIFFERS"]
    # By hash alone the same: the key has changed since.
    assert catalog.conflict(put(third), expected=catalog.after) == ["VALUE_DIFFERS"]


def test_an_expected_content_that_is_gone_is_told(catalog):
    was = catalog.present
    catalog.service.commit(Delete(key=KEY), expected=catalog.after)
    changed = put(table(snapshot=2, content_id=was.id), expected=was)
    assert catalog.conflict(changed) == ["KEY_DOES_NOT_EXIST"]
    again = put(table(snapshot=2, content_id=was.id))
    assert catalog.conflict(again, expected=catalog.after) == ["KEY_DOES_NOT_EXIST"]


def test_changes_of_other_keys_do_not_matter(catalog):
    was = catalog.present
    catalog.service.put("ns", "other")
    changed = table(snapshot=2, content_id=was.id)
    assert catalog.commit(put(changed), expected=catalog.after) == changed


@pytest.mark.parametrize("other", OTHERS, ids=lambda one: type(one).__name__)
def test_the_payload_of_existing_content_never_changes(catalog, other):
    was = catalog.present
    changed = with_id(other, was.id or "")
    assert "PAYLOAD_DIFFERS" in catalog.conflict(put(changed), expected=catalog.after)
    assert "PAYLOAD_DIFFERS" in catalog.conflict(put(changed, expected=was))
    assert catalog.present == was


def test_unknown_types_do_not_change_into_each_other_either(catalog):
    catalog.service.commit(put(OtherContent("HUDI", None, {"path": "p"}), ("h",)))
    head = catalog.service.repository.references.get(CALL, "main").hash
    was = catalog.service.content(("h",))
    paimon = put(OtherContent("PAIMON", was.id, {"path": "p"}), ("h",))
    assert "PAYLOAD_DIFFERS" in catalog.conflict(paimon, expected=head)
    catalog.service.commit(put(OtherContent("HUDI", was.id, {"path": "q"}), ("h",)), expected=head)


def test_a_rename_does_not_change_the_payload(catalog):
    view = with_id(OTHERS[0], catalog.present.id or "")
    kinds = catalog.conflict(Delete(key=KEY), put(view, ("ns", "v")), expected=catalog.after)
    assert kinds == ["PAYLOAD_DIFFERS"]


@pytest.mark.parametrize("other", OTHERS, ids=lambda one: type(one).__name__)
def test_another_payload_may_take_the_place_of_what_the_same_commit_deletes(catalog, other):
    was = catalog.present
    now = catalog.commit(Delete(key=KEY), put(other), expected=catalog.after)
    assert type(now) is type(other)
    assert now.id not in (None, was.id)


def test_the_content_id_of_existing_content_never_changes(catalog):
    was = catalog.present
    catalog.service.commit(Delete(key=KEY), put(table(snapshot=5)), expected=catalog.after)
    now = catalog.present
    head = catalog.service.repository.references.get(CALL, "main").hash
    assert was.id != now.id
    # The id that the key had once is not the id of what is there now.
    stale = put(table(snapshot=6, content_id=was.id))
    assert "belongs to another content" in catalog.invalid(stale, expected=head)
    # Known to the writer only as it was: what is there is another content.
    assert catalog.conflict(stale, expected=catalog.after) == ["CONTENT_ID_DIFFERS"]


def test_everything_that_stands_against_a_commit_is_told_at_once(catalog):
    was = catalog.change()
    catalog.service.put("ns", "u")
    kinds = catalog.conflict(
        put(table(snapshot=3, content_id=was.id)),
        put(table(), ("ns", "u")),
        put(table(), ("nowhere", "deep", "t")),
        Delete(key=("ns", "nobody")),
        expected=catalog.after,
    )
    assert sorted(kinds) == sorted(
        ["VALUE_DIFFERS", "KEY_EXISTS", "KEY_DOES_NOT_EXIST"] + 2 * ["NAMESPACE_ABSENT"]
    )


def test_the_same_rules_hold_between_members_of_one_chain(catalog):
    was = catalog.present
    commits = catalog.service.repository.commits
    meta = CommitMeta(message="m")
    lanes = [
        commits.commit(
            CALL,
            "main",
            parse_spec(catalog.after),
            meta,
            [put(table(snapshot=number, content_id=was.id))],
        )
        for number in (2, 3)
    ]
    first, second = catalog.service.run_all(*lanes)
    assert not isinstance(first, LochanError)
    assert isinstance(second, KeysConflict)
    assert catalog.present == table(snapshot=2, content_id=was.id)
