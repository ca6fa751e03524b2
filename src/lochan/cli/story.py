"""The story that `lochan demo` tells: a team works on one catalog, through the HTTP client.

Every sentence is about something that happens here and now; nothing is printed that was not done.
"""

from __future__ import annotations

from collections.abc import Callable

import httpx
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lochan.base.errors import Bug, Conflict, KeysConflict
from lochan.cli.history import summary
from lochan.cli.keys import key_text
from lochan.cli.printing import first_line, make_table, moment, plain, short
from lochan.client import Client, KeyResolution
from lochan.model.commits import CommitMeta, Committed, ContentKey, Delete, Operation, Put
from lochan.model.contents import Content, IcebergTable, Namespace, with_id
from lochan.model.references import Annotation
from lochan.model.results import ContentConflict

ORDERS: ContentKey = ("sales", "orders")
CUSTOMERS: ContentKey = ("sales", "customers")
RETURNS: ContentKey = ("sales", "returns")
SCRATCH: ContentKey = ("sales", "scratch")


class Story:
    """Told from top to bottom, on an empty catalog."""

    def __init__(self, url: str, out: Console) -> None:
        self._url = url
        self._out = out
        self._client = Client(url)

    def tell(self) -> None:
        """Tells it."""
        with self._client:
            first = self._first_commit()
            self._branch()
            self._conflict()
            self._tag()
            self._stale(first)
            self._lost_reply()
            self._revert()
            self._reflog()

    def _first_commit(self) -> str:
        self._chapter("1. A first commit: a namespace and three tables, all or nothing")
        operations: list[Operation] = [
            Put(key=("sales",), content=Namespace(elements=("sales",), properties={"owner": "Ada"}))
        ]
        operations += [Put(key=key, content=_table(key, 1)) for key in (ORDERS, CUSTOMERS, SCRATCH)]
        done = self._commit("main", "Ada", "Start with sales", operations)
        for added in done.added:
            self._say(f"   {key_text(added.key):<16} got the content id {added.content_id}")
        return done.hash

    def _branch(self) -> None:
        self._chapter("2. Bob works on a branch; main does not see it")
        made = self._client.references.create("etl")
        self._say(f"   created etl at {short(made.hash)}: no data is copied")
        operations: list[Operation] = [
            Put(key=RETURNS, content=_table(RETURNS, 1)),
            Put(key=ORDERS, content=self._next("etl", ORDERS, 20)),
            Delete(key=SCRATCH),
        ]
        self._commit("etl", "Bob", "Load the returns", operations)
        self._out.print("   what differs between main and etl:")
        table = make_table(("", "key", "before", "after"))
        for one in self._client.history.iterate_diff("main", "etl"):
            mark = "+" if one.left is None else "-" if one.right is None else "~"
            table.add_row(mark, key_text(one.key), summary(one.left), summary(one.right))
        self._table(table)

    def _conflict(self) -> None:
        self._chapter("3. Meanwhile Ada changes the same table on main: a merge conflict")
        self._commit(
            "main",
            "Ada",
            "Repair the orders",
            [Put(key=ORDERS, content=self._next("main", ORDERS, 2))],
        )
        refusal = self._refused(lambda: self._client.merges.merge("main", "etl"))
        self._say(f"   the merge is refused, nothing was written: {refusal.message}")
        self._sides(refusal)
        target, _ = self._client.contents.get("main", ORDERS)
        both = with_id(_table(ORDERS, 21), target.id or "")
        wish = KeyResolution(expected_target=target, resolved=both)
        said = _meta("Bob", "Merge etl")
        done = self._client.merges.merge("main", "etl", said, keys={ORDERS: wish})
        self._say(f"   resolved with what both wanted: main is at {short(done.hash)}")
        self._log("main", 4)

    def _tag(self) -> None:
        self._chapter("4. A tag says what is good")
        note = Annotation(message="Checked by Eve", properties=(("ticket", ("LO-7",)),))
        made = self._client.references.create("v1", kind="TAG", annotation=note)
        self._say(f"   v1 is {short(made.hash)}, annotated: Checked by Eve")

    def _stale(self, old: str) -> None:
        self._chapter("5. Two writers still stand on the first commit")
        key = CUSTOMERS
        done = self._commit(
            "main", "Cem", "Add an address", [Put(key=key, content=self._next("main", key, 2))], old
        )
        self._say("   Cem's table was touched by nobody since: his stale hash does not matter")
        stale = with_id(_table(ORDERS, 99), self._client.contents.get("main", ORDERS)[0].id or "")
        operations = [Put(key=ORDERS, content=stale)]
        refusal = self._refused(
            lambda: self._client.commits.commit("main", "stale", operations, expected=old)
        )
        self._say(f"   Dee's table was changed since, so she is told: {refusal.message}")
        self._say(f"   main is still at {short(done.hash)}")

    def _lost_reply(self) -> None:
        self._chapter("6. The reply to a commit is lost on the way")
        before = len(list(self._client.history.iterate("main")))
        wire = _LosesOneReply()
        with Client(self._url, transport=wire) as client:
            operations = [Put(key=("sales", "late"), content=_table(("sales", "late"), 1))]
            done = client.commits.commit("main", _meta("Cem", "Once only"), operations)
        after = len(list(self._client.history.iterate("main")))
        self._say(
            f"   sent {wire.sent} times with one idempotency key, committed {after - before} time: "
            f"main is at {short(done.hash)}"
        )

    def _revert(self) -> None:
        self._chapter("7. The merge was a mistake after all")
        merged = next(
            one.meta.hash or ""
            for one in self._client.history.iterate("main")
            if one.meta.message == "Merge etl"
        )
        done = self._client.merges.revert("main", [merged], _meta("Ada", "Take etl back"))
        self._say(f"   undone by a new commit, {short(done.hash)}; what came later stays:")
        table = make_table(("key", "type", "content"))
        for one in self._client.contents.iterate("main", with_content=True):
            table.add_row(key_text(one.key), one.type, summary(one.content))
        self._table(table)

    def _reflog(self) -> None:
        self._chapter("8. The ref-log knows everywhere main has been")
        table = make_table(("when (UTC)", "what", "from", "to", "source"))
        for move in self._client.references.iterate_log("main"):
            table.add_row(
                moment(move.when_us),
                move.kind,
                short(move.old),
                short(move.new),
                short(move.source),
            )
        self._table(table)

    def _commit(
        self,
        branch: str,
        author: str,
        message: str,
        operations: list[Operation],
        expected: str | None = None,
    ) -> Committed:
        meta = _meta(author, message)
        done = self._client.commits.commit(branch, meta, operations, expected=expected)
        self._say(f"   {author}: {message!r} is {short(done.hash)} on {branch}")
        return done

    def _next(self, branch: str, key: ContentKey, version: int) -> Content:
        """Returns the next state of a table that is there."""
        there, _ = self._client.contents.get(branch, key)
        return with_id(_table(key, version), there.id or "")

    def _refused(self, act: Callable[[], object]) -> Conflict:
        try:
            act()
        except Conflict as refusal:
            return refusal
        raise Bug("the demo's conflict was not noticed")

    def _sides(self, refusal: Conflict) -> None:
        table = make_table(("key", "base", "source", "target"))
        for one in refusal.details if isinstance(refusal, KeysConflict) else ():
            if isinstance(one, ContentConflict):
                sides = (summary(one.base), summary(one.source), summary(one.target))
                table.add_row(key_text(one.key or ()), *sides)
        self._table(table)

    def _log(self, branch: str, count: int) -> None:
        table = make_table(("commit", "author", "message"))
        for one in self._client.history.log(branch, count).items:
            authors = ", ".join(one.meta.authors)
            table.add_row(short(one.meta.hash), authors, first_line(one.meta.message))
        self._table(table)

    def _chapter(self, title: str) -> None:
        self._out.print(Text(f"\n{title}", "bold"))

    def _say(self, text: str) -> None:
        self._out.print(Text(plain(text)), soft_wrap=True)

    def _table(self, table: Table) -> None:
        grid = Table.grid(padding=(0, 0, 0, 6))
        grid.add_row("", table)
        self._out.print(grid)


class _LosesOneReply(httpx.BaseTransport):
    """A wire that loses the first reply to a write."""

    def __init__(self) -> None:
        self._through = httpx.HTTPTransport()
        self.sent = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Passes a request on, and its reply unless it is the one to lose."""
        response = self._through.handle_request(request)
        if "idempotency-key" in request.headers:
            self.sent += 1
            if self.sent == 1:
                response.read()
                response.close()
                raise httpx.ReadError("the demo cut the wire", request=request)
        return response

    def close(self) -> None:
        """Closes the connections."""
        self._through.close()


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
