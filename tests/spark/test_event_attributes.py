"""Every attribute of the seed's table, caused by a pipeline on Spark: a line for each change.

What requests cause directly is in `tests/events/test_face_attributes.py`. An audited write
commits on a branch of its own, tries the merge on a second one, merges, and deletes both.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from lochan.spark.checks import RowCount
from lochan.spark.lake import Lake
from tests.events.test_face_attributes import check_attributes
from tests.spark.test_writing_races import numbers


def written(lake: Lake) -> None:
    lake.write(numbers(lake, 1, 2), "t.n")


def deleted(lake: Lake) -> None:
    lake.delete("t.n", "id = 1")


def audited(lake: Lake) -> None:
    with lake.audited("main", checks=[RowCount("t.n", min=1)]) as audit:
        audit.write(numbers(lake, 3), "t.n")


def dropped(lake: Lake) -> None:
    lake.catalog.drop_table("t.n")


STORED = ["COMMIT", "CONTENT_STORED"]

TABLE: dict[str, tuple[Callable[[Lake], Any], dict[str, list[str]]]] = {
    "write": (written, {"main": STORED}),
    "delete rows": (deleted, {"main": STORED}),
    "drop": (dropped, {"main": ["COMMIT", "CONTENT_REMOVED"]}),
    "audited write": (
        audited,
        {
            "main": ["MERGE", "CONTENT_STORED"],
            "audit": ["REFERENCE_CREATED", *STORED, "REFERENCE_DELETED"],
            "publish": [
                *("REFERENCE_CREATED", "MERGE", "CONTENT_STORED"),
                "REFERENCE_DELETED",
            ],
        },
    ),
}
"""What a pipeline does, and the types on `main` and on branches of its own."""


def read_stream(server: str, token: str = "") -> tuple[str, list[dict[str, Any]]]:
    """Returns the present position, and the events of all references since an earlier one."""
    query = {"reference": "*", "follow": "false", **({"from": token} if token else {})}
    answer = httpx.get(f"{server}/events/v1", params=query, timeout=60)
    assert answer.status_code == 200, answer.text
    fields = [line.partition(": ")[::2] for line in answer.text.splitlines()]
    position = [value for name, value in fields if name == "id"][-1]
    return position, [json.loads(value) for name, value in fields if name == "data"]


def where(event: dict[str, Any]) -> str:
    """Returns the purpose of a reference."""
    name = event["reference"]["name"]
    if name == "main":
        return "main"
    return "publish" if "-publish-" in name else "audit"


@pytest.mark.parametrize("name", TABLE)
def test_every_change_by_a_pipeline_raises_its_events_with_every_attribute(lake, server, name):
    written(lake)
    position, _ = read_stream(server)
    act, expected = TABLE[name]
    act(lake)
    _, found = read_stream(server, position)
    # References have no order among each other.
    for place, types in expected.items():
        assert [event["type"] for event in found if where(event) == place] == types
    assert len(found) == sum(map(len, expected.values()))
    for event in found:
        check_attributes(event, "")
        if event["type"].startswith("CONTENT_"):
            assert event["key"] == {"elements": ["t", "n"]}
            assert event["contentType"] == "ICEBERG_TABLE"
