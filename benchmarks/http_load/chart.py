"""A bar chart as a small SVG, drawn by hand: two bars a row, on a logarithmic axis.

No library, no script, no style sheet: it is shown wherever Markdown is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log10
from xml.sax.saxutils import escape

from benchmarks.http_load.tables import Pair, short

_LEFT, _WIDTH, _RIGHT = 230, 420, 150
_ROW, _BAR, _TOP = 34, 12, 48
_OURS, _THEIRS, _GREY = "#1f77b4", "#c7c7c7", "#666666"


def draw(title: str, pairs: Sequence[Pair]) -> str:
    """Returns operations per second of both servers as an SVG document."""
    rates = [float(line["ops_s"]) for pair in pairs for line in (pair.ours, pair.theirs)]
    low = floor(log10(max(1.0, min(rates))))
    high = max(low + 1, floor(log10(max(rates))) + 1)

    def place(rate: float) -> float:
        return round(_WIDTH * (log10(max(rate, 10**low)) - low) / (high - low), 1)

    height = _TOP + _ROW * len(pairs) + 24
    size = f'width="{_LEFT + _WIDTH + _RIGHT}" height="{height}"'
    font = 'font-family="sans-serif" font-size="12"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>',
        f'<rect width="100%" height="{height}" fill="white"/>',
        _text(8, 18, title, weight="bold"),
        _text(8, 36, "operations per second, logarithmic; blue is Lochan, grey is Nessie"),
    ]
    for power in range(low, high + 1):
        x = _LEFT + place(10**power)
        parts.append(f'<path d="M{x} {_TOP}V{height - 20}" stroke="#e5e5e5"/>')
        parts.append(_text(x, height - 6, f"{10**power:,}", anchor="middle", colour=_GREY))
    for number, pair in enumerate(pairs):
        y = _TOP + number * _ROW
        parts.append(_text(_LEFT - 8, y + 19, pair.called, anchor="end"))
        for line, colour, at in ((pair.ours, _OURS, y + 3), (pair.theirs, _THEIRS, y + 16)):
            width = place(line["ops_s"])
            parts.append(
                f'<rect x="{_LEFT}" y="{at}" width="{width}" height="{_BAR}" fill="{colour}"/>'
            )
            parts.append(_text(_LEFT + width + 4, at + 10, short(line["ops_s"]), colour=_GREY))
        parts.append(
            _text(_LEFT + _WIDTH + _RIGHT - 8, y + 19, f"{short(pair.faster)} times", anchor="end")
        )
    return "\n".join([*parts, "</svg>", ""])


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", colour: str = "black", weight: str = ""
) -> str:
    bold = f' font-weight="{weight}"' if weight else ""
    return (
        f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{colour}"{bold}>{escape(text)}</text>'
    )
