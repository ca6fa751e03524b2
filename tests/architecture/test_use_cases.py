"""Every use case takes a call first, and reads and writes only what the policy decided on."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from lochan.service.access import AccessControl
from lochan.service.repositories import Repositories
from tests.architecture.tree import ROOT
from tests.service.bench import Bench, use_cases

SERVICE = ROOT / "src/lochan/service"

# Opening and closing is done by the server itself, without a request; nothing of it is returned.
OPENING = {"open", "look_into", "list_open", "drop_deleted"}

METHODS: dict[str, Callable[..., Any]] = {
    **use_cases(Bench().repository),
    **{
        f"repositories.{name}": method
        for name, method in inspect.getmembers(Repositories, inspect.isfunction)
        if not name.startswith("_") and name not in OPENING
    },
    **{
        f"access.{name}": method
        for name, method in inspect.getmembers(AccessControl, inspect.isfunction)
        if not name.startswith("_")
    },
}


@pytest.mark.parametrize("name", METHODS)
def test_the_first_parameter_of_a_use_case_is_the_call(name):
    (_, first, *_) = inspect.signature(METHODS[name]).parameters.values()
    assert (first.name, first.annotation) == ("call", "Call")
    assert first.default is inspect.Parameter.empty


@pytest.mark.parametrize(
    ("made", "makers"),
    [
        ("Resolved", {"resolve.py"}),
        ("PendingWrite", {"claims.py", "pending_writes.py"}),
        ("Resource", {"access_credentials.py", "policy.py", "repositories.py", "stores.py"}),
        ("OpenPolicy", {"repositories.py", "repository.py"}),
    ],
)
def test_what_was_decided_on_is_made_in_one_place(made, makers):
    found = {
        path.name
        for path in SERVICE.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == made
    }
    assert found == makers


@pytest.mark.parametrize("module", ["contents", "history", "jobs", "namespaces", "commits"])
def test_reads_get_their_commits_from_the_resolver_only(module):
    text = (SERVICE / f"{module}.py").read_text(encoding="utf-8")
    for way_around in ("views.load", "get_named", "ReferenceIndex", "references.fetch"):
        assert way_around not in text
