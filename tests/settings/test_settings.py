"""Settings: which place wins, what is wrong is said with its place, and all are documented."""

from __future__ import annotations

import re

import msgspec
import pytest

from lochan.base.errors import Invalid
from lochan.base.secrets import Secret
from lochan.settings import SETTING_NAMES, Settings, describe, read_settings
from tests.architecture.tree import ROOT


@pytest.fixture
def file(tmp_path):
    def write(text: str):
        path = tmp_path / "lochan.toml"
        path.write_text(text)
        return path

    return write


def test_a_flag_wins_over_the_environment_that_over_the_file_that_over_the_default(file):
    written = file("port = 1\nbrief_threads = 2\nlong_threads = 3\n")
    environment = {"LOCHAN_PORT": "11", "LOCHAN_BRIEF_THREADS": "12"}
    found = read_settings({"port": 21}, environment, written)
    assert (found.port, found.brief_threads, found.long_threads) == (21, 12, 3)
    assert found.drain_timeout_s == Settings().drain_timeout_s


def test_without_anything_the_defaults_count(tmp_path):
    assert read_settings({}, {}, tmp_path / "missing.toml") == Settings()
    assert read_settings({"port": None}, {"PATH": "x"}, None) == Settings()


def test_texts_of_the_environment_become_values():
    found = read_settings(
        {},
        {
            "LOCHAN_METRICS": "true",
            "LOCHAN_STACK_TRACES": "0",
            "LOCHAN_TRACE_SAMPLER": "0.25",
            "LOCHAN_HOST_NAMES": "catalog.test, other.test",
            "LOCHAN_ACCESS_LOG": "json",
        },
        None,
    )
    assert found.metrics is True
    assert found.stack_traces is False
    assert found.trace_sampler == 0.25
    assert found.host_names == ("catalog.test", "other.test")
    assert found.access_log == "json"


@pytest.mark.parametrize(
    ("flags", "environment", "text", "named"),
    [
        ({}, {"LOCHAN_PORT": "many"}, "", ["port", "LOCHAN_PORT", "many"]),
        ({}, {"LOCHAN_PORT": "65536"}, "", ["port", "LOCHAN_PORT", "65536"]),
        ({}, {"LOCHAN_METRICS": "perhaps"}, "", ["metrics", "LOCHAN_METRICS"]),
        ({"port": "x"}, {}, "", ["port", "--port"]),
        ({"drain_timeout_s": -1}, {}, "", ["drain_timeout_s", "--drain-timeout-s"]),
        ({}, {}, "port = 'x'", ["port", "lochan.toml"]),
        ({}, {}, "ports = 1", ["ports", "lochan.toml"]),
        ({}, {}, "port = ", ["lochan.toml", "TOML"]),
        ({}, {}, "access_log = 'loud'", ["access_log", "lochan.toml", "loud"]),
        ({"nonsense": 1}, {}, "", ["nonsense"]),
        ({"retry_sleep_low_ms": 50}, {}, "", ["retry_sleep_low_ms"]),
    ],
)
def test_what_is_wrong_is_said_with_its_name_and_place(file, flags, environment, text, named):
    with pytest.raises(Invalid) as refused:
        read_settings(flags, environment, file(text))
    assert [word for word in named if word not in refused.value.message] == []


def test_a_file_that_cannot_be_read_is_said(tmp_path):
    with pytest.raises(Invalid, match="cannot be read"):
        read_settings({}, {}, tmp_path)


def test_the_address_of_the_store_with_its_password_is_never_repeated():
    with pytest.raises(Invalid) as refused:
        read_settings({"store": ["postgresql://me:secret@host/db"]}, {}, None)
    assert "secret" not in refused.value.message


def test_every_setting_is_documented_with_its_default_and_what_it_does():
    text = (ROOT / "docs/settings.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", text, re.MULTILINE))
    assert list(rows) == list(SETTING_NAMES)
    for name in SETTING_NAMES:
        default, _, said = rows[name].partition(" | ")
        value = getattr(Settings(), name)
        value = "" if isinstance(value, Secret) else msgspec.json.encode(value).decode().strip('"')
        assert default == f"`{value}`" if value else default == "empty", name
        assert said == describe(name), name
