"""Rows about access that may be removed: written in two steps, so that none comes back by itself.

A write on condition that there is no row is not safe for rows that are removed. If its reply is
lost, one copy of it may still be under way when another has taken effect; it would take effect,
too, after the row was removed, and a token that was revoked would be valid again. So `fill` has two
steps, and what a crash after each leaves:

1. If there is no row, write a *blank* one on condition that there is none. (A blank row, which
   points to nothing and counts as absent. It is never removed; the next writer fills it.)
2. Swap the row, blank or not, by its stamp. Stamps are never used again, so a copy of this write
   that is late has no effect. (The new row.)

A row is removed by its stamp, too. If the reply to that is lost and the next copy finds another row
or none, the row that was meant is gone, by this caller or another. Where rows are also replaced by
others of the same meaning, as access keys are, the caller has to look again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Generic

from lochan.access.records import ACCESS_PARTITION
from lochan.base.errors import Exhausted, Unavailable, Unknown
from lochan.base.keys import prefix_end
from lochan.base.limits.requests import PAGE_ENTRIES_MAX
from lochan.codec.forms import Row, RowForm
from lochan.kv.store import Lost, Store, Won
from lochan.persist.retry import Retry
from lochan.persist.rows import Answer, Done, Doubt, RowTable, Stamped, Write, send_until_known


class AccessTable(RowTable[Row], Generic[Row]):
    """Rows of one kind, all of whose keys begin with `prefix`."""

    def __init__(
        self, store: Store, prefix: bytes, form: RowForm[Row], key_of: Callable[[Row], bytes]
    ) -> None:
        super().__init__(store, ACCESS_PARTITION, form, key_of)
        self.prefix = prefix

    def reserve(self, blank: Row, retry: Retry) -> Stamped[Row]:
        """Step 1: returns the row under the key of a blank one, after writing that if needed."""
        key = self.key_of(blank)
        while True:
            found = self.fetch(key)
            if found is not None:
                return found
            try:
                outcome = self.update(blank, None)
            except Unknown:
                # It does not matter by which copy the row becomes blank.
                retry.again()
                continue
            if isinstance(outcome, Won):
                return Stamped(blank, outcome.stamp)
            retry.again(at_once=True)

    def fill(
        self,
        blank: Row,
        decide: Callable[[Stamped[Row] | None], Write[Row, Answer] | Done[Answer]],
        is_done: Callable[[Row, Row], bool],
        retry: Retry,
        doubt: Doubt,
    ) -> Answer:
        """Both steps; `is_done` returns whether the present row shows that the other was written.

        If a reply is lost and the present row does not show it, others have changed the row since;
        then the outcome is Unknown.
        """

        def find_done(write: Write[Row, Answer]) -> Done[Answer]:
            found = self.fetch(self.key_of(blank))
            if found is None or not is_done(found.row, write.row):
                raise doubt.error("the row was changed again since")
            return Done(write.answer)

        return self.swap(
            self.key_of(blank),
            decide,
            retry,
            doubt,
            find_done=find_done,
            read=partial(self.reserve, blank, retry),
        )

    def clear(self, found: Stamped[Row], retry: Retry, doubt: Doubt) -> bool:
        """Removes a row; returns False if it was changed since it was read."""
        settled = send_until_known(partial(self.remove, found), partial(Done, None), retry, doubt)
        return not isinstance(settled, Lost)

    def pages(
        self, prefix: bytes = b"", start: bytes = b"", limit: int = PAGE_ENTRIES_MAX
    ) -> Iterator[tuple[Stamped[Row], ...]]:
        """Yields all rows whose keys begin with a prefix, from a key on, in pages.

        A row that cannot be read is an error and is not left out: it might deny something.
        """
        prefix = prefix or self.prefix
        end = prefix_end(prefix)
        further: bytes | None = start or prefix
        while further is not None:
            page = self.scan(further, limit, end)
            for bad in page.unreadable:
                raise bad.error
            yield page.rows
            further = page.next_start


@contextmanager
def after_effect(doubt: Doubt) -> Iterator[None]:
    """Later steps of a change that took effect: no error may state that nothing was changed."""
    try:
        yield
    except (Unavailable, Exhausted) as error:
        raise doubt.error(error.message) from error
