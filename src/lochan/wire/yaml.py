"""Writes plain values as YAML; only what the OpenAPI document needs, and nothing is ever read."""

from __future__ import annotations

import json
import re
from typing import Any, Final

_PLAIN: Final = re.compile(r"[A-Za-z/$][A-Za-z0-9_./{}$ -]*[A-Za-z0-9_}]|[A-Za-z]")
_WORDS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


def to_yaml(value: dict[str, Any]) -> str:
    """Returns a document; texts are quoted wherever they could be read as something else."""
    lines: list[str] = []
    # A stack of what is still to be written: indentation, text before it, value.
    todo: list[tuple[int, str, Any]] = [(0, "", value)]
    while todo:
        depth, lead, each = todo.pop()
        if isinstance(each, dict) and each:
            if lead:
                lines.append(lead)
            todo.extend(
                (depth + 1, f"{_indent(depth)}{_text(name)}:", inner)
                for name, inner in reversed(each.items())
            )
        elif isinstance(each, list | tuple) and each:
            lines.append(lead)
            for inner in each:
                lines.append(f"{_indent(depth)}- {_flow(inner)}")
        else:
            lines.append(f"{lead} {_flow(each)}")
    return "\n".join(lines) + "\n"


def _indent(depth: int) -> str:
    return "  " * depth


def _flow(value: Any) -> str:
    """Writes a value in one line; JSON is YAML."""
    if isinstance(value, str):
        return _text(value)
    return json.dumps(value, ensure_ascii=False)


def _text(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS and ": " not in text:
        return text if "{" not in text and "}" not in text else json.dumps(text)
    return json.dumps(text, ensure_ascii=False)
