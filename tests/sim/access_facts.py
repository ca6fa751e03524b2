"""What the history of a run says about users, memberships and credentials at any moment.

A *fact*, such as "bob is a member of g", is turned on by some operations and off by others. If an
operation that was acknowledged turned it on, and all that could turn it off had ended before that
one began, or began after the moment, the fact holds at the moment; and the other way round. What is
concurrent, or whose outcome is unknown, allows both.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from lochan.testing.sim import Event, History

Fact = tuple[Any, ...]

REFUSED = ("not_found", "already_exists", "conflict", "invalid", "too_large", "unavailable")


_ON = {
    "user": "create_user",
    "group": "create_group",
    "policy": "put_policy",
    "member": "add_member",
    "attached": "attach",
    "token": "add_token",
    "key": "add_credential",
}


def turns_on(fact: Fact, event: Event) -> bool:
    """Whether an operation makes a fact hold."""
    kind, *names = fact
    return event.operation == _ON[kind] and event.arguments[: len(names)] == tuple(names)


def turns_off(fact: Fact, event: Event) -> bool:
    """Whether an operation makes a fact not hold."""
    kind, *names = fact
    operation, given = event.operation, tuple(event.arguments)
    if kind == "member":
        user, group = names
        gone = (operation, *given) in (("delete_user", user), ("delete_group", group))
        return gone or (operation == "remove_member" and given == (user, group))
    if kind == "attached":
        subject_kind, subject, policy = names
        ends = ((f"delete_{subject_kind}", subject), ("delete_policy", policy))
        return (operation, *given) in ends or (operation == "detach" and given == tuple(names))
    if kind in ("token", "key"):
        user, name = names
        own = "delete_token" if kind == "token" else "delete_credential"
        return (operation, *given) in (("delete_user", user), (own, name))
    return (operation, *given) == (f"delete_{kind}", *names)


def expected(
    history: History, fact: Fact, initially: Collection[Fact], at: Event | None = None
) -> bool | None:
    """Whether a fact holds during an event, or at the end; None if both are possible."""
    on = [event for event in history if turns_on(fact, event) and _may_count(event, at)]
    off = [event for event in history if turns_off(fact, event) and event.outcome not in REFUSED]
    for changes, others, holds in ((on, off, True), (off, on, False)):
        open_ones = [other for other in others if not _is_after(other, at)]
        if (fact in initially) is holds and not open_ones:
            return holds
        for change in changes:
            done = change.acknowledged and (at is None or change.before(at))
            if done and all(_ended_before(other, change) for other in open_ones):
                return holds
    return None


def _may_count(event: Event, at: Event | None) -> bool:
    """Whether an operation may have an effect at a moment.

    One that was refused because an end of the link was deleted meanwhile may have had one before.
    """
    if event.outcome != "not_found":
        return event.outcome not in REFUSED
    return at is not None and not event.before(at)


def _is_after(event: Event, at: Event | None) -> bool:
    return at is not None and at.before(event)


def _ended_before(event: Event, other: Event) -> bool:
    return event.before(other) and not event.uncertain


def check_fact(
    history: History, fact: Fact, initially: Collection[Fact], found: bool, at: Event | None = None
) -> None:
    """Fails if what was found is not possible."""
    wanted = expected(history, fact, initially, at)
    when = "at the end" if at is None else f"in {at}"
    assert wanted in (None, found), f"{fact} is {found} {when}, and it must be {wanted}"
