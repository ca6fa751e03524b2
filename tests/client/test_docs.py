"""What the docs show works, and what they list is what there is."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

import lochan
from lochan.base.errors import LochanError
from lochan.base.limits import client
from lochan.client.credentials import VARIABLES
from tests.architecture.tree import ROOT
from tests.client.serving import Guard, serving
from tests.client.test_requests import GROUPS

PAGE = (ROOT / "docs/client.md").read_text("utf-8")
PLACE = "http://127.0.0.1:19120"


def test_every_example_runs_one_after_the_other(address, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MY_TOKEN", "lochan_1_2")
    examples = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(examples) == 6
    shared: dict[str, Any] = {}
    with serving("memory:", guard=Guard("Bearer lochan_1_2")) as guarded:
        for example in examples:
            text = example.replace(PLACE, guarded if "MY_TOKEN" in example else address)
            exec(compile(text, "docs/client.md", "exec"), shared)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("('orders',) IcebergTable(")
    assert printed[1].endswith(" first")
    assert printed[2].startswith("('orders',) VALUE_DIFFERS IcebergTable(")
    assert "True read-sales user:ada" in printed
    assert printed[-1] == "main"


def test_every_variable_of_credentials_is_named():
    pages = PAGE + (ROOT / "docs/cli.md").read_text("utf-8")
    assert [name for name in VARIABLES if f"`{name}" not in pages] == []


def test_every_group_and_method_is_listed_and_no_other():
    rows = re.findall(r"^\| `(\w+)` \| (`.+`) \|$", PAGE, re.MULTILINE)
    listed = {name: set(re.findall(r"`(\w+)`", text)) for name, text in rows}
    with lochan.Client("http://127.0.0.1:9") as client:
        groups = {name: group for name, group in vars(client).items() if type(group) in GROUPS}
        for name, group in groups.items():
            methods = {each for each, _ in inspect.getmembers(group, inspect.ismethod)}
            assert listed[name] == {each for each in methods if each[0] != "_"}, name
        assert listed.keys() == groups.keys()


def test_the_errors_that_are_listed_are_the_branches_of_the_tree():
    rows = re.findall(r"^\| `([A-Z]\w+)` \| ", PAGE, re.MULTILINE)
    assert set(rows) == {one.__name__ for one in LochanError.__subclasses__()}


def test_the_number_of_attempts_is_the_limit():
    assert f"{client.CLIENT_ATTEMPTS_MAX} times at most" in PAGE


def test_the_package_exports_the_two_clients_and_open_repository_only():
    assert lochan.Client.__name__ == "Client"
    assert lochan.AsyncClient.__name__ == "AsyncClient"
    assert callable(lochan.open_repository)
    with pytest.raises(AttributeError, match="nothing"):
        lochan.nothing  # noqa: B018 - looking is the test
