"""Snapshots, references and the logs: in order, consistent, without invisible entries."""

from __future__ import annotations

import pytest

from lochan.base.errors import Invalid, RequirementFailed
from tests.catalog.iceberg.builders import (
    NOW,
    adding,
    changed,
    grown,
    ids,
    logged,
    pointing,
    snapshot,
    table,
)


def removing(*numbers):
    return {"action": "remove-snapshots", "snapshot-ids": list(numbers)}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_commit_adds_a_snapshot_and_makes_it_current(version):
    after = grown(table(version), 1, 2)
    assert ids(after, "snapshots", "snapshot-id") == [1, 2]
    assert after["current-snapshot-id"] == 2
    assert after["refs"] == {"main": {"type": "branch", "snapshot-id": 2}}
    assert after["snapshot-log"] == [
        {"timestamp-ms": NOW + 1, "snapshot-id": 1},
        {"timestamp-ms": NOW + 2, "snapshot-id": 2},
    ]
    assert after.get("last-sequence-number") == (None if version == 1 else 2)


def test_a_snapshot_alone_changes_nothing_that_is_current():
    after = changed(table(), adding(1))
    assert (after["current-snapshot-id"], after["refs"], after["snapshot-log"]) == (-1, {}, [])
    assert after["last-sequence-number"] == 1


def test_a_snapshot_from_an_older_state_is_a_conflict():
    stale = adding(9, sequence_number=2, **{"parent-snapshot-id": 1})
    with pytest.raises(RequirementFailed, match=r"sequence number 2 older than last .* 2"):
        changed(grown(table(), 1, 2), stale)
    assert ids(changed(grown(table(1), 1, 2), stale), "snapshots", "snapshot-id") == [1, 2, 9]


def test_a_first_snapshot_may_be_old_but_the_count_never_goes_back():
    after = changed(grown(table(), 1, 2), adding(9, sequence_number=1))
    assert after["last-sequence-number"] == 2


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({**snapshot(1)}, "Snapshot already exists for id: 1"),
        ({**snapshot(7), "snapshot-id": None}, "'snapshot-id' is missing"),
        ({**snapshot(7), "snapshot-id": -7}, "must be between"),
        ({**snapshot(7), "snapshot-id": 2**63}, "must be between"),
        ({**snapshot(7), "timestamp-ms": "now"}, "must be a whole number, not str"),
        ({**snapshot(7), "manifest-list": None}, "'manifest-list' is missing"),
        ({**snapshot(7), "summary": {"operation": 5}}, "Expected `str`, got `int`"),
        ({**snapshot(7), "sequence-number": 1.5}, "must be a whole number"),
        ({**snapshot(7), "schema-id": []}, "must be a whole number"),
        ({**snapshot(7), "sequence-number": None}, "'sequence-number' is missing"),
        ({**snapshot(7), "first-row-id": "0"}, "must be a whole number"),
        ({**snapshot(7), "key-id": 5}, "'key-id': Expected `str`"),
    ],
)
def test_a_snapshot_that_is_none_is_refused(given, sentence):
    with pytest.raises(Invalid, match=sentence):
        changed(grown(table(), 1), {"action": "add-snapshot", "snapshot": given})


def test_the_first_format_may_name_its_manifests_itself():
    old = {name: value for name, value in snapshot(1).items() if name != "manifest-list"}
    after = changed(table(1), {"action": "add-snapshot", "snapshot": {**old, "manifests": ["a"]}})
    assert after["snapshots"][0]["manifests"] == ["a"]
    with pytest.raises(Invalid, match="'manifest-list' is missing"):
        changed(table(2), {"action": "add-snapshot", "snapshot": {**old, "manifests": ["a"]}})


def test_fields_of_a_snapshot_without_a_value_are_not_stored_but_unknown_ones_are():
    given = snapshot(1, **{"parent-snapshot-id": None, "key-id": None, "x-odd": None})
    after = changed(table(), {"action": "add-snapshot", "snapshot": given})
    assert after["snapshots"][0] == {**snapshot(1), "x-odd": None}


def test_snapshots_of_one_request_that_nobody_saw_are_not_in_the_log():
    after = changed(
        grown(table(), 1),
        adding(2, **{"parent-snapshot-id": 1}),
        pointing(2),
        adding(3, **{"parent-snapshot-id": 2}),
        pointing(3),
        adding(4, **{"parent-snapshot-id": 3}),
        pointing(4, "side"),
    )
    assert logged(after) == [1, 3]
    assert ids(after, "snapshots", "snapshot-id") == [1, 2, 3, 4]


def test_a_rollback_is_logged_at_the_time_of_the_change():
    after = changed(grown(table(), 1, 2), pointing(1), now_ms=NOW + 500)
    assert after["snapshot-log"][-1] == {"timestamp-ms": NOW + 500, "snapshot-id": 1}
    assert logged(after) == [1, 2, 1]


def test_a_log_never_runs_backwards_further_than_clocks_may_be_apart():
    before = grown(table(), 1)
    early = adding(2, **{"parent-snapshot-id": 1, "timestamp-ms": NOW - 59_000})
    assert logged(changed(before, early, pointing(2))) == [1, 2]
    early["snapshot"]["timestamp-ms"] = NOW - 70_000
    with pytest.raises(Invalid, match="older than the one before"):
        changed(before, early, pointing(2))
    late = adding(2, **{"parent-snapshot-id": 1, "timestamp-ms": NOW + 70_000})
    with pytest.raises(Invalid, match="in the future"):
        changed(before, late, pointing(2), now_ms=NOW)
    assert logged(changed(before, late, pointing(2), now_ms=NOW + 20_000)) == [1, 2]


def test_the_time_of_the_last_change_never_goes_back():
    before = grown(table(), 1)
    after = changed(before, {"action": "set-location", "location": "s3://b"}, now_ms=NOW - 10**6)
    assert after["last-updated-ms"] == before["last-updated-ms"]


def test_removed_snapshots_take_along_what_points_at_them():
    statistics = {"snapshot-id": 1, "statistics-path": "p", "file-size-in-bytes": 1}
    before = changed(
        grown(table(), 1, 2, 3),
        pointing(1, "old", "tag"),
        pointing(3, "new", "tag"),
        {"action": "set-statistics", "statistics": statistics},
        {"action": "set-statistics", "statistics": {**statistics, "snapshot-id": 3}},
        {"action": "set-partition-statistics", "partition-statistics": statistics},
    )
    after = changed(before, removing(1, 2, 77))
    assert ids(after, "snapshots", "snapshot-id") == [3]
    assert sorted(after["refs"]) == ["main", "new"]
    assert logged(after) == [3]
    assert ids(after, "statistics", "snapshot-id") == [3]
    assert after["partition-statistics"] == []
    # Children keep the name of their parent: the history of a table is not rewritten.
    assert after["snapshots"][0]["parent-snapshot-id"] == 2


def test_history_begins_anew_after_a_gap():
    assert logged(changed(grown(table(), 1, 2, 3, 4), removing(3))) == [4]


@pytest.mark.parametrize(("version", "nothing"), [(1, -1), (2, -1), (3, None)])
def test_without_its_current_snapshot_a_table_has_none(version, nothing):
    after = changed(grown(table(version), 1, 2), removing(2))
    assert after["current-snapshot-id"] is nothing or after["current-snapshot-id"] == nothing
    assert (after["refs"], logged(after)) == ({}, [])
    after = changed(
        grown(table(version), 1, 2), {"action": "remove-snapshot-ref", "ref-name": "main"}
    )
    assert (after["current-snapshot-id"] or -1) == -1
    assert (after["refs"], logged(after)) == ({}, [1, 2])


def test_to_remove_what_is_not_there_changes_nothing():
    before = grown(table(), 1)
    after = changed(
        before,
        removing(5),
        removing(),
        {"action": "remove-snapshot-ref", "ref-name": "other"},
        previous_location="s3://lake/t/1.json",
    )
    assert after == before
    assert after is not before


def test_references_keep_how_long_they_live():
    kept = {"min-snapshots-to-keep": 3, "max-snapshot-age-ms": 9, "max-ref-age-ms": 10}
    after = changed(grown(table(), 1), pointing(1, "b", **kept), pointing(1, "t", "TAG"))
    assert after["refs"]["b"] == {"type": "branch", "snapshot-id": 1, **kept}
    assert after["refs"]["t"] == {"type": "tag", "snapshot-id": 1}
    again = changed(after, pointing(1, "b", **kept, x=None))
    assert again == after


@pytest.mark.parametrize(
    ("update", "sentence"),
    [
        (pointing(9), "Cannot set main to unknown snapshot: 9"),
        (pointing(1, "main", "tag"), "it must be a branch"),
        (pointing(1, "b", "leaf"), "must be branch or tag"),
        (pointing(1, ""), "'ref-name' is empty"),
        (pointing(1, "t", "tag", **{"min-snapshots-to-keep": 3}), "Tags do not support"),
        (pointing(1, "b", **{"min-snapshots-to-keep": 0}), "must be between"),
        (pointing(1, "b", **{"max-ref-age-ms": -1}), "must be between"),
        (pointing(1, "b", **{"max-snapshot-age-ms": "1"}), "must be a whole number"),
    ],
)
def test_a_reference_that_cannot_be_is_refused(update, sentence):
    with pytest.raises(Invalid, match=sentence):
        changed(grown(table(), 1), update)


def test_the_log_of_metadata_files_is_kept_short():
    metadata = table(properties={"write.metadata.previous-versions-max": "3"})
    for number in range(1, 6):
        metadata = changed(
            metadata,
            {"action": "set-properties", "updates": {"n": str(number)}},
            now_ms=NOW + number,
            previous_location=f"s3://lake/t/{number}.json",
        )
    assert metadata["metadata-log"] == [
        {"timestamp-ms": NOW + number - 1, "metadata-file": f"s3://lake/t/{number}.json"}
        for number in (3, 4, 5)
    ]


@pytest.mark.parametrize(("text", "kept"), [("0", 1), ("-4", 100), ("many", 100), ("150", 101)])
def test_a_log_has_one_entry_at_least_and_a_hundred_unless_told(text, kept):
    metadata = table(properties={"write.metadata.previous-versions-max": text})
    metadata["metadata-log"] = [{"timestamp-ms": 1, "metadata-file": str(n)} for n in range(100)]
    after = changed(
        metadata, {"action": "set-location", "location": "s3://b"}, previous_location="last"
    )
    assert len(after["metadata-log"]) == kept
    assert after["metadata-log"][-1]["metadata-file"] == "last"


def test_a_log_entry_is_written_only_if_the_place_is_known():
    assert grown(table(), 1)["metadata-log"] == []
