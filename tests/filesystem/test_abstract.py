"""The tests that fsspec has for every file system, as far as an object store can pass them.

Left out are those that need empty folders: a folder exists here when there is a file below it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import fsspec.tests.abstract as abstract
import pytest

from lochan.filesystem import LochanFileSystem
from tests.client.serving import serving


class LochanFixtures(abstract.AbstractFixtures):  # type: ignore[misc]
    """What the tests of fsspec work on."""

    @pytest.fixture(scope="class")
    @classmethod
    def fs(cls) -> Iterator[LochanFileSystem]:
        with serving() as url:
            yield LochanFileSystem(url, skip_instance_cache=True)

    @pytest.fixture
    def fs_path(self) -> str:
        return "default@main/work"

    @pytest.fixture
    def fs_join(self) -> Callable[..., str]:
        return lambda *parts: "/".join(parts)

    @pytest.fixture
    def supports_empty_directories(self) -> bool:
        return False


class TestCopies(abstract.AbstractCopyTests, LochanFixtures):  # type: ignore[misc]
    pass


class TestDownloads(abstract.AbstractGetTests, LochanFixtures):  # type: ignore[misc]
    pass


class TestUploads(abstract.AbstractPutTests, LochanFixtures):  # type: ignore[misc]
    pass


class TestPipes(abstract.AbstractPipeTests, LochanFixtures):  # type: ignore[misc]
    pass


class TestOpens(abstract.AbstractOpenTests, LochanFixtures):  # type: ignore[misc]
    pass
