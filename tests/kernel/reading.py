"""Looks into commits that are known to be real ones."""

from __future__ import annotations

from typing import Any

from lochan.codec.commits import CommitObject
from lochan.kernel.publish import Published, Settled
from lochan.kernel.views import CommitView


def body_of(view: CommitView) -> CommitObject:
    assert view.body is not None
    return view.body


def message_of(view: CommitView) -> str:
    return body_of(view).message


def published(settled: Settled) -> Published:
    assert isinstance(settled, Published)
    return settled


def any_of(value: object) -> Any:
    """Takes a value for what the test knows it to be."""
    return value
