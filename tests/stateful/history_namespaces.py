"""Steps of a walk that make, change and take away namespaces, each by a commit of its own."""

from __future__ import annotations

from typing import Any

from lochan.base.errors import LochanError, NamespaceNotEmpty
from lochan.model.contents import Namespace
from lochan.testing.models import catalog
from lochan.testing.models.catalog import Delete, Held, Name, Operation
from lochan.testing.models.history import Content
from tests.stateful.history_answers import first_agreeing, require
from tests.stateful.history_values import SPACES, content_held, is_space, put_of


def namespace(walk: Any) -> None:
    """Makes, updates or deletes a namespace."""
    verb = walk.pick.choice(["create", "update properties for", "delete", "delete"])
    branch = walk.pick.choice(walk.model.names("BRANCH"))
    key = walk.pick.choice(SPACES)
    properties = {"p": str(walk.pick.randrange(2))}
    spaces = walk.system.namespaces
    calls = {
        "create": lambda: spaces.create(branch, key, properties),
        "update properties for": lambda: spaces.update(branch, key, properties, ["q"]),
        "delete": lambda: spaces.delete(branch, key),
    }
    answer = walk.attempt(f"{verb} namespace {key} on {branch}", calls[verb])
    head = walk.model.head(branch)
    before = walk.history.content(head)
    reason = why_refused(verb, before, key)
    if reason == "NOT_EMPTY":
        require(isinstance(answer, NamespaceNotEmpty), "must not be empty", answer)
    elif walk.refused(answer, {reason} if reason else set()):
        return
    else:
        operation = operation_of(verb, before, key, properties)
        ids = {key: answer.id} if verb == "create" and not isinstance(answer, LochanError) else {}
        message = f"{verb} namespace '{'.'.join(key)}'"
        done = catalog.commit(walk.history, head, head, [operation], ids, message=message)
        if isinstance(answer, LochanError):
            first_agreeing({"": done.outcome}, answer, {key})
        else:
            require(not done.outcome.refused, "must be refused", done.outcome)
            new = walk.system.references.get(branch).hash
            walk.publish(branch, "commit", done.outcome.commits, new)
    walk.check_head(branch)


def why_refused(verb: str, before: Content, key: Name) -> str:
    """Returns why a request is refused by the rules of namespaces alone, "" if it is not."""
    there = before.get(key)
    below = any(len(other) > len(key) and other[: len(key)] == key for other in before)
    if verb == "create":
        return "EXISTS" if there is not None or below else ""
    if not is_space(there):
        return "NOT_FOUND"
    return "NOT_EMPTY" if verb == "delete" and below else ""


def operation_of(verb: str, before: Content, key: Name, properties: dict[str, str]) -> Operation:
    if verb == "delete":
        return Delete(key)
    if verb == "create":
        return put_of(Namespace(elements=key, properties=properties), key, None, None)
    there = before[key]
    assert isinstance(there, Held)
    old = content_held(there)
    assert isinstance(old, Namespace)
    changed = Namespace(elements=key, properties={**old.properties, **properties})
    return put_of(changed, key, there.content_id, None)
