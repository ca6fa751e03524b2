"""How a method of a group becomes a call: one body for the blocking, awaited and embedded library.

The body of a method builds a request (`model/requests.py`) and does nothing else. `request_method`
and `page_iterator` turn such a function into a method that hands the request to the runner of its
group. What the method returns follows from the kind of runner:

| declared as | on a `BlockingRunner` | on an `AsyncRunner` |
|---|---|---|
| `@request_method` with `RepositoryRequest[R]` | `R` | a coroutine of `R` |
| `@page_iterator` with `PageRequest[I]` | `Iterator[I]` | `AsyncIterator[I]` |
| `@stream_method` with `RepositoryRequest[FileStream]` | `FileStream` | one of `AsyncFileStream` |

The arguments are those of the function in all cases, and type checkers see both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast, overload

import msgspec

from lochan.client.file_streams import AsyncFileStream
from lochan.model.files import FileStream
from lochan.model.requests import PageRequest, RepositoryRequest

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_Result_co = TypeVar("_Result_co", covariant=True)
_Item = TypeVar("_Item")
_Item_co = TypeVar("_Item_co", covariant=True)


class BlockingRunner(ABC):
    """Runs requests; each call returns when the result is known."""

    @abstractmethod
    def run(self, request: RepositoryRequest[_Result]) -> _Result:
        """Returns the result of a request."""

    def iterate(self, request: PageRequest[_Item]) -> Iterator[_Item]:
        """Yields the items of all pages; reads a page when the one before is used up."""
        while True:
            page = self.run(request)
            yield from page.items
            if page.token is None:
                return
            request = msgspec.structs.replace(request, token=page.token)


class AsyncRunner(ABC):
    """Runs requests in an event loop."""

    @abstractmethod
    async def run(self, request: RepositoryRequest[_Result]) -> _Result:
        """Returns the result of a request."""

    async def iterate(self, request: PageRequest[_Item]) -> AsyncIterator[_Item]:
        """Yields the items of all pages; reads a page when the one before is used up."""
        while True:
            page = await self.run(request)
            for item in page.items:
                yield item
            if page.token is None:
                return
            request = msgspec.structs.replace(request, token=page.token)


Runner = TypeVar("Runner", bound=BlockingRunner | AsyncRunner)


class Group(Generic[Runner]):
    """Methods of one subject, on one repository."""

    def __init__(self, runner: Runner) -> None:
        self.runner: Runner = runner


class RequestMethod(Protocol[_Arguments, _Result_co]):
    """The type of a method that runs one request."""

    @overload
    def __get__(
        self, group: Group[BlockingRunner], owner: type[Any]
    ) -> Callable[_Arguments, _Result_co]: ...

    @overload
    def __get__(
        self, group: Group[AsyncRunner], owner: type[Any]
    ) -> Callable[_Arguments, Coroutine[Any, Any, _Result_co]]: ...


class PageIterator(Protocol[_Arguments, _Item_co]):
    """The type of a method that yields the items of all pages."""

    @overload
    def __get__(
        self, group: Group[BlockingRunner], owner: type[Any]
    ) -> Callable[_Arguments, Iterator[_Item_co]]: ...

    @overload
    def __get__(
        self, group: Group[AsyncRunner], owner: type[Any]
    ) -> Callable[_Arguments, AsyncIterator[_Item_co]]: ...


class StreamMethod(Protocol[_Arguments]):
    """The type of a method that opens a file."""

    @overload
    def __get__(
        self, group: Group[BlockingRunner], owner: type[Any]
    ) -> Callable[_Arguments, FileStream]: ...

    @overload
    def __get__(
        self, group: Group[AsyncRunner], owner: type[Any]
    ) -> Callable[_Arguments, Coroutine[Any, Any, AsyncFileStream]]: ...


def request_method(
    build: Callable[Concatenate[Any, _Arguments], RepositoryRequest[_Result]],
) -> RequestMethod[_Arguments, _Result]:
    """Returns the method that runs the request which `build` returns."""

    @wraps(build)
    def method(group: Group[Any], /, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> Any:
        return group.runner.run(build(group, *args, **kwargs))

    return cast("RequestMethod[_Arguments, _Result]", method)


def page_iterator(
    build: Callable[Concatenate[Any, _Arguments], PageRequest[_Item]],
) -> PageIterator[_Arguments, _Item]:
    """Returns the method that yields the items of the pages from the request of `build` on."""

    @wraps(build)
    def method(group: Group[Any], /, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> Any:
        return group.runner.iterate(build(group, *args, **kwargs))

    return cast("PageIterator[_Arguments, _Item]", method)


def stream_method(
    build: Callable[Concatenate[Any, _Arguments], RepositoryRequest[FileStream]],
) -> StreamMethod[_Arguments]:
    """Returns the method that runs the request of `build`, whose result is read as a stream."""
    return cast("StreamMethod[_Arguments]", request_method(build))
