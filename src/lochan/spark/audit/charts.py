"""Charts of a report as SVG, drawn by hand: bars, a tally and a time line.

Pure, numbers in and text out. Colours are classes that the page defines for light and for dark;
every text is escaped here, and every chart has a title for screen readers.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

import msgspec

_WIDTH: Final = 720
_LABELS: Final = 220
_FIGURES: Final = 110
_ROW: Final = 26
_BAR: Final = 16
_LABEL_CHARACTERS: Final = 30
_SLIVER: Final = 1.5
_TICKS: Final = 5


class Bar(msgspec.Struct, frozen=True):
    """One bar: its label, its length, and the text behind it."""

    label: str
    value: float
    text: str


class Span(msgspec.Struct, frozen=True):
    """One stretch of a time line, in seconds from its beginning."""

    label: str
    start_s: float
    length_s: float
    colour: str = "plain"


def plain(text: str) -> str:
    """Returns a text that is safe in HTML; control characters are shown as escapes."""
    if not text.isprintable():
        text = "".join(
            character if character.isprintable() or character == "\n" else repr(character)[1:-1]
            for character in text
        )
    return escape(text, quote=True)


def bars(title: str, items: Sequence[Bar]) -> str:
    """Returns horizontal bars, one below the other."""
    most = max((bar.value for bar in items), default=0) or 1
    width = _WIDTH - _LABELS - _FIGURES
    parts = []
    for number, bar in enumerate(items):
        top = number * _ROW
        length = max(_SLIVER, bar.value / most * width) if bar.value > 0 else 0
        parts.append(_row(bar.label, _LABELS, top, length, "plain", bar.text))
    return _svg(title, len(items) * _ROW, parts)


def tally(title: str, counts: Sequence[tuple[str, int]]) -> str:
    """Returns one bar that is made of parts, with a legend below it."""
    total = sum(count for _, count in counts) or 1
    parts = []
    left = legend = 0.0
    for name, count in counts:
        if not count:
            continue
        length = count / total * _WIDTH
        parts.append(_rect(left, 0, length - 2, name, f"{count} {name}"))
        parts.append(_rect(legend, _ROW, 10, name, name))
        parts.append(_text(legend + 16, _ROW, f"{count} {name}", "figure"))
        left += length
        legend += 130
    return _svg(title, 2 * _ROW, parts)


def timeline(title: str, spans: Sequence[Span]) -> str:
    """Returns stretches of time, one below the other, on a scale in seconds."""
    end_s = max((span.start_s + span.length_s for span in spans), default=0) or 1
    width = _WIDTH - _LABELS - _FIGURES
    bottom = len(spans) * _ROW
    parts = []
    for tick in range(_TICKS + 1):
        x = _LABELS + width * tick / _TICKS
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="0" x2="{x:.1f}" y2="{bottom}"/>')
        parts.append(_text(x, bottom, f"{end_s * tick / _TICKS:.1f} s", "tick"))
    for number, span in enumerate(spans):
        top = number * _ROW
        x = _LABELS + span.start_s / end_s * width
        length = max(_SLIVER, span.length_s / end_s * width)
        parts.append(_row(span.label, x, top, length, span.colour, f"{span.length_s:.2f} s"))
    return _svg(title, bottom + _ROW, parts)


def _svg(title: str, height: float, parts: Sequence[str]) -> str:
    shown = plain(title)
    return (
        f'<svg role="img" aria-label="{shown}" viewBox="0 0 {_WIDTH} {height:.0f}" '
        f'width="{_WIDTH}" height="{height:.0f}"><title>{shown}</title>{"".join(parts)}</svg>'
    )


def _row(label: str, x: float, top: float, length: float, colour: str, text: str) -> str:
    """Returns a label, a bar, and the text behind the bar."""
    short = label if len(label) <= _LABEL_CHARACTERS else label[: _LABEL_CHARACTERS - 1] + "…"
    bar = _rect(x, top, length, colour, f"{label}: {text}")
    figure = _text(x + length + 8, top, text, "figure")
    return _text(_LABELS - 10, top, short, "label") + bar + figure


def _text(x: float, top: float, text: str, kind: str) -> str:
    y = top + _BAR - 3
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{plain(text)}</text>'


def _rect(x: float, top: float, length: float, colour: str, text: str) -> str:
    return (
        f'<rect class="{plain(colour)}" x="{x:.1f}" y="{top}" width="{max(length, 0):.1f}" '
        f'height="{_BAR}" rx="2"><title>{plain(text)}</title></rect>'
    )
