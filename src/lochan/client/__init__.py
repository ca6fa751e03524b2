"""The Python client: the same groups of methods as the embedded repository, over HTTP.

`Client` blocks, `AsyncClient` is awaited; both take and return the values of `model/` and raise the
errors of `base/errors.py`. Imports `wire/` and `model/` only.
"""

from lochan.client.asynchronous import AsyncClient
from lochan.client.blocking import Client
from lochan.model.requests import DEFAULT_BRANCH, KeyResolution, NewReference
from lochan.model.results import RepositoryInfo
from lochan.model.specs import parse_spec

__all__ = [
    "DEFAULT_BRANCH",
    "AsyncClient",
    "Client",
    "KeyResolution",
    "NewReference",
    "RepositoryInfo",
    "parse_spec",
]
