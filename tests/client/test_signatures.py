"""Embedded, blocking and awaited: the same groups, methods and arguments."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from lochan.client import asynchronous_groups, blocking_groups
from lochan.client.asynchronous import AsyncClient
from lochan.client.blocking import Client
from lochan.embedded import repository as embedded
from tests.architecture.rules import imported_names
from tests.architecture.tree import sources

GROUPS = [
    "References",
    "Contents",
    "History",
    "Commits",
    "Merges",
    "Namespaces",
    "RepositorySettings",
]


def methods(group: Any) -> dict[str, Any]:
    return {
        name: proposal
        for name, proposal in vars(group).items()
        if inspect.isfunction(proposal) and not name.startswith("_")
    }


def arguments(method: Any) -> list[tuple[str, Any, Any]]:
    found = inspect.signature(method).parameters.values()
    return [(one.name, one.kind, one.default) for one in found]


@pytest.mark.parametrize("other", [asynchronous_groups, embedded], ids=["awaited", "embedded"])
@pytest.mark.parametrize("group", GROUPS)
def test_every_group_has_the_same_methods_with_the_same_arguments(group, other):
    blocking = methods(getattr(blocking_groups, group))
    theirs = methods(getattr(other, group))
    assert len(blocking) > 0
    assert theirs.keys() == blocking.keys()
    for name, method in blocking.items():
        assert arguments(theirs[name]) == arguments(method), name
        assert theirs[name].__doc__ == method.__doc__, name


def test_the_catalogs_themselves_have_the_same_groups_and_methods():
    with Client("http://127.0.0.1:9") as client:
        groups = {name for name in vars(client) if not name.startswith("_")} - {"url", "repository"}
        assert {type(getattr(client, name)).__name__ for name in groups} == set(GROUPS)
    with embedded.open_repository("memory:") as repository:
        assert groups <= set(vars(repository))
    for name in ("config", "close"):
        assert callable(getattr(AsyncClient, name))
        assert callable(getattr(embedded.Embedded, name))


def test_the_client_knows_only_what_travels_and_what_users_name():
    rooms = {
        name.split(".")[1]
        for source in sources("src")
        if source.where.startswith("src/lochan/client/")
        for _, name in imported_names(source)
        if name.startswith("lochan.")
    }
    # Beside these only how a forked process drops the connections of its parent.
    assert rooms == {"base", "client", "model", "process", "wire"}
