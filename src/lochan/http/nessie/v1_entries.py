"""Entries of version 1 cut to a depth: deeper ones are listed once, as their namespace."""

from __future__ import annotations

from collections.abc import Iterable

from lochan.model.results import Entry


def entries_of_depth(entries: Iterable[Entry], depth: int) -> tuple[Entry, ...]:
    """Returns the entries of a depth; of deeper ones the namespaces of that depth, each once."""
    found: list[Entry] = []
    seen: set[tuple[str, ...]] = set()
    for entry in entries:
        if len(entry.key) < depth:
            continue
        if len(entry.key) > depth:
            entry = Entry(entry.key[:depth], "NAMESPACE", "")
        if entry.type == "NAMESPACE":
            if entry.key in seen:
                continue
            seen.add(entry.key)
        found.append(entry)
    return tuple(found)
