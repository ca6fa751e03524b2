"""The UUID, format, location, properties, statistics and keys of a table."""

from __future__ import annotations

import pytest

from lochan.base.errors import Invalid
from tests.catalog.iceberg.builders import (
    UUID,
    adding,
    changed,
    grown,
    ids,
    pointing,
    snapshot,
    table,
)


def upgrading(version):
    return {"action": "upgrade-format-version", "format-version": version}


def setting(**values):
    return {"action": "set-properties", "updates": values}


def removing(*names):
    return {"action": "remove-properties", "removals": list(names)}


STATISTICS = {
    "snapshot-id": 1,
    "statistics-path": "s3://lake/t/1.puffin",
    "file-size-in-bytes": 10,
    "file-footer-size-in-bytes": 2,
    "blob-metadata": [],
}
KEY = {"key-id": "k", "encrypted-key-metadata": "c2VjcmV0", "encrypted-by-id": "root"}


def test_the_id_of_a_table_is_given_once():
    assert changed(table(), {"action": "assign-uuid", "uuid": UUID.upper()}) == table()
    with pytest.raises(Invalid, match="Cannot reassign uuid"):
        changed(table(), {"action": "assign-uuid", "uuid": "other"})
    old = {name: value for name, value in table(1).items() if name != "table-uuid"}
    assert changed(old, {"action": "assign-uuid", "uuid": "n"})["table-uuid"] == "n"


def test_a_format_goes_up_and_never_down():
    one = grown(table(1), 1)
    two = changed(one, upgrading(2))
    assert (two["format-version"], two["last-sequence-number"]) == (2, 1)
    assert not {"schema", "partition-spec"} & two.keys()
    three = changed(two, upgrading(3))
    assert (three["format-version"], three["next-row-id"]) == (3, 0)
    assert changed(three, upgrading(3)) == three
    assert {**changed(one, upgrading(3)), "last-updated-ms": 0} == {**three, "last-updated-ms": 0}
    for metadata, version in ((three, 2), (two, 1), (three, 1)):
        with pytest.raises(Invalid, match=f"Cannot downgrade v. table to v{version}"):
            changed(metadata, upgrading(version))
    for version in (0, 4, 99):
        with pytest.raises(Invalid, match="unsupported format version"):
            changed(three, upgrading(version))


def test_without_a_snapshot_an_upgrade_writes_so_as_the_format_does():
    assert changed(table(1), upgrading(2))["current-snapshot-id"] == -1
    assert changed(table(1), upgrading(3))["current-snapshot-id"] is None


def test_a_table_without_an_id_cannot_leave_the_first_format():
    old = {name: value for name, value in table(1).items() if name != "table-uuid"}
    with pytest.raises(Invalid, match="UUID is required in format v2"):
        changed(old, upgrading(2))
    changed(old, upgrading(2), {"action": "assign-uuid", "uuid": UUID})


def test_what_the_new_format_asks_for_holds_at_once():
    with pytest.raises(Invalid, match="first-row-id is null"):
        changed(table(2), upgrading(3), adding(1))
    after = changed(table(2), upgrading(3), adding(1, **{"first-row-id": 0, "added-rows": 4}))
    assert after["next-row-id"] == 4


def test_sequence_numbers_that_the_first_format_had_count_after_an_upgrade():
    after = changed(table(1), adding(1, sequence_number=8), upgrading(2))
    assert after["last-sequence-number"] == 8


def test_a_table_moves():
    assert (
        changed(table(), {"action": "set-location", "location": "s3://b"})["location"] == "s3://b"
    )
    same = {"action": "set-location", "location": "s3://lake/t"}
    assert changed(table(), same, previous_location="x") == table()
    for bad in (None, "", 5, ["s3://b"]):
        with pytest.raises(Invalid):
            changed(table(), {"action": "set-location", "location": bad})


def test_properties_are_set_and_removed():
    after = changed(table(), setting(a="1", owner="you"), removing("a", "missing"), setting(b="2"))
    assert after["properties"] == {"owner": "you", "b": "2"}
    assert changed(table(), setting(), removing()) == table()


def test_properties_by_the_names_of_older_clients():
    after = changed(
        table(),
        {"action": "set-properties", "updated": {"a": "1"}},
        {"action": "remove-properties", "removed": ["owner"]},
    )
    assert after["properties"] == {"a": "1"}


@pytest.mark.parametrize(
    "update",
    [
        setting(a=5),
        {"action": "set-properties", "updates": {5: "a"}},
        {"action": "set-properties", "updates": ["a"]},
        {"action": "set-properties"},
        {"action": "remove-properties", "removals": "owner"},
        {"action": "remove-properties", "removals": [5]},
        {"action": "remove-properties"},
    ],
)
def test_properties_are_texts(update):
    with pytest.raises(Invalid):
        changed(table(), update)


@pytest.mark.parametrize("name", ["statistics", "partition-statistics"])
def test_a_snapshot_has_one_file_of_statistics(name):
    before = grown(table(), 1, 2)
    after = changed(
        before,
        {"action": f"set-{name}", name: STATISTICS, "snapshot-id": 1},
        {"action": f"set-{name}", name: {**STATISTICS, "snapshot-id": 2}},
        {"action": f"set-{name}", name: {**STATISTICS, "statistics-path": "new"}},
    )
    assert ids(after, name, "snapshot-id") == [2, 1]
    assert after[name][1]["statistics-path"] == "new"
    gone = changed(after, {"action": f"remove-{name}", "snapshot-id": 1})
    assert ids(gone, name, "snapshot-id") == [2]
    assert changed(gone, {"action": f"remove-{name}", "snapshot-id": 1}) == gone
    for bad in ({}, {"snapshot-id": 1}, {**STATISTICS, "snapshot-id": "1"}, None, 5):
        with pytest.raises(Invalid):
            changed(before, {"action": f"set-{name}", name: bad})
    with pytest.raises(Invalid):
        changed(before, {"action": f"remove-{name}"})


def test_encryption_keys_are_added_once_and_removed():
    adding_key = {"action": "add-encryption-key", "encryption-key": KEY}
    after = changed(table(3), adding_key)
    assert after["encryption-keys"] == [KEY]
    other = {**adding_key, "encryption-key": {**KEY, "encrypted-key-metadata": "b3RoZXI="}}
    assert changed(after, other) == after
    gone = changed(after, {"action": "remove-encryption-key", "key-id": "k"})
    assert gone["encryption-keys"] == []
    assert changed(gone, {"action": "remove-encryption-key", "key-id": "k"}) == gone
    for bad in (None, {}, {"key-id": "k"}, {**KEY, "key-id": 5}, "k"):
        with pytest.raises(Invalid):
            changed(table(3), {**adding_key, "encryption-key": bad})
    with pytest.raises(Invalid):
        changed(after, {"action": "remove-encryption-key"})


@pytest.mark.parametrize(
    "update",
    [{"action": "explode"}, {"action": "add-view-version"}, {"action": None}, {}, "set-location"],
)
def test_an_update_that_nobody_knows_is_refused_before_any_is_applied(update):
    with pytest.raises(Invalid):
        changed(table(), {"action": "set-location", "location": None}, update)


def test_the_word_of_an_update_may_be_written_large():
    assert changed(table(), {"action": "SET-LOCATION", "location": "b"})["location"] == "b"


def test_old_metadata_of_the_first_format_is_completed():
    full = changed(table(1), adding(1), pointing(1))
    later = ["schemas", "current-schema-id", "partition-specs", "default-spec-id", "sort-orders"]
    later += ["default-sort-order-id", "last-partition-id", "refs", "snapshot-log", "statistics"]
    old = {name: value for name, value in full.items() if name not in later}
    old["schema"] = {k: v for k, v in old["schema"].items() if k != "schema-id"}
    old["partition-spec"] = [
        {k: v for k, v in each.items() if k != "field-id"} for each in old["partition-spec"]
    ]
    move = {"action": "set-location", "location": "s3://b"}
    expected = changed(full, move)
    assert changed(old, move) == {**expected, "snapshot-log": []}


def test_unknown_fields_stay_everywhere():
    odd = {"x-odd": {"deep": [1, None, {"er": True}]}}
    before = {**grown(table(), 1), **odd}
    before["snapshots"] = [{**each, **odd} for each in before["snapshots"]]
    before["refs"] = {name: {**each, **odd} for name, each in before["refs"].items()}
    after = changed(
        before,
        {"action": "add-snapshot", "snapshot": snapshot(2, **odd)},
        pointing(2, "b", **odd),
        upgrading(3),
    )
    assert after["x-odd"] == odd["x-odd"]
    assert [each["x-odd"] for each in after["snapshots"]] == [odd["x-odd"]] * 2
    assert [each["x-odd"] for each in after["refs"].values()] == [odd["x-odd"]] * 2
