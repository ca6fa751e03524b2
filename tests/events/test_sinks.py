"""The shipped subscribers, found by entry points."""

from __future__ import annotations

import json
import logging

import pytest

from lochan.assembly.events import EventRunner
from lochan.assembly.subscribers import read_subscribers
from lochan.base.errors import Invalid
from lochan.embedded import open_repository
from lochan.model.commits import Put
from lochan.sinks.lines import JsonLinesSubscriber, LogSubscriber, open_json_lines, open_log
from tests.service.bench import table


def test_json_lines_contain_every_event(tmp_path):
    path = tmp_path / "events.jsonl"
    with open_repository("memory:", subscribers=[JsonLinesSubscriber(path)]) as repository:
        repository.commits.commit("main", "one", [Put(key=("a",), content=table("a"))])
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["type"] for line in lines] == ["REFERENCE_CREATED", "COMMIT", "CONTENT_STORED"]
    assert lines[2]["content"]["metadataLocation"] == "a"


def test_the_log_has_a_line_with_names_for_each_event(caplog):
    caplog.set_level(logging.INFO, "lochan.events")
    with open_repository("memory:", subscribers=[LogSubscriber()]):
        pass
    assert "type=REFERENCE_CREATED" in caplog.text
    assert "reference=main" in caplog.text


def test_keys_are_checked():
    with pytest.raises(Invalid, match="'path' is not known"):
        open_log({"path": "x"})
    with pytest.raises(Invalid, match="'path' is missing"):
        open_json_lines({})
    with pytest.raises(Invalid, match=r"'path': Expected `str`"):
        open_json_lines({"path": 1})


@pytest.mark.slow
def test_the_shipped_subscribers_are_found_by_their_names(tmp_path):
    from lochan.embedded.repository import _ports

    path = tmp_path / "events.jsonl"
    runner = EventRunner(_ports())
    lines = {"type": "json-lines", "path": str(path)}
    runner.register(read_subscribers({"everything": lines, "log": {"type": "log"}}))
    assert [one.name for one in runner.hub.deliveries] == ["everything", "log"]
    runner.close()
    assert path.exists()
