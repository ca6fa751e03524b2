"""The page about files is true: its blocks run, one after the other."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.architecture.tree import ROOT

PAGE = ROOT / "docs/files.md"
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_the_blocks_of_the_page_run(tmp_path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".lochan").mkdir()
    blocks = _BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) == 4
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
