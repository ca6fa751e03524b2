"""The page of a report: HTML in one piece, readable in light and dark, without any script.

Whatever comes from data, names or errors passes through `charts.plain`; the policy in the head
forbids the page to load or to run anything, should that ever fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, get_args

from lochan.spark.audit.charts import Bar, Span, bars, plain, tally, timeline
from lochan.spark.audit.report import MEANINGS, Report
from lochan.spark.audit.verdicts import Result, Status

_SHORT: Final = 12

_BADGES: Final = {"published": " good", "unchanged": " good", "running": " open"}

_STYLE: Final = """
:root{color-scheme:light dark;--ink:#1c2128;--faint:#626b76;--paper:#fbfbfa;--card:#fff;
--line:#dfe2e6;--passed:#22814a;--failed:#c02b37;--error:#b45a00;--missing:#7a5bb5;--plain:#3b74b8}
@media(prefers-color-scheme:dark){:root{--ink:#e3e6ea;--faint:#98a1ac;--paper:#14171b;
--card:#1c2026;--line:#333a43;
--passed:#4cc17c;--failed:#ff6b74;--error:#f0a04b;--missing:#b59bec;--plain:#6fa8ea}}
*{box-sizing:border-box}body{margin:0;background:var(--paper);color:var(--ink);
font:15px/1.5 system-ui,sans-serif}main{max-width:60rem;margin:0 auto;padding:2rem 1.25rem 4rem}
h1{font-size:1.5rem;margin:0 0 .25rem}h2{font-size:1.05rem;margin:2rem 0 .6rem}
p{margin:.25rem 0}.faint{color:var(--faint)}code{font:.9em ui-monospace,monospace}
.badge{display:inline-block;padding:.1rem .7rem;border-radius:1rem;color:var(--card);
font-weight:600;background:var(--failed);vertical-align:middle}.badge.good{background:var(--passed)}
.badge.open{background:var(--plain)}
.reason{border-left:4px solid var(--failed);padding:.5rem .8rem;background:var(--card);
overflow-wrap:anywhere;white-space:pre-wrap}
.card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:1rem;
overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.92rem}
th{text-align:left;color:var(--faint);font-weight:500}
th,td{padding:.35rem .8rem .35rem 0;border-bottom:1px solid var(--line);vertical-align:top;
overflow-wrap:anywhere}tr:last-child td{border-bottom:0}td.number,th.number{text-align:right}
.status{white-space:nowrap;font-weight:600}.status.passed{color:var(--passed)}
.status.failed{color:var(--failed)}.status.error{color:var(--error)}
.status.missing{color:var(--missing)}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1.2rem;margin:0}
dt{color:var(--faint)}dd{margin:0;overflow-wrap:anywhere}svg{max-width:100%;height:auto}
svg text{font:12px system-ui,sans-serif;fill:var(--ink)}svg .label{text-anchor:end}
svg .tick{text-anchor:middle;fill:var(--faint)}svg .grid{stroke:var(--line)}
svg .plain{fill:var(--plain)}svg .passed{fill:var(--passed)}svg .failed{fill:var(--failed)}
svg .error{fill:var(--error)}svg .missing{fill:var(--missing)}
"""

_MARKS: Final[dict[Status, str]] = {"passed": "✓", "failed": "✗", "error": "!", "missing": "?"}


def page(report: Report) -> str:
    """Returns the whole page."""
    title = f"Audit of {report.target}: {report.outcome}"
    published = "was" if report.is_published else "would have been"
    parts = [
        _head(report),
        _section("Checks", _checks(report)),
        _section("Rows by table", _tables(report)),
        _section("Steps", _steps(report)),
        _section(f"What {published} published", _changes(report)),
        _section("Commits", _commits(report)),
    ]
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"{mark(report.outcome, report.target, report.job)}"
        f"<title>{plain(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


def mark(outcome: str, target: str, job: str) -> str:
    """Returns the element in the head of a page by which programs identify its audit."""
    return f'<meta name="lochan-audit" content="{plain(f"{outcome} {target} {job}")}">'


def _head(report: Report) -> str:
    badge = _BADGES.get(report.outcome, "")
    reason = f'<p class="reason">{plain(report.reason)}</p>' if report.reason else ""
    job = f" · job <code>{plain(report.job)}</code>" if report.job else ""
    return (
        f"<h1>Audit of <code>{plain(report.target)}</code> "
        f'<span class="badge{badge}">{plain(report.outcome)}</span></h1>'
        f"<p>{plain(MEANINGS[report.outcome])}.</p>{reason}"
        f'<p class="faint">{plain(report.begun)} · {report.seconds:.1f} s{job}</p>'
    )


def _section(title: str, body: str) -> str:
    return f'\n<h2>{plain(title)}</h2>\n<div class="card">{body}</div>' if body else ""


def _checks(report: Report) -> str:
    if not report.checks and not report.unchecked:
        return "<p>No check was run.</p>"
    counts = [
        (status, sum(result.status == status for result in report.checks))
        for status in get_args(Status)
    ]
    rows = [_check(result) for result in report.checks]
    rows += [
        '<tr><td class="status faint">none</td>'
        f"<td>{plain(waiver.table)}</td><td></td><td>declared unchecked: {plain(waiver.why)}</td>"
        '<td></td><td class="number"></td></tr>'
        for waiver in report.unchecked
    ]
    heads = ("", "check", "how", "observed", "wanted", "seconds")
    drawn = tally("How many checks passed", counts) if report.checks else ""
    return drawn + _table(heads, rows)


def _check(result: Result) -> str:
    seen = f"{plain(result.observed)} {plain(result.detail)}".strip()
    return (
        f'<tr><td class="status {result.status}">{_MARKS[result.status]} {result.status}</td>'
        f"<td>{plain(result.check)}</td><td>{plain(result.how)}</td><td>{seen}</td>"
        f'<td>{plain(result.expected)}</td><td class="number">{result.seconds:.2f}</td></tr>'
    )


def _tables(report: Report) -> str:
    if not report.tables:
        return "<p>Nothing was written.</p>"
    drawn = bars(
        "Rows written by table",
        [Bar(table.table, table.rows, f"{table.rows:,} rows") for table in report.tables],
    )
    rows = [
        f"<tr><td>{plain(table.table)}</td><td>{plain(table.mode)}</td>"
        f'<td class="number">{table.rows:,}</td><td class="number">{table.files:,}</td>'
        f'<td class="number">{table.bytes:,}</td>'
        f"<td><code>{plain(table.commit[:_SHORT])}</code></td>"
        f"<td>{'was done before' if table.was_done_before else ''}</td></tr>"
        for table in report.tables
    ]
    return drawn + _table(("table", "mode", "#rows", "#files", "#bytes", "commit", ""), rows)


def _steps(report: Report) -> str:
    spans = [
        Span(
            f"{step.name} {step.detail}".strip(),
            step.start_s,
            step.seconds,
            "failed" if step.status == "failed" else "plain",
        )
        for step in report.steps
    ]
    return timeline("When each step ran", spans) if spans else ""


def _changes(report: Report) -> str:
    rows = [
        f"<tr><td>{change.change}</td><td>{plain('.'.join(change.key))}</td>"
        f"<td>{plain(change.before)}</td><td>{plain(change.after)}</td></tr>"
        for change in report.changes
    ]
    if not rows:
        return "<p>Nothing differs from the target.</p>"
    more = report.changes_total - len(rows)
    rest = f'<p class="faint">and {more:,} more</p>' if more > 0 else ""
    return _table(("", "key", "before", "after"), rows) + rest


def _commits(report: Report) -> str:
    rows = (
        ("target when the audit began", report.commits.base),
        ("checked commit", report.commits.audited),
        ("target when it was checked", report.commits.target),
        ("published", report.commits.published or "nothing"),
        ("branch", report.branch),
        ("way", report.publish),
        ("attempts", str(report.attempts)),
    )
    return (
        "<dl>"
        + "".join(
            f"<dt>{name}</dt><dd><code>{plain(value)}</code></dd>" for name, value in rows if value
        )
        + "</dl>"
    )


def _table(heads: Sequence[str], rows: Sequence[str]) -> str:
    cells = "".join(
        f'<th class="number">{head[1:]}</th>' if head.startswith("#") else f"<th>{head}</th>"
        for head in heads
    )
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
