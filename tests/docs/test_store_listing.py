"""The store that docs/stores.md shows passes the suites of every store."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from lochan.kv.store import Store
from lochan.stores.memory.store import MemoryStore
from lochan.testing.contracts import PLAIN_CONTRACTS
from tests.architecture.tree import ROOT
from tests.stores.repository_suite import history


def block(mark: str) -> str:
    page = (ROOT / "docs/stores.md").read_text("utf-8")
    return page.partition(f"<!-- {mark} -->\n```python\n")[2].partition("```")[0]


def listing() -> Any:
    module = ModuleType("mypackage")
    exec(compile(block("listing"), "docs/stores.md", "exec"), module.__dict__)
    return module


class TestListing(*PLAIN_CONTRACTS):  # type: ignore[misc]
    @pytest.fixture
    def store(self) -> Iterator[Store]:
        store = listing().open_store("mystore:")
        yield store
        store.close()


def test_the_test_on_the_page_runs_the_same_suites(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mypackage", listing())
    shown: dict[str, Any] = {}
    exec(compile(block("listing's test"), "docs/stores.md", "exec"), shown)
    assert shown["TestMyStore"].__bases__ == TestListing.__bases__


def test_a_repository_works_on_it() -> None:
    assert history(listing().open_store("mystore:")) == history(MemoryStore())
