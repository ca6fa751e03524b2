"""The measurement of memory runs, and prints what its page says."""

from __future__ import annotations

import json

import pytest

from benchmarks import memory


@pytest.mark.slow
def test_memory_is_measured_with_one_repository_and_with_many(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sizes = {"--repositories": 3, "--keys": 200, "--operations": 60, "--cache-mb": 1}
    memory.main([word for name, size in sizes.items() for word in (name, str(size))])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["benchmark"] for line in lines] == ["memory", "memory", "memory_relative"]
    assert [line["repositories"] for line in lines[:2]] == [1, 3]
    assert 0.5 < lines[2]["many_to_one"] < 1.5
