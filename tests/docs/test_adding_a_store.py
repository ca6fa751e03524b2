"""A store in another package works as docs/stores.md describes it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from lochan.assembly import STORE_GROUP, open_store
from lochan.assembly.plugins import plugin_names
from tests.architecture.tree import ROOT
from tests.docs.test_store_listing import block


@pytest.fixture
def foreign_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installs a package as the page describes it, beside ours."""
    text = (ROOT / "docs/stores.md").read_text("utf-8")
    found = re.search(r'entry-points\."(lochan\.stores)"\]\n(\w+) = "(\w+):open_store"', text)
    assert found is not None
    group, scheme, module = found.groups()
    (tmp_path / f"{module}.py").write_text(block("listing"), "utf-8")
    info = tmp_path / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{scheme} = {module}:open_store\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, module, raising=False)


@pytest.mark.usefixtures("foreign_package")
def test_a_store_of_another_package_is_found_by_its_scheme():
    assert "mystore" in plugin_names(STORE_GROUP)
    store = open_store("mystore:anything")
    assert type(store).__name__ == "MyStore"
    store.close()


def test_without_the_package_its_scheme_is_unknown():
    assert "mystore" not in plugin_names(STORE_GROUP)
