"""What lakeFS 1.84.0 did in the same rows, on 2026-11-15, on a machine of the same kind.

Two cores were shared by server, generator and database; differences below 1.5 times say nothing. Of
that machine two figures are known that a run of ours measures too: how long a hash and a
synchronised write take. The calibration of a run is printed beside them.
`local` is its store of one machine, which does not synchronise; `postgres` synchronises its log.
"""

from __future__ import annotations

from typing import NamedTuple


class Figures(NamedTuple):
    """Operations per second, p50 and p99 in ms; None where it was not taken."""

    ops_s: float | None
    p50_ms: float | None = None
    p99_ms: float | None = None
    refused: str = ""


class Recorded(NamedTuple):
    """One row of both kinds of store."""

    local: Figures | None
    postgres: Figures | None


LAKEFS: dict[str, Recorded] = {
    "upload-one:1": Recorded(Figures(96, 10.2, 14), Figures(78, 11.6, 41)),
    "upload-one:4": Recorded(Figures(369, 10.6, 14), Figures(297, 12.6, 31)),
    "upload-one:16": Recorded(Figures(1_398, 11.4, 15), Figures(1_178, 12.8, 32)),
    "upload-one:64": Recorded(Figures(4_728, 12.2, 34), Figures(4_056, 14.9, 36)),
    "upload-own:1": Recorded(Figures(87, 10.4, 33), Figures(88, 11.1, 14)),
    "upload-own:16": Recorded(Figures(1_246, 12.0, 39), Figures(1_175, 13.2, 31)),
    "upload-own:64": Recorded(Figures(2_840, 18.4, 74), Figures(2_232, 27.2, 55)),
    "stage:64": Recorded(Figures(7_355, 7.7, 23), Figures(4_457, 13.1, 34)),
    "stat-staged:1": Recorded(Figures(282, 3.5, 4.4), Figures(249, 3.9, 6.4)),
    "stat-staged:64": Recorded(Figures(7_416, 7.0, 34), Figures(5_648, 9.4, 37)),
    "stat-committed:1": Recorded(Figures(270, 3.6, 6.7), Figures(246, 4.0, 4.8)),
    "stat-committed:64": Recorded(Figures(3_803, 12.3, 88), Figures(4_664, 12.3, 41)),
    "stat-by-hash:1": Recorded(Figures(2_691, 0.32, 1.1), Figures(2_887, 0.31, 0.5)),
    "get-100b:16": Recorded(Figures(3_204, 4.6, 21), Figures(2_252, 6.2, 25)),
    "list-staged:1": Recorded(Figures(107, 8.4, 30), Figures(97, 9.8, 30)),
    "list-committed:1": Recorded(Figures(132, 6.8, 26), Figures(104, 8.2, 37)),
    "create-branch:1": Recorded(Figures(73, 13.4, 17), Figures(68, 14.5, 17)),
    "create-branch:64": Recorded(Figures(2_944, 19.1, 61), Figures(1_972, 30.0, 68)),
    "commit-10:1": Recorded(Figures(None, 12.7, 18), Figures(None, 15.3, 28)),
    "commit-10-on-10k:1": Recorded(Figures(None, 31.1, 82), Figures(None, 40.4, 62)),
    "commit-1000:1": Recorded(Figures(None, 16.1, 18), Figures(None, 18.8, 19)),
    "commit-1000-on-10k:1": Recorded(Figures(None, 49.7, 92), Figures(None, 45.6, 49)),
    "commit-100k:1": Recorded(Figures(None, 352), None),
    "upload-commit-own:16": Recorded(Figures(419, 18.6, 81), Figures(249, 39.6, 91)),
    "upload-commit-one:1": Recorded(Figures(40, 13.5, 20), Figures(33, 17.2, 30)),
    "upload-commit-one:4": Recorded(
        Figures(51, refused="21 % refused"), Figures(35, refused="29 % refused")
    ),
    "upload-commit-one:16": Recorded(
        Figures(54, refused="61 % refused"), Figures(35, refused="56 % refused")
    ),
    # A fresh key that no other client writes, while others commit on the branch.
    "upload-fresh:16": Recorded(
        Figures(None, refused="42 % refused"), Figures(None, refused="47 % refused")
    ),
    # Two runs; the better one of each figure.
    "merge-10:1": Recorded(Figures(212, 5.0, 8), Figures(108, 8.5, 19)),
    "merge-10:4": Recorded(Figures(89, 4.8, 1_250), Figures(76, 9, 1_020)),
    "merge-10:16": Recorded(Figures(20, 5, 4_440), Figures(26, 12, 4_790)),
    "diff-10-of-10k:1": Recorded(Figures(41, 17, 164), Figures(23, 36, 169)),
    "diff-10-of-100k:1": Recorded(Figures(5.9, 132, 450), None),
    "uncommitted-10-of-100k:1": Recorded(Figures(243, 3.9, 7.8), None),
    "log-100:1": Recorded(None, Figures(1_304, 0.6, 3.0)),
}

RECORDED_SHA256_US = 5.85
"""The time of SHA-256 of 10 KB on the machine of the recorded columns."""

RECORDED_WRITE_MS = "0.07 to 0.12"
"""The time of a synchronised write there, when the machine was quiet."""


class Bar(NamedTuple):
    """What a row has to reach besides not being slower than lakeFS on PostgreSQL."""

    ops_s: float
    p99_ms: float | None = None


BARS: dict[str, Bar] = {
    "upload-one:64": Bar(4_056),
    "upload-commit-one:16": Bar(500),
    "merge-10:16": Bar(400, 200),
}
