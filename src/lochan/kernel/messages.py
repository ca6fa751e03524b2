"""Messages of commits that are made from other commits: they quote titles and list them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lochan.base.limits.commits import MESSAGE_BYTES_MAX
from lochan.kernel.views import CommitView

# What another message quotes of a title.
_TITLE_CHARACTERS_MAX: Final = 100


def title_of(view: CommitView) -> str:
    """Returns the first line of a commit's message, as other messages quote it."""
    return "" if view.body is None else view.body.message.partition("\n")[0][:_TITLE_CHARACTERS_MAX]


def listing(message: str, lines: Sequence[str]) -> str:
    """Returns a message with lines below it, as many as a message may hold."""
    bytes_left = MESSAGE_BYTES_MAX - len(
        f"{message}\n\n{_more(len(lines))}".encode("utf-8", "replace")
    )
    count = 0
    for line in lines:
        bytes_left -= len(f"{line}\n".encode("utf-8", "replace"))
        if bytes_left < 0:
            break
        count += 1
    if count == 0:
        return message
    rest = [] if count == len(lines) else [_more(len(lines) - count)]
    return "\n".join([message, "", *lines[:count], *rest])


def _more(count: int) -> str:
    return f"… and {count} more"
