"""Every method builds one request, and every runner runs all of them."""

from __future__ import annotations

import inspect
import operator
from typing import Any, cast, get_args, get_origin, get_type_hints

import pytest

from lochan.client import AsyncClient, Client
from lochan.client.groups.access import AccessMethods
from lochan.client.groups.changes import Commits, Merges
from lochan.client.groups.contents import Contents, Namespaces
from lochan.client.groups.files import FileMethods
from lochan.client.groups.references import History, References
from lochan.client.groups.repository import RepositoryGroups, RepositorySettings
from lochan.client.groups.stores import StoreMethods
from lochan.client.messages import Flow
from lochan.client.transport import FLOWS
from lochan.embedded import Embedded
from lochan.embedded.access import ACCESS_READS, ACCESS_WRITES
from lochan.embedded.use_cases import READS, WRITES
from lochan.model.requests import PageRequest, RepositoryRequest
from lochan.model.results import Page
from tests.architecture.rules import imported_names
from tests.architecture.tree import sources

GROUPS = [
    References,
    Contents,
    History,
    Commits,
    Merges,
    Namespaces,
    RepositorySettings,
    AccessMethods,
    FileMethods,
    StoreMethods,
]


def built_requests() -> set[type[RepositoryRequest[Any]]]:
    """The requests that the methods of all groups build."""
    functions = [
        function
        for group in (*GROUPS, RepositoryGroups)
        for name, function in vars(group).items()
        if inspect.isfunction(function) and not name.startswith("_")
    ]
    return {get_type_hints(inspect.unwrap(function))["return"] for function in functions}


def result_of(request: Any) -> Any:
    """The type of the result that a request's class names."""
    (base,) = (each for each in request.__orig_bases__ if get_origin(each) is not None)
    (result,) = get_args(base)
    is_page = issubclass(get_origin(base), PageRequest)
    return operator.getitem(cast("Any", Page), result) if is_page else result


def test_every_request_is_run_over_http_and_embedded():
    tables = (READS, WRITES, ACCESS_READS, ACCESS_WRITES)
    run = [kind for table in tables for kind in table]
    assert built_requests() == FLOWS.keys() == set(run)
    assert len(run) == len(set(run))


@pytest.mark.parametrize("request_type", FLOWS, ids=lambda kind: kind.__name__)
def test_a_flow_returns_the_result_that_its_request_names(request_type):
    hints = get_type_hints(FLOWS[request_type])
    assert get_origin(hints["return"]) is get_origin(Flow)
    assert get_args(hints.pop("return"))[-1] == result_of(request_type)
    assert [*hints.values()] == [request_type]


def test_the_clients_and_the_embedded_repository_have_the_same_methods():
    for kind in (Client, AsyncClient, Embedded):
        assert issubclass(kind, RepositoryGroups)
        assert "config" not in vars(kind)


def test_a_method_shows_its_arguments_and_its_description():
    with Client("http://127.0.0.1:9") as client:
        assert str(inspect.signature(client.contents.get)).startswith("(spec: 'str', key: ")
        assert (client.contents.get.__doc__ or "").startswith("Returns the content of a key")


def test_the_client_knows_only_what_travels_and_what_users_name():
    packages = {
        name.split(".")[1]
        for source in sources("src")
        if source.where.startswith("src/lochan/client/")
        for _, name in imported_names(source)
        if name.startswith("lochan.")
    }
    # Beside these only how a forked process drops the connections of its parent.
    assert packages == {"base", "client", "model", "process", "wire"}
