"""`python -m benchmarks.report`: writes the tables of docs/performance.md from docs/measured.jsonl.

`python -m benchmarks.report --keep RUN …` first joins the outputs of several runs: of each line the
fastest is kept, with the number of runs and the slowest figure beside it, because on a shared
machine the result of a run depends on the other load as much as on Lochan. `--peers RUN …` takes
outputs of `benchmarks peers` and `benchmarks http` and writes the comparison with its charts, and
`--spark RUN …`, `--access RUN …`, `--files-http RUN …` and `--stores RUN …` those of the commands
of that name.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from benchmarks import access_page, stores_page
from benchmarks.http_files import page as files_page
from benchmarks.http_load import page as compared_page
from benchmarks.measure import Line
from benchmarks.spark import page as spark_page

DOCS = Path(__file__).parent.parent / "docs"
MEASURED = DOCS / "measured.jsonl"
PAGE = DOCS / "performance.md"

_SECTION = re.compile(r"(<!-- measured: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_NAMES = ("benchmark", "universe", "elements", "changes", "workload", "puts", "keys")

# The figure by which runs of one line are compared; rates are better when higher.
MAIN = {
    "machine": "hash_4kb_us",
    "encode": "ns_per_element",
    "decode": "ns_per_element",
    "find": "us",
    "splice": "us",
    "build": "keys_per_s",
    "build_on_rocksdb": "keys_per_s",
    "build_parallel": "keys_per_s",
    "lookup": "leaf_from_store_us",
    "page": "leaves_from_store_us",
    "scan": "keys_per_s",
    "edit": "us",
    "difference": "nothing_cached_ms",
    "change": "cpu_us",
    "change_stages": "splice_and_spill_us",
}
SIZES = (1_000, 100_000, 1_000_000)
WORKLOADS = {"random": "new random keys", "updates": "updates of 5,000 neighbours"}


def keep_best(runs: Iterable[Sequence[Line]]) -> list[Line]:
    """Joins runs: of each line the best one, and how far the others were from it."""
    found: dict[tuple[object, ...], list[Line]] = {}
    for run in runs:
        for line in run:
            if line["benchmark"] in MAIN:
                found.setdefault(tuple(line.get(name) for name in _NAMES), []).append(line)
    return [_best(lines) for lines in found.values()]


def _best(lines: list[Line]) -> Line:
    main = MAIN[lines[0]["benchmark"]]
    ordered = sorted(lines, key=lambda line: line[main], reverse=main == "keys_per_s")
    return {**ordered[0], "runs": len(lines), "slowest_run": ordered[-1][main]}


def read_lines(path: Path) -> list[Line]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def render(page: str, lines: Sequence[Line]) -> str:
    """Returns the page with every measured section written anew."""
    figures = Figures(lines)
    return _SECTION.sub(lambda found: found[1] + SECTIONS[found[2]](figures) + found[3], page)


class Figures:
    """The measured lines, found by their fields."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = lines

    def one(self, benchmark: str, **where: object) -> Line:
        fields = {"benchmark": benchmark, **where}
        (line,) = [one for one in self._lines if fields.items() <= one.items()]
        return line

    def growth(self, workload: str, puts: int) -> float:
        small, large = (
            self.one("change", workload=workload, puts=puts, keys=keys)["cpu_us"]
            for keys in (100_000, 1_000_000)
        )
        return large / small


def table(head: str, rows: Iterable[Sequence[object]]) -> str:
    columns = head.count("|") + 1
    lines = [f"| {head} |", "|" + "---|" * columns]
    lines += ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def bars(figures: Figures) -> str:
    million = {"keys": 1_000_000}
    random = figures.one("change", workload="random", puts=1, **million)
    updates = figures.one("change", workload="updates", puts=1, **million)
    page = figures.one("page", **million)["leaves_from_store_us"] / 1e3
    difference = figures.one("difference", **million)["nothing_cached_ms"]
    build = figures.one("build_on_rocksdb", **million)["keys_per_s"] / 1e6
    rows: list[tuple[str, str, float, float]] = [
        ("page of 250, leaves from the store", "ms ≤", 0.3, page),
        ("difference of 10 changes, nothing cached", "ms ≤", 2, difference),
        ("build into RocksDB", "M keys/s ≥", 1, build),
        ("one put, new random keys", "us ≤", 120, random["cpu_us"]),
        ("one put, updates", "us ≤", 70, updates["cpu_us"]),
        ("one put, new random keys, written", "KB ≤", 16, random["kb_written"]),
        ("one put, random, 100k to 1M keys", "times ≤", 1.5, figures.growth("random", 1)),
        ("one put, updates, 100k to 1M keys", "times ≤", 1.3, figures.growth("updates", 1)),
    ]
    shown = [_bar_row(*row) for row in rows]
    missed = [row[0] for row in shown if row[-1] != "met"]
    verdict = f"Missed: {'; '.join(missed)}." if missed else "All are met."
    return table("at 1,000,000 keys | bar | measured | ", shown) + f"\n{verdict}\n"


def _bar_row(name: str, unit: str, bar: float, figure: float) -> list[str]:
    met = figure >= bar if "≥" in unit else figure <= bar
    return [name, f"{unit} {bar:g}", _short(figure), "met" if met else "**missed**"]


def _short(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 20 else f"{figure:.2f}"


def changes(figures: Figures) -> str:
    rows = []
    for puts in (1, 10):
        for workload, called in WORKLOADS.items():
            for keys in SIZES:
                line = figures.one("change", workload=workload, puts=puts, keys=keys)
                us, kb, written, reads = line["prototype_us_kb_rows_reads"]
                rows.append(
                    [
                        f"{called}, {puts} put{'s' * (puts > 1)}",
                        f"{keys:,}",
                        f"{line['cpu_us']:.0f} ({line['slowest_run']:.0f})",
                        us,
                        f"{line['median_us']:.0f}",
                        f"{line['worst_ms']:.1f}",
                        f"{line['kb_written']:.1f} / {kb}",
                        f"{line['rows_written']:.1f} / {written}",
                        f"{line['nodes_read']:.1f} / {reads}",
                    ]
                )
    return table(
        "change | keys | us (slowest run) | prototype us | median us | worst ms "
        "| KB written | rows written | nodes read",
        rows,
    )


def stages(figures: Figures) -> str:
    rows = []
    for workload, called in WORKLOADS.items():
        line = figures.one("change_stages", workload=workload, puts=1, keys=1_000_000)
        rows.append(
            [called]
            + [f"{line[name]:.0f}" for name in ("look_up_us", "splice_and_spill_us", "write_us")]
        )
    return table("one put at 1,000,000 keys | look up us | splice and spill us | write us", rows)


def reads(figures: Figures) -> str:
    rows: list[list[object]] = []
    for keys in SIZES[1:]:
        size = f"{keys:,}"
        lookup = figures.one("lookup", keys=keys)
        for name, theirs in zip(
            ("all_cached_us", "leaf_from_store_us", "nothing_cached_us"),
            lookup["prototype_us"],
            strict=True,
        ):
            called = name.removesuffix("_us").replace("_", " ")
            rows.append([f"lookup, {called}, us", size, _short(lookup[name]), theirs])
        page = figures.one("page", keys=keys)
        store_us, cached_us, nodes = page["prototype_us_us_nodes"]
        rows += [
            [
                "page of 250, leaves from store, us",
                size,
                _short(page["leaves_from_store_us"]),
                store_us,
            ],
            ["page of 250, leaves cached, us", size, _short(page["leaves_cached_us"]), cached_us],
            ["page of 250, nodes read", size, _short(page["nodes_read"]), nodes],
        ]
        scan = figures.one("scan", keys=keys)
        rows.append(["scan, M keys/s", size, *_millions(scan, "prototype_keys_per_s")])
        difference = figures.one("difference", keys=keys)
        nodes, ms = difference["prototype_nodes_ms"]
        rows += [
            ["difference of 10, ms", size, _short(difference["nothing_cached_ms"]), ms],
            ["difference of 10, nodes read", size, difference["nodes_read"], nodes],
            ["edit of 10, us", size, _short(figures.one("edit", keys=keys)["us"]), ""],
        ]
    return table("reading | keys | Lochan | prototype", rows)


def _millions(line: Line, theirs: str) -> list[str]:
    return [f"{line['keys_per_s'] / 1e6:.2f}", f"{line[theirs] / 1e6:.2f}"]


def builds(figures: Figures) -> str:
    rows: list[list[object]] = []
    for keys in SIZES[1:]:
        for universe in ("tables", "files"):
            line = figures.one("build", universe=universe, keys=keys)
            rate, size = line["prototype_keys_per_s_bytes"]
            rows.append(
                [
                    f"{universe}, in memory",
                    f"{keys:,}",
                    f"{line['keys_per_s'] / 1e6:.2f}",
                    f"{rate / 1e6:.2f}",
                    f"{line['bytes_per_element']:.0f} / {size}",
                    f"{line['peak_heap_kb']:,.0f}",
                ]
            )
        line = figures.one("build_on_rocksdb", keys=keys)
        rows.append(
            ["tables, into RocksDB", f"{keys:,}", *_millions(line, "prototype_keys_per_s"), "", ""]
        )
        line = figures.one("build_parallel", keys=keys)
        same = "the same root" if line["same_root"] else "ANOTHER ROOT"
        called = f"tables, {line['parts']} parts in {line['processes']} processes, {same}"
        rows.append([called, f"{keys:,}", f"{line['keys_per_s'] / 1e6:.2f}", "", "", ""])
    return table(
        "build | keys | M keys/s | prototype | bytes per key, both | peak heap KB of 100k keys",
        rows,
    )


def nodes(figures: Figures) -> str:
    rows: list[list[object]] = []
    for universe in ("tables", "files"):
        where = {"universe": universe, "elements": 40}
        for name, figure, called in (
            ("encode", "ns_per_element", "build and encode, ns per element"),
            ("encode", "bytes_per_element", "bytes per element"),
            ("decode", "ns_per_element", "decode, ns per element"),
            ("find", "us", "find in bytes, us"),
            ("splice", "us", "splice, us"),
        ):
            line = figures.one(name, **where)
            theirs = (line["prototype"] or {}).get(figure, "")
            heap = f"{line['peak_heap_bytes']:,}" if figure != "bytes_per_element" else ""
            rows.append([f"{universe}, {called}", _short(line[figure]), theirs, heap])
    return table("node of 40 elements | Lochan | prototype | peak heap bytes", rows)


def machine(figures: Figures) -> str:
    line = figures.one("machine")
    return (
        f"CPython {line['python']}, {line['cores']} shared cores; SHA-256 of 4 KB takes "
        f"{line['hash_4kb_us']:.1f} us there.\n"
    )


SECTIONS: dict[str, Callable[[Figures], str]] = {
    "bars": bars,
    "changes": changes,
    "stages": stages,
    "reads": reads,
    "builds": builds,
    "nodes": nodes,
    "machine": machine,
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__)
    parser.add_argument("--keep", nargs="+", type=Path, metavar="RUN", help="outputs to join")
    parser.add_argument("--peers", nargs="+", type=Path, metavar="RUN", help="outputs of peers")
    parser.add_argument("--spark", nargs="+", type=Path, metavar="RUN", help="outputs of spark")
    parser.add_argument("--access", nargs="+", type=Path, metavar="RUN", help="outputs of access")
    parser.add_argument("--stores", nargs="+", type=Path, metavar="RUN", help="outputs of stores")
    parser.add_argument("--files-http", nargs="+", type=Path, metavar="RUN", help="of files-http")
    chosen = parser.parse_args(arguments)
    if chosen.keep:
        best = keep_best([read_lines(path) for path in chosen.keep])
        _store(MEASURED, best)
    if chosen.peers:
        runs = [line for path in chosen.peers for line in compared_page.read_lines(path)]
        kept = compared_page.keep(compared_page.read_lines(compared_page.MEASURED), runs)
        _store(compared_page.MEASURED, kept)
    if chosen.spark:
        runs = [line for path in chosen.spark for line in spark_page.read_lines(path)]
        kept = spark_page.keep(spark_page.read_lines(spark_page.MEASURED), runs)
        _store(spark_page.MEASURED, kept)
    if chosen.access:
        runs = [line for path in chosen.access for line in access_page.read_lines(path)]
        kept = access_page.keep(access_page.read_lines(access_page.MEASURED), runs)
        _store(access_page.MEASURED, kept)
    if chosen.stores:
        runs = [line for path in chosen.stores for line in stores_page.read_lines(path)]
        kept = stores_page.keep(stores_page.read_lines(stores_page.MEASURED), runs)
        _store(stores_page.MEASURED, kept)
    if chosen.files_http:
        runs = [line for path in chosen.files_http for line in files_page.read_lines(path)]
        _store(
            files_page.MEASURED, files_page.keep(files_page.read_lines(files_page.MEASURED), runs)
        )
    compared = compared_page.read_lines(compared_page.MEASURED)
    for name, drawn in compared_page.charts(compared).items():
        (DOCS / name).write_text(drawn, "utf-8")
    written = render(PAGE.read_text("utf-8"), read_lines(MEASURED))
    written = compared_page.render(written, compared)
    written = spark_page.render(written, spark_page.read_lines(spark_page.MEASURED))
    written = access_page.render(written, access_page.read_lines(access_page.MEASURED))
    written = files_page.render(written, files_page.read_lines(files_page.MEASURED))
    written = stores_page.render(written, stores_page.read_lines(stores_page.MEASURED))
    PAGE.write_text(written, "utf-8")


def _store(path: Path, lines: Iterable[Line]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


if __name__ == "__main__":
    main()
