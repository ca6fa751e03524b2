"""Commands run in this process, against a server in this process, in a directory of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.shell import Shell
from tests.client.serving import serving


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory to be in, and no settings from outside."""
    monkeypatch.chdir(tmp_path)
    for name in ("LOCHAN_URL", "LOCHAN_STORE", "LOCHAN_REPOSITORY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def shell(place: Path) -> Iterator[Shell]:
    """Commands on an empty catalog of a server."""
    with serving("memory:", "other") as url:
        yield Shell("--url", url)


@pytest.fixture
def local(place: Path) -> Shell:
    """Commands on the embedded store of the directory."""
    return Shell()
