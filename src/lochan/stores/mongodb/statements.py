"""Writes of many statements: one `update` command, whose statements are executed in their order.

The first statement that fails ends the command. A duplicate key is no failure of an object: another
caller has inserted it between our search and our insert, so it is sent again and then found. What
was executed before is not sent again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from lochan.base.errors import Unavailable, Unknown
from lochan.stores.mongodb.client import MongoClient
from lochan.stores.mongodb.documents import Document
from lochan.stores.mongodb.failures import DUPLICATE_KEY, refusal

# Each of them means that a row appeared within one statement; it has to be deleted in between to
# appear again.
REPEATS_MAX: Final = 8


def send_writes(client: MongoClient, statements: Sequence[Document]) -> None:
    """Executes statements that may all be repeated; Unknown if only a part of them was done."""
    _send(client, list(statements), conditional=False)


def send_change(client: MongoClient, objects: Sequence[Document], row: Document) -> bool:
    """Adds objects, then sets a row; returns whether the row was as expected."""
    return _send(client, [*objects, row], conditional=True)


def _send(client: MongoClient, statements: list[Document], *, conditional: bool) -> bool:
    left = statements
    repeats = 0
    while True:
        answer = client.write({"update": client.collection, "updates": left, "ordered": True})
        done, error = _result(answer)
        if error is None:
            if done != len(left) and not (conditional and done == len(left) - 1):
                raise Unknown(f"MongoDB executed {done} of {len(left)} statements of a write")
            return done == len(left)
        at = int(error.get("index", 0))
        row_is_next = conditional and at == len(left) - 1
        if error.get("code") != DUPLICATE_KEY:
            begun = at > 0 or left is not statements
            raise refusal("update", error, writes=True, begun=begun and not conditional)
        if row_is_next:
            return False
        repeats += 1
        if repeats == REPEATS_MAX:
            message = "an object is inserted and deleted by others all the time"
            raise Unavailable(message) if conditional else Unknown(message)
        left = left[at:]


def _result(answer: Document) -> tuple[int, dict[str, Any] | None]:
    """Returns how many statements found or inserted their row, and the first error."""
    errors = answer.get("writeErrors")
    done = answer.get("n")
    if not isinstance(done, int):
        raise Unknown("MongoDB answered a write without the number of rows")
    return done, errors[0] if errors else None
