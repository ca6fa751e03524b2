"""Views: their versions, their one requirement, and the eight updates."""

from __future__ import annotations

import pytest

from lochan.base.errors import Invalid, RequirementFailed
from lochan.catalog.iceberg import (
    apply_view_updates,
    build_view,
    check_view_requirements,
    view_content,
)
from tests.catalog.iceberg.builders import NOW, UUID, Json, column, ids, schema

SCHEMA = schema(column(1, "n"))
WIDER = schema(column(1, "n"), column(2, "m"))


def sql(text="select 1 as n", dialect="spark"):
    return {"type": "sql", "sql": text, "dialect": dialect}


def version(*representations, number=1, **more):
    return {
        "version-id": number,
        "timestamp-ms": NOW + number,
        "schema-id": 0,
        "summary": {},
        "default-namespace": ["shop"],
        "representations": list(representations) or [sql()],
        **more,
    }


def adding(given):
    return {"action": "add-view-version", "view-version": given}


def choosing(number=-1):
    return {"action": "set-current-view-version", "view-version-id": number}


def view(**more) -> Json:
    given = {
        "uuid": UUID,
        "location": "s3://lake/v",
        "schema": SCHEMA,
        "version": version(sql()),
        "properties": {"comment": "ours"},
        "now_ms": NOW,
    }
    return build_view(**(given | more))


def changed(metadata: Json | None, *updates: Json, now_ms: int = NOW + 1_000) -> Json:
    return apply_view_updates(metadata, list(updates), now_ms=now_ms)


def test_a_new_view_has_one_version():
    assert view(version=version(sql(), number=9)) == {
        "view-uuid": UUID,
        "format-version": 1,
        "location": "s3://lake/v",
        "schemas": [{**SCHEMA, "schema-id": 0}],
        "current-version-id": 1,
        "versions": [{**version(sql()), "timestamp-ms": NOW + 9}],
        "version-log": [{"timestamp-ms": NOW + 9, "version-id": 1}],
        "properties": {"comment": "ours"},
    }


def test_a_view_is_created_by_updates_too():
    updates = [
        {"action": "assign-uuid", "uuid": UUID},
        {"action": "upgrade-format-version", "format-version": 1},
        {"action": "set-location", "location": "s3://lake/v"},
        {"action": "set-properties", "updates": {"comment": "ours"}},
        {"action": "add-schema", "schema": SCHEMA},
        adding(version(sql(), **{"schema-id": -1})),
        choosing(),
    ]
    assert changed(None, *updates) == view()
    for number, each in enumerate(updates):
        if each["action"] not in {"upgrade-format-version", "set-properties"}:
            with pytest.raises(Invalid):
                changed(None, *updates[:number], *updates[number + 1 :])


def test_a_replaced_view_has_a_new_version_and_a_log():
    after = changed(
        view(),
        {"action": "add-schema", "schema": WIDER},
        adding(version(sql("2"), **{"schema-id": -1})),
        choosing(),
    )
    assert ids(after, "versions", "version-id") == [1, 2]
    assert ids(after, "schemas", "schema-id") == [0, 1]
    assert (after["current-version-id"], after["versions"][1]["schema-id"]) == (2, 1)
    assert [each["version-id"] for each in after["version-log"]] == [1, 2]
    assert after["version-log"][1]["timestamp-ms"] == NOW + 1


def test_a_version_that_gives_the_same_rows_is_found_again():
    again = version(sql(), number=5, **{"timestamp-ms": NOW + 77, "default-catalog": None})
    assert changed(view(), adding(again), choosing()) == view()
    after = changed(view(), adding(version(sql("2"))), choosing())
    back = changed(after, adding(again), choosing(), now_ms=NOW + 500)
    assert back["current-version-id"] == 1
    # It becomes current now, not when it was written.
    assert back["version-log"][-1] == {"timestamp-ms": NOW + 500, "version-id": 1}


def test_what_was_current_within_a_request_is_not_in_the_log():
    after = changed(
        view(), adding(version(sql("2"))), choosing(), adding(version(sql("3"))), choosing()
    )
    assert ids(after, "versions", "version-id") == [1, 2, 3]
    assert [each["version-id"] for each in after["version-log"]] == [1, 3]


def test_a_dialect_that_readers_need_is_not_lost_unless_it_may_be():
    other = [adding(version(sql("2", "trino"))), choosing()]
    with pytest.raises(Invalid, match="loss of view dialects"):
        changed(view(), *other)
    allowed = view(properties={"replace.drop-dialect.allowed": "true"})
    assert changed(allowed, *other)["current-version-id"] == 2
    both = [adding(version(sql("2", "trino"), sql("2", "SPARK"))), choosing()]
    assert changed(view(), *both)["current-version-id"] == 2


def test_old_versions_are_forgotten_with_the_history_before_them():
    metadata = view(properties={"version.history.num-entries": "2"})
    for number in range(2, 5):
        metadata = changed(metadata, adding(version(sql(str(number)))), choosing())
    assert ids(metadata, "versions", "version-id") == [3, 4]
    assert [each["version-id"] for each in metadata["version-log"]] == [3, 4]


def test_history_has_no_gaps():
    metadata = view(properties={"version.history.num-entries": "2"})
    metadata = changed(metadata, adding(version(sql("2"))), choosing())
    metadata = changed(metadata, choosing(1))
    assert [each["version-id"] for each in metadata["version-log"]] == [1, 2, 1]
    metadata = changed(metadata, adding(version(sql("3"))), choosing())
    assert ids(metadata, "versions", "version-id") == [2, 3]
    assert [each["version-id"] for each in metadata["version-log"]] == [3]


def test_what_a_request_added_and_what_is_current_is_never_forgotten():
    metadata = view(properties={"version.history.num-entries": "1"})
    metadata = changed(metadata, adding(version(sql("2"))), adding(version(sql("3"))))
    assert ids(metadata, "versions", "version-id") == [1, 2, 3]
    metadata = changed(metadata, {"action": "set-location", "location": "s3://b"})
    assert ids(metadata, "versions", "version-id") == [1]


def test_history_has_a_size_above_zero():
    for text in ("0", "-1", "many", ""):
        with pytest.raises(Invalid, match="must be positive"):
            view(properties={"version.history.num-entries": text})


def test_the_other_updates_of_a_view():
    after = changed(
        view(),
        {"action": "assign-uuid", "uuid": UUID.upper()},
        {"action": "upgrade-format-version", "format-version": 1},
        {"action": "set-location", "location": "s3://b"},
        {"action": "set-properties", "updates": {"a": "1"}},
        {"action": "remove-properties", "removals": ["comment", "missing"]},
        {"action": "add-schema", "schema": {**SCHEMA, "schema-id": 44}},
    )
    assert after == {**view(), "location": "s3://b", "properties": {"a": "1"}}


@pytest.mark.parametrize(
    ("update", "sentence"),
    [
        ({"action": "assign-uuid", "uuid": "other"}, "Cannot reassign uuid"),
        ({"action": "upgrade-format-version", "format-version": 0}, "Cannot downgrade"),
        ({"action": "upgrade-format-version", "format-version": 2}, "Unsupported format"),
        ({"action": "add-schema", "schema": schema(column(1, "a", 5))}, "must be a name"),
        ({"action": "set-location"}, "'location' is missing"),
        (adding(version(sql(), **{"schema-id": 7})), "unknown schema: 7"),
        (adding(version(sql(), **{"schema-id": -1})), "none was added"),
        (adding(version(sql(), sql("2", "Spark"))), "multiple queries for dialect spark"),
        (adding(version({"type": "sql", "sql": "1"})), "'dialect' is missing"),
        (adding({**version(sql()), "representations": 5}), "must be a list"),
        (adding({**version(sql()), "summary": {"a": 1}}), "Expected `str`, got `int`"),
        (adding({**version(sql()), "default-namespace": "shop"}), "must be a list, not str"),
        (adding(None), "'view-version' is missing"),
        (choosing(), "none was added"),
        (choosing(9), "unknown version: 9"),
        ({"action": "add-snapshot"}, "there is no update 'add-snapshot' of views"),
    ],
)
def test_an_update_that_cannot_be_is_refused(update, sentence):
    with pytest.raises(Invalid, match=sentence):
        changed(view(), update)


def test_the_one_requirement_of_views():
    check_view_requirements(view(), [{"type": "assert-view-uuid", "uuid": UUID.upper()}])
    with pytest.raises(RequirementFailed, match=r"view UUID does not match: expected 9c12.* != x"):
        check_view_requirements(view(), [{"type": "assert-view-uuid", "uuid": "x"}])
    with pytest.raises(RequirementFailed, match="view does not exist"):
        check_view_requirements(None, [{"type": "assert-view-uuid", "uuid": UUID}])
    for bad in ({"type": "assert-table-uuid", "uuid": UUID}, {"type": "assert-view-uuid"}, {}, 5):
        with pytest.raises(Invalid):
            check_view_requirements(view(), [bad])  # type: ignore[list-item]


@pytest.mark.parametrize(
    "broken",
    [
        {"format-version": 2},
        {"versions": []},
        {"versions": None},
        {"current-version-id": 7},
        {"schemas": []},
        {"view-uuid": None},
        {"location": 5},
        {"version-log": [5]},
        {"properties": {"a": 1}},
    ],
)
def test_metadata_that_no_client_could_read_is_refused(broken):
    with pytest.raises(Invalid):
        changed({**view(), **broken}, {"action": "set-location", "location": "s3://b"})
    with pytest.raises(Invalid):
        view_content({**view(), **broken}, "l", None)


def test_unknown_fields_and_representations_stay():
    before = {**view(), "x-odd": [1]}
    plan = {"type": "substrait", "plan": {"bytes": "AAA="}}
    after = changed(before, adding(version(sql("2"), plan, x=1)), choosing())
    assert after["x-odd"] == [1]
    assert after["versions"][0] == before["versions"][0]
    assert after["versions"][1]["representations"][1] == plan
    assert after["versions"][1]["x"] == 1


def test_the_content_of_a_view_names_what_is_current():
    content = view_content(view(), "s3://lake/v/1.json", "7")
    assert (content.id, content.metadata_location) == ("7", "s3://lake/v/1.json")
    assert (content.version_id, content.schema_id) == (1, 0)
