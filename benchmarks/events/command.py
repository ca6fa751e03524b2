"""Measures what events cost the requests that cause them, and how far their receivers are behind.

    python -m benchmarks events                                     all parts
    python -m benchmarks events --part subscribers --rounds 2       a quick look at one

`subscribers`: commits per second without subscribers, beside five that accept everything (one of
them never returns from its first call), beside five whose filters match nothing, and beside one
that gets everything at least once. The four servers are up at the same time and take turns, so that
a change of the machine hits all of them.

`followers`: the time from the answer of a commit to its event at the followers of `/events/v1`:
1,000 followers at 10 commits per second, and 100 at 100; and how often the store was read.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from benchmarks.events import followers, subscribers
from benchmarks.measure import emit_machine


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks events",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--rounds", type=int, default=5, help="of `subscribers`; default: 5")
    parser.add_argument("--seconds", type=float, default=4.0, help="a window; default: 4")
    parser.add_argument("--committers", type=int, default=16, help="default: 16")
    chosen = parser.parse_args(arguments)
    emit_machine()
    for part in chosen.part:
        PARTS[part](chosen)


def _subscribers(chosen: argparse.Namespace) -> None:
    subscribers.measure(rounds=chosen.rounds, seconds=chosen.seconds, committers=chosen.committers)


def _followers(chosen: argparse.Namespace) -> None:
    followers.measure(seconds=chosen.seconds)


PARTS: dict[str, Callable[[argparse.Namespace], None]] = {
    "subscribers": _subscribers,
    "followers": _followers,
}
