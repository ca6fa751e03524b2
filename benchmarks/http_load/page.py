"""Writes the comparison into docs/performance.md from docs/measured-peers.jsonl.

It stores medians of the quiet windows, one line for each server and row; lines of
a newer run replace those of the same thing, all others stay.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from benchmarks.http_load import tables
from benchmarks.http_load.chart import draw
from benchmarks.measure import Line
from benchmarks.peers import summarise

DOCS = Path(__file__).parents[2] / "docs"
MEASURED = DOCS / "measured-peers.jsonl"

STORES = {"rocksdb": "RocksDB", "postgres": "PostgreSQL"}

_SECTION = re.compile(r"(<!-- compared: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_NAMES = (
    *("benchmark", "store", "authenticated", "server"),
    *("workload", "clients", "pairs", "simulation", "puts"),
)
_KEPT = {"asymmetric", "generated", "simulated"}


def read_lines(path: Path) -> list[Line]:
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line]


def keep(known: Sequence[Line], measured: Iterable[Line]) -> list[Line]:
    """Adds new windows to the stored lines."""
    measured = list(measured)
    new = summarise(measured) + [line for line in measured if line["benchmark"] in _KEPT]
    joined = {_identity(line): line for line in known}
    joined.update({_identity(line): line for line in new})
    return list(joined.values())


def _identity(line: Line) -> tuple[object, ...]:
    return tuple(line.get(name) for name in _NAMES)


def render(page: str, lines: Sequence[Line]) -> str:
    """Returns the page with every compared section written anew."""
    return _SECTION.sub(lambda found: found[1] + SECTIONS[found[2]](lines) + found[3], page)


def charts(lines: Sequence[Line]) -> dict[str, str]:
    """Returns the name and content of each chart for which there is something to draw."""
    found = {store: tables.pairs(lines, store) for store in STORES}
    return {
        f"peers-{store}.svg": draw(f"Lochan and Nessie on {STORES[store]}", pairs)
        for store, pairs in found.items()
        if pairs
    }


def _compared(store: str) -> Callable[[Sequence[Line]], str]:
    def section(lines: Sequence[Line]) -> str:
        table = tables.ratio_table(lines, store)
        name = f"peers-{store}.svg"
        shown = f"\n![Operations per second on {STORES[store]}]({name})\n"
        return table + (shown if name in charts(lines) else "")

    return section


def _authenticated(lines: Sequence[Line]) -> str:
    """Returns the comparison on RocksDB while Lochan asks who calls and Nessie does not."""
    return tables.ratio_table(lines, "rocksdb", authenticated=True)


SECTIONS: dict[str, Callable[[Sequence[Line]], str]] = {
    "promises": tables.bars,
    **{store: _compared(store) for store in STORES},
    "authenticated": _authenticated,
    "generated": tables.generated,
    "asymmetric": tables.asymmetric,
    "simulated": tables.simulated,
}
