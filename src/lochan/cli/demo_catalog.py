"""The first steps of `lochan demo`: a team works on one catalog through the HTTP client.

Each line that is printed reports a request that was made and its result.
"""

from __future__ import annotations

from collections.abc import Callable

import httpx

from lochan.base.errors import Bug, Conflict, KeysConflict
from lochan.cli.history import summary
from lochan.cli.keys import key_text
from lochan.cli.output import DemoOutput, first_line, moment, short
from lochan.client import Client, KeyResolution
from lochan.model.commits import CommitMeta, Committed, ContentKey, Delete, Operation, Put
from lochan.model.contents import Content, IcebergTable, Namespace, with_id
from lochan.model.references import Annotation
from lochan.model.results import ContentConflict

ORDERS: ContentKey = ("sales", "orders")
CUSTOMERS: ContentKey = ("sales", "customers")
RETURNS: ContentKey = ("sales", "returns")
SCRATCH: ContentKey = ("sales", "scratch")


class CatalogDemo:
    """The steps on tables, from top to bottom, on an empty catalog."""

    def __init__(self, url: str, output: DemoOutput) -> None:
        self._url = url
        self._output = output
        self._client = Client(url)

    def run(self) -> None:
        """Runs all steps."""
        with self._client:
            first = self._first_commit()
            self._branch()
            self._conflict()
            self._tag()
            self._stale_hash(first)
            self._lost_reply()
            self._revert()
            self._reflog()

    def _first_commit(self) -> str:
        self._output.heading("1. A first commit: a namespace and three tables, all or nothing")
        operations: list[Operation] = [
            Put(key=("sales",), content=Namespace(elements=("sales",), properties={"owner": "Ada"}))
        ]
        operations += [Put(key=key, content=_table(key, 1)) for key in (ORDERS, CUSTOMERS, SCRATCH)]
        committed = self._commit("main", "Ada", "Start with sales", operations)
        for added in committed.added:
            self._output.line(f"{key_text(added.key):<16} has the content id {added.content_id}")
        return committed.hash

    def _branch(self) -> None:
        self._output.heading("2. Bob works on a branch; main does not change")
        created = self._client.references.create("etl")
        self._output.line(f"created etl at {short(created.hash)}: no data is copied")
        operations: list[Operation] = [
            Put(key=RETURNS, content=_table(RETURNS, 1)),
            Put(key=ORDERS, content=self._next("etl", ORDERS, 20)),
            Delete(key=SCRATCH),
        ]
        self._commit("etl", "Bob", "Load the returns", operations)
        self._output.line("the difference between main and etl:")
        self._output.table(
            ("", "key", "before", "after"),
            (
                (
                    "+" if each.left is None else "-" if each.right is None else "~",
                    key_text(each.key),
                    summary(each.left),
                    summary(each.right),
                )
                for each in self._client.history.iterate_diff("main", "etl")
            ),
        )

    def _conflict(self) -> None:
        self._output.heading("3. Meanwhile Ada changes the same table on main: a merge conflict")
        repair = Put(key=ORDERS, content=self._next("main", ORDERS, 2))
        self._commit("main", "Ada", "Repair the orders", [repair])
        conflict = self._refused(lambda: self._client.merges.merge("main", "etl"))
        self._output.line(f"the merge is refused, nothing was written: {conflict.message}")
        self._print_sides(conflict)
        target, _ = self._client.contents.get("main", ORDERS)
        both = with_id(_table(ORDERS, 21), target.id or "")
        resolution = KeyResolution(expected_target=target, resolved=both)
        meta = _meta("Bob", "Merge etl")
        merged = self._client.merges.merge("main", "etl", meta, keys={ORDERS: resolution})
        self._output.line(f"merged with a resolution: main is at {short(merged.hash)}")
        self._output.table(
            ("commit", "author", "message"),
            (
                (short(each.meta.hash), ", ".join(each.meta.authors), first_line(each.meta.message))
                for each in self._client.history.log("main", 4).items
            ),
        )

    def _tag(self) -> None:
        self._output.heading("4. A tag marks a state that was checked")
        annotation = Annotation(message="Checked by Eve", properties=(("ticket", ("LO-7",)),))
        created = self._client.references.create("v1", kind="TAG", annotation=annotation)
        self._output.line(f"v1 is {short(created.hash)}, annotated: Checked by Eve")

    def _stale_hash(self, old: str) -> None:
        self._output.heading("5. Two writers expect the first commit, which is no longer the head")
        update = Put(key=CUSTOMERS, content=self._next("main", CUSTOMERS, 2))
        committed = self._commit("main", "Cem", "Add an address", [update], old)
        self._output.line("Cem's table was not changed after it: his old hash is accepted")
        present, _ = self._client.contents.get("main", ORDERS)
        operations = [Put(key=ORDERS, content=with_id(_table(ORDERS, 99), present.id or ""))]
        conflict = self._refused(
            lambda: self._client.commits.commit("main", "stale", operations, expected=old)
        )
        self._output.line(f"Dee's table was changed after it, so she gets: {conflict.message}")
        self._output.line(f"main is still at {short(committed.hash)}")

    def _lost_reply(self) -> None:
        self._output.heading("6. The reply to a commit is lost on the network")
        before = len(list(self._client.history.iterate("main")))
        transport = _LosesOneReply()
        with Client(self._url, transport=transport) as client:
            operations = [Put(key=("sales", "late"), content=_table(("sales", "late"), 1))]
            committed = client.commits.commit("main", _meta("Cem", "Once only"), operations)
        after = len(list(self._client.history.iterate("main")))
        self._output.line(
            f"sent {transport.sent} times with one idempotency key, committed {after - before} "
            f"time: main is at {short(committed.hash)}"
        )

    def _revert(self) -> None:
        self._output.heading("7. The merge is reverted")
        merge = next(
            each.meta.hash or ""
            for each in self._client.history.iterate("main")
            if each.meta.message == "Merge etl"
        )
        reverted = self._client.merges.revert("main", [merge], _meta("Ada", "Revert the merge"))
        self._output.line(
            f"undone by a new commit, {short(reverted.hash)}; later changes are kept:"
        )
        self._output.table(
            ("key", "type", "content"),
            (
                (key_text(each.key), each.type, summary(each.content))
                for each in self._client.contents.iterate("main", with_content=True)
            ),
        )

    def _reflog(self) -> None:
        self._output.heading("8. The ref-log lists every move of main")
        self._output.table(
            ("when (UTC)", "what", "from", "to", "source"),
            (
                (
                    moment(move.when_us),
                    move.kind,
                    short(move.old),
                    short(move.new),
                    short(move.source),
                )
                for move in self._client.references.iterate_log("main")
            ),
        )

    def _commit(
        self,
        branch: str,
        author: str,
        message: str,
        operations: list[Operation],
        expected: str | None = None,
    ) -> Committed:
        meta = _meta(author, message)
        committed = self._client.commits.commit(branch, meta, operations, expected=expected)
        self._output.line(f"{author}: {message!r} is {short(committed.hash)} on {branch}")
        return committed

    def _next(self, branch: str, key: ContentKey, version: int) -> Content:
        """Returns the next version of an existing table."""
        present, _ = self._client.contents.get(branch, key)
        return with_id(_table(key, version), present.id or "")

    def _refused(self, request: Callable[[], object]) -> Conflict:
        try:
            request()
        except Conflict as conflict:
            return conflict
        raise Bug("the demo's conflict was not detected")

    def _print_sides(self, conflict: Conflict) -> None:
        details = conflict.details if isinstance(conflict, KeysConflict) else ()
        self._output.table(
            ("key", "base", "source", "target"),
            (
                (
                    key_text(each.key or ()),
                    summary(each.base),
                    summary(each.source),
                    summary(each.target),
                )
                for each in details
                if isinstance(each, ContentConflict)
            ),
        )


class _LosesOneReply(httpx.BaseTransport):
    """A transport that loses the first reply to a write."""

    def __init__(self) -> None:
        self._transport = httpx.HTTPTransport()
        self.sent = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Sends a request; returns its reply, except the first one to a write."""
        response = self._transport.handle_request(request)
        if "idempotency-key" in request.headers:
            self.sent += 1
            if self.sent == 1:
                response.read()
                response.close()
                raise httpx.ReadError("the demo dropped the reply", request=request)
        return response

    def close(self) -> None:
        """Closes the connections."""
        self._transport.close()


def _meta(author: str, message: str) -> CommitMeta:
    return CommitMeta(message=message, authors=(author,))


def _table(key: ContentKey, version: int) -> IcebergTable:
    return IcebergTable(
        metadata_location=f"s3://{key[-1]}/v{version}",
        snapshot_id=version,
        schema_id=0,
        spec_id=0,
        sort_order_id=0,
    )
