"""The measurement of decisions runs, and draws the same requests every time."""

from __future__ import annotations

import json

from benchmarks.__main__ import main
from benchmarks.access import World


def test_the_measurement_of_decisions_prints_its_lines(capsys):
    main(["access", "--principals", "5", "--keys", "50", "--requests", "20", "--repeats", "1"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    measured = [line for line in lines if line["benchmark"] == "access"]
    assert [line["kind"] for line in measured] == ["commit", "read", "denied"]
    for line in measured:
        assert line["requests"] == 20
        for name in ("first", "next"):
            assert 0 <= line[f"{name}_decisions_found"] <= 1
            assert 0 <= line[f"{name}_conditions_found"] <= 1


def test_the_same_seed_draws_the_same():
    first, second = (World(7, 10, 100, 100) for _ in range(2))
    assert first.policies == second.policies
    assert [first.request() for _ in range(50)] == [second.request() for _ in range(50)]
    ruled = [one for one in first.policies if any(each.rule for each in one.statements)]
    assert len(ruled) == 10
