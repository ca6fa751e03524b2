"""Tables of the comparison, for terminals and for docs/performance.md."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from benchmarks.http_load.rows import ROWS
from benchmarks.measure import Line

NOTHING = "Not measured yet.\n"


def markdown(head: Sequence[str], body: Iterable[Sequence[object]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    lines += [f"| {' | '.join(map(str, row))} |" for row in body]
    return "\n".join(lines) + "\n"


def short(figure: float) -> str:
    """Returns a figure with as many digits as it deserves."""
    if figure >= 20:
        return f"{figure:,.0f}"
    return f"{figure:.1f}" if figure >= 2 else f"{figure:.2f}"


class Pair:
    """One row as both servers did it."""

    def __init__(self, ours: Line, theirs: Line) -> None:
        self.ours = ours
        self.theirs = theirs
        self.workload: str = ours["workload"]
        self.clients: int = ours["clients"]

    @property
    def called(self) -> str:
        return f"{ROWS[self.workload][1]} : {self.clients}"

    @property
    def quiet(self) -> bool:
        return bool(self.ours["quiet_rounds"] and self.theirs["quiet_rounds"])

    @property
    def faster(self) -> float:
        return float(self.ours["ops_s"]) / max(1e-9, self.theirs["ops_s"])

    @property
    def sooner(self) -> float:
        """Returns how many times longer the slowest hundredth waits for the other."""
        return float(self.theirs["p99_ms"]) / max(1e-9, self.ours["p99_ms"])


def pairs(lines: Iterable[Line], store: str, *, authenticated: bool = False) -> list[Pair]:
    """Returns the rows that both servers have done, in the order of the first lines."""
    found: dict[tuple[str, int], dict[str, Line]] = {}
    for line in lines:
        if (line["benchmark"], line["store"]) != ("peer", store):
            continue
        if line.get("authenticated", False) == authenticated:
            found.setdefault((line["workload"], line["clients"]), {})[line["server"]] = line
    return [Pair(both["lochan"], both["nessie"]) for both in found.values() if len(both) == 2]


def ratio_table(lines: Iterable[Line], store: str, *, authenticated: bool = False) -> str:
    """Returns operations per second and latencies of both, and how many times better ours are."""
    body = [
        [
            pair.called + ("" if pair.quiet else " (disturbed)"),
            *(_figures(line) for line in (pair.ours, pair.theirs)),
            short(pair.faster),
            short(pair.sooner),
            " / ".join(f"{line['server_cpu_us_per_op']:,.0f}" for line in (pair.ours, pair.theirs)),
        ]
        for pair in pairs(lines, store, authenticated=authenticated)
    ]
    head = ["workload : clients", "Lochan, ops/s, p50/p99 ms", "Nessie, the same"]
    head += ["ops/s, times", "p99, times", "server CPU us per operation, both"]
    return markdown(head, body) if body else NOTHING


def _figures(line: Line) -> str:
    return f"{short(line['ops_s'])}, {short(line['p50_ms'])}/{short(line['p99_ms'])}"


def bars(lines: Sequence[Line]) -> str:
    """Returns every promise of the comparison and whether it was kept."""
    body = []
    for name, bar, check in BARS:
        summary = check(lines)
        if summary is not None:
            figure, kept = summary
            body.append([name, bar, figure, "met" if kept else "**missed**"])
    return markdown(["promise", "bar", "measured", ""], body) if body else NOTHING


Check = Callable[[Sequence[Line]], tuple[str, bool] | None]


def _row(store: str, workload: str, clients: int, least: float) -> Check:
    def check(lines: Sequence[Line]) -> tuple[str, bool] | None:
        for pair in pairs(lines, store):
            if (pair.workload, pair.clients) == (workload, clients):
                return short(pair.faster), pair.faster >= least
        return None

    return check


def _figure(store: str, workload: str, clients: int, name: str, bar: float) -> Check:
    """Our own figure of a row; a rate must reach its bar, a latency must stay below."""

    def check(lines: Sequence[Line]) -> tuple[str, bool] | None:
        for pair in pairs(lines, store):
            if (pair.workload, pair.clients) == (workload, clients):
                figure = pair.ours[name]
                return short(figure), figure >= bar if name == "ops_s" else figure <= bar
        return None

    return check


def _every_row(store: str) -> Check:
    def check(lines: Sequence[Line]) -> tuple[str, bool] | None:
        found = pairs(lines, store)
        if not found:
            return None
        behind = [one.called for one in found if one.faster < 1 or one.sooner < 1]
        return (f"behind: {'; '.join(behind)}" if behind else f"{len(found)} rows"), not behind

    return check


def _idle(name: str, bar: float) -> Check:
    def check(lines: Sequence[Line]) -> tuple[str, bool] | None:
        found = [one for one in lines if one["benchmark"] == "peer_idle"]
        ours = [line[name] for line in found if line["server"] == "lochan"]
        theirs = [line[name] for line in found if line["server"] == "nessie"]
        if not ours or not theirs:
            return None
        return f"{short(max(ours))} (Nessie: {short(min(theirs))})", max(ours) <= bar

    return check


def _deciles(lines: Sequence[Line]) -> tuple[str, bool] | None:
    found = [
        line["first_to_last"]
        for line in lines
        if line["benchmark"] == "generated" and line["server"] == "lochan"
    ]
    return (short(max(found)), 0 < max(found) <= 1.5) if found else None


def _asymmetric(lines: Sequence[Line]) -> tuple[str, bool] | None:
    found = [
        line["small_to_large"]
        for line in lines
        if line["benchmark"] == "asymmetric" and line["server"] == "lochan"
    ]
    if not found:
        return None
    summary = ", ".join(f"{ratio:.2f}" for ratio in found)
    return summary, 0.8 <= min(found) and max(found) <= 1.25


BARS: list[tuple[str, str, Check]] = [
    ("RocksDB, 64 clients on one branch", "times ≥ 20", _row("rocksdb", "commit-one", 64, 20)),
    ("… commits/s", "≥ 6,000", _figure("rocksdb", "commit-one", 64, "ops_s", 6_000)),
    ("… p99 ms", "≤ 50", _figure("rocksdb", "commit-one", 64, "p99_ms", 50)),
    ("RocksDB, 64 clients, a branch each", "times ≥ 4", _row("rocksdb", "commit-own", 64, 4)),
    ("RocksDB, no row slower, p99 lower in every row", "all", _every_row("rocksdb")),
    ("PostgreSQL, 64 clients on one branch", "times ≥ 20", _row("postgres", "commit-one", 64, 20)),
    ("PostgreSQL, 64 clients, a branch each", "times ≥ 4", _row("postgres", "commit-own", 64, 4)),
    ("PostgreSQL, no row slower, p99 lower in every row", "all", _every_row("postgres")),
    ("resident memory when idle, MB", "≤ 120", _idle("resident_mb", 120)),
    ("start until ready, s", "≤ 1.5", _idle("ready_s", 1.5)),
    ("generator workloads, first decile to last", "times ≤ 1.5", _deciles),
    ("small to large committers", "0.8 to 1.25", _asymmetric),
]


def generated(lines: Sequence[Line]) -> str:
    """Returns commits per second of each tenth of the generator workloads."""
    body = [
        [
            f"{line['workload']}, {line['server']} on {line['store']}",
            f"{line['commits']:,} commits of {line['puts']}, {line['keys']:,} keys",
            " ".join(f"{rate:,.0f}" for rate in line["commits_s_by_decile"]),
            short(line["first_to_last"]),
            short(line["p99_ms"]),
        ]
        for line in lines
        if line["benchmark"] == "generated"
    ]
    head = ["workload", "size", "commits/s of each decile", "first to last", "p99 ms"]
    return markdown(head, body) if body else NOTHING


def asymmetric(lines: Sequence[Line]) -> str:
    body = [
        [
            f"{line['server']} on {line['store']}",
            line["pairs"],
            short(line["small_commits_s"]),
            short(line["large_commits_s"]),
            f"{line['small_to_large']:.2f}",
        ]
        for line in lines
        if line["benchmark"] == "asymmetric"
    ]
    head = ["server", "pairs", "commits/s of 1 put", "of 10 puts", "small to large"]
    return markdown(head, body) if body else NOTHING


def simulated(lines: Sequence[Line]) -> str:
    body = []
    for line in lines:
        if line["benchmark"] == "simulated":
            kinds = sorted(key.removesuffix("_p99_ms") for key in line if key.endswith("_p99_ms"))
            summary = [
                f"{kind} {short(line[f'{kind}_ops_s'])}/s, p99 {short(line[f'{kind}_p99_ms'])} ms"
                for kind in kinds
            ]
            where = f"{line['server']} on {line['store']}"
            body.append([line["simulation"], where, line["users"], "; ".join(summary)])
    return markdown(["simulation", "server", "users", "measured"], body) if body else NOTHING
