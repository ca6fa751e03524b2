"""Every benchmark runs and prints valid JSON lines with the figures that the docs speak of."""

from __future__ import annotations

import json
import math

import pytest

from benchmarks import build, change, node, parallel, read
from benchmarks.__main__ import GROUPS, main
from benchmarks.measure import Effort, OtherCores
from lochan.index.boundary import BoundaryRule

QUICK = Effort.quick()

FIELDS = {
    "machine": {"python", "cores", "hash_4kb_us", "sort_1000_us"},
    "encode": {
        *("universe", "elements", "ns_per_element", "build_us", "encode_us", "hash_us"),
        *("bytes_per_element", "peak_heap_bytes", "prototype"),
    },
    "decode": {"universe", "elements", "ns_per_element", "peak_heap_bytes", "prototype"},
    "find": {"universe", "elements", "us", "decoded_us", "peak_heap_bytes", "prototype"},
    "splice": {"universe", "elements", "us", "peak_heap_bytes", "prototype"},
    "build": {
        *("universe", "keys", "keys_per_s", "nodes", "bytes_per_element", "peak_heap_kb"),
        "prototype_keys_per_s_bytes",
    },
    "build_on_rocksdb": {
        *("universe", "keys", "keys_per_s", "other_cores", "prototype_keys_per_s"),
    },
    "build_parallel": {
        *("keys", "parts", "processes", "same_root", "same_nodes", "keys_per_s"),
        *("one_process_keys_per_s", "wall_s", "slowest_part_cpu_s", "join_ms"),
    },
    "lookup": {
        *("keys", "all_cached_us", "leaf_from_store_us", "nothing_cached_us"),
        *("bulk_of_100_us_per_key", "peak_heap_bytes", "prototype_us"),
    },
    "page": {
        *("elements", "keys", "leaves_from_store_us", "leaves_cached_us", "nodes_read"),
        *("peak_heap_bytes", "prototype_us_us_nodes"),
    },
    "scan": {"keys", "keys_per_s", "prototype_keys_per_s"},
    "edit": {"changes", "keys", "us", "nodes_written", "kb_written", "peak_heap_kb"},
    "difference": {
        *("changes", "keys", "found", "nodes_read", "nothing_cached_ms", "prototype_nodes_ms"),
    },
    "change": {
        *("workload", "puts", "keys", "cpu_us", "median_us", "p99_us", "worst_ms", "nodes_read"),
        *("other_cores", "kb_written", "rows_written", "commits_per_spill"),
        "prototype_us_kb_rows_reads",
    },
    "change_stages": {
        *("workload", "puts", "keys", "look_up_us", "splice_and_spill_us", "write_us"),
    },
    "change_growth": {"workload", "puts", "ratio_100k_to_1m"},
}


def printed(capsys) -> list[dict]:
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines
    for line in lines:
        assert set(line) - {"benchmark"} == FIELDS[line["benchmark"]], line["benchmark"]
        numbers = [value for value in line.values() if isinstance(value, float)]
        assert all(math.isfinite(number) and number >= 0 for number in numbers)
    return lines


@pytest.mark.parametrize(
    ("run", "names"),
    [
        (node.run, ["encode", "decode", "find", "splice"] * 3),
        (build.run, ["build", "build_on_rocksdb", "build"]),
        pytest.param(parallel.run, ["build_parallel"], marks=pytest.mark.slow),
        (read.run, ["lookup", "page", "scan", "edit", "difference"]),
        (change.run, ["change", "change_stages"] * 4),
    ],
    ids=["node", "build", "parallel", "read", "change"],
)
def test_each_group_prints_its_lines(run, names, capsys):
    run(300, QUICK)
    assert [line["benchmark"] for line in printed(capsys)] == names


def test_the_command_line_runs_the_named_groups(capsys):
    main(["node", "--quick", "--keys", "300"])
    assert [line["benchmark"] for line in printed(capsys)][:2] == ["machine", "encode"]


@pytest.mark.slow
def test_each_size_runs_in_a_process_of_its_own(capsys):
    main(["read", "--quick", "--keys", "200", "300"])
    lines = printed(capsys)
    assert [line["keys"] for line in lines if line["benchmark"] == "scan"] == [200, 300]
    assert [line["benchmark"] for line in lines].count("machine") == 2


@pytest.mark.parametrize("wrong", [["nobody"], ["--keys", "5"], ["--keys"], ["--keys", "many"]])
def test_a_wrong_call_is_explained(wrong, capsys):
    with pytest.raises(SystemExit) as caught:
        main(wrong)
    assert caught.value.code == 2
    assert "usage: python -m benchmarks" in capsys.readouterr().err


def test_help_names_every_group(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    assert [name for name in GROUPS if f"\n  {name} " not in shown] == []


def test_growth_compares_a_million_with_a_hundred_thousand(capsys):
    lines = [
        {"benchmark": "change", "workload": "random", "puts": 1, "keys": keys, "cpu_us": us}
        for keys, us in ((1_000, 1.0), (100_000, 10.0), (1_000_000, 15.0))
    ]
    change.emit_growth(lines)
    (line,) = printed(capsys)
    assert line["ratio_100k_to_1m"] == 1.5
    change.emit_growth(lines[:2])
    assert capsys.readouterr().out == ""


def test_parts_are_cut_at_hard_breaks_near_their_ideal_place(monkeypatch):
    rule = BoundaryRule(bytes(16))
    items = [(b"%03d" % number, b"") for number in range(100)]
    monkeypatch.setattr(BoundaryRule, "is_hard_break", lambda _, key: int(key) % 10 == 3)
    assert parallel.cut_at_hard_breaks(rule, items, 1) == [100]
    assert parallel.cut_at_hard_breaks(rule, items, 2) == [54, 100]
    assert parallel.cut_at_hard_breaks(rule, items, 4) == [24, 54, 74, 100]
    monkeypatch.setattr(BoundaryRule, "is_hard_break", lambda *_: False)
    assert parallel.cut_at_hard_breaks(rule, items, 4) == [100]


def test_others_are_seen_and_we_are_not():
    others = OtherCores()
    sum(range(2_000_000))
    assert 0 <= others.used() < 64
