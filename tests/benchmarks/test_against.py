"""The comparison of two versions: its arguments, and the ratios that it computes."""

from __future__ import annotations

import pytest

from benchmarks.against import parse, ratios


def test_the_ratio_of_a_row_is_the_median_over_its_pairs():
    windows = [
        {"row": row, "version": version, "ops_s": ops_s, "server_cpu_us_per_op": 1e6 / ops_s}
        for row, old, new in (("a:1", (100, 50, 200), (110, 60, 180)), ("b:1", (9,), (18,)))
        for version, rates in (("old", old), ("new", new))
        for ops_s in rates
    ]
    found = ratios(windows, "a:1")
    assert (found["rounds"], found["old_ops_s"], found["new_ops_s"]) == (3, 100, 110)
    assert found["ops_s_ratio"] == pytest.approx(1.1)
    assert found["ops_s_ratio_range"] == [0.9, 1.2]
    assert found["cpu_ratio"] == pytest.approx(1 / 1.1)


def test_a_folder_without_the_source_and_an_unknown_row_are_refused(tmp_path, capsys):
    for arguments in (["--old", str(tmp_path)], ["--old", ".", "--rows", "nothing:1"]):
        with pytest.raises(SystemExit):
            parse(arguments)
    error = capsys.readouterr().err
    assert "has no src/lochan" in error
    assert "nothing:1" in error
