"""The rows as a table, with what lakeFS did in them."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.http_files.recorded import (
    BARS,
    LAKEFS,
    RECORDED_SHA256_US,
    RECORDED_WRITE_MS,
    Figures,
    Recorded,
)
from benchmarks.http_files.rows import ROWS
from benchmarks.http_load.tables import markdown, short
from benchmarks.measure import Line

QUIET_CORES = 0.1

_NOTHING = Recorded(None, None)
_MISSING = "-"


def table(lines: Iterable[Line]) -> str:
    """Returns the rows of a run in the order of its lines."""
    head = ["workload : clients", "Lochan, ops/s, p50/p99 ms", "CPU ms"]
    head += ["lakeFS local", "lakeFS on PostgreSQL", "times PostgreSQL", "refused, empty"]
    body = [_row(line) for line in lines if line["benchmark"] == "files_http"]
    return markdown(head, body)


def calibration_row(line: Line) -> str:
    """Returns how fast the machine was, as a sentence."""
    hashed = line["sha256_10kb_us"]
    return (
        f"calibration: {line['python_steps_s'] / 1e6:.1f} million steps of a Python loop a second, "
        f"{short(line['synchronised_writes_s'])} synchronised writes of 4 KB a second "
        f"(p50 {short(line['synchronised_p50_ms'])}, p99 {short(line['synchronised_p99_ms'])} ms), "
        f"SHA-256 of 10 KB in {short(hashed)} us; of the machine and the days of the columns of "
        f"lakeFS, SHA-256 of 10 KB in {RECORDED_SHA256_US} us and p50 of a synchronised write of "
        f"{RECORDED_WRITE_MS} ms are known, so hashing takes {hashed / RECORDED_SHA256_US:.2f} "
        "times as long in this run"
    )


def times_faster(line: Line) -> float | None:
    """Returns how many times our figure is better: of the rate, or of p50 where that was taken."""
    theirs = _recorded(line).postgres or _recorded(line).local
    if theirs is None or "ops_s" not in line:
        return None
    if theirs.ops_s is not None:
        return float(line["ops_s"]) / theirs.ops_s
    return None if theirs.p50_ms is None else theirs.p50_ms / max(1e-9, float(line["p50_ms"]))


def title_of(line: Line) -> str:
    """Returns the name of a row with its number of clients."""
    return f"{ROWS[line['workload']].title} : {line['clients']}"


def missed_bars(line: Line) -> list[str]:
    """Returns what a row was demanded to do and did not do."""
    bar = BARS.get(f"{line['workload']}:{line['clients']}")
    if bar is None or "ops_s" not in line:
        return []
    missed = []
    if line["ops_s"] < bar.ops_s:
        missed.append(f"{title_of(line)}, ops/s ≥ {short(bar.ops_s)}: {short(line['ops_s'])}")
    if bar.p99_ms is not None and line["p99_ms"] > bar.p99_ms:
        missed.append(f"{title_of(line)}, p99 ms ≤ {short(bar.p99_ms)}: {short(line['p99_ms'])}")
    return missed


def _row(line: Line) -> list[str]:
    recorded = _recorded(line)
    faster = times_faster(line)
    bad = [f"{line['errors'] + line['conflicts']} refused"]
    if "empty_share" in line:
        bad.append(f"{line['empty_share']:.0%} empty")
    # Other processes used more than a tenth of a core meanwhile.
    disturbed = " (disturbed)" if line.get("other_cores", 0) > QUIET_CORES else ""
    return [
        f"{title_of(line)}{disturbed}",
        _ours(line),
        short(line["server_cpu_ms_per_counted"]),
        _theirs(recorded.local),
        _theirs(recorded.postgres),
        _MISSING if faster is None else short(faster),
        ", ".join(bad),
    ]


def _recorded(line: Line) -> Recorded:
    return LAKEFS.get(f"{line['workload']}:{line['clients']}", _NOTHING)


def _ours(line: Line) -> str:
    if "ops_s" not in line:
        return _MISSING
    return f"{short(line['ops_s'])}, {short(line['p50_ms'])}/{short(line['p99_ms'])}"


def _theirs(figures: Figures | None) -> str:
    if figures is None:
        return _MISSING
    rate = _MISSING if figures.ops_s is None else short(figures.ops_s)
    if figures.refused:
        return f"{rate}, {figures.refused}"
    latencies = [_MISSING if ms is None else short(ms) for ms in (figures.p50_ms, figures.p99_ms)]
    return f"{rate}, {'/'.join(latencies)}"
