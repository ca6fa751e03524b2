"""A session with pynessie's client; run by its own Python with the address of a server.

Fails with an assertion at the first surprise; prints how many calls were made when there was none.
"""

from __future__ import annotations

import sys

import pynessie  # type: ignore[import-not-found]
from pynessie.error import (  # type: ignore[import-not-found]
    NessieConflictException,
    NessieNotFoundException,
)
from pynessie.model import (  # type: ignore[import-not-found]
    ContentKey,
    Delete,
    DeltaLakeTable,
    IcebergTable,
    IcebergView,
    Namespace,
    Put,
    Unchanged,
)


def table(number, content_id=None):
    return IcebergTable(
        id=content_id,
        metadata_location=f"s3://lake/t{number}.json",
        snapshot_id=number,
        schema_id=1,
        spec_id=2,
        sort_order_id=3,
    )


def key(text):
    return ContentKey.from_path_string(text)


def must_raise(kind, call, *arguments):
    try:
        call(*arguments)
    except kind:
        return
    raise AssertionError(f"{call.__name__}{arguments} did not raise {kind.__name__}")


class Session:
    """Runs all calls, in steps that build on each other."""

    def __init__(self, address):
        self.client = pynessie.init(config_dict={"endpoint": f"{address}/api/v1", "verify": True})

    def head(self, name):
        return self.client.get_reference(name).hash_

    def commit(self, branch, message, *operations, author="ada"):
        made = self.client.commit(branch, self.head(branch), message, author, *operations)
        assert made.name == branch
        assert made.hash_ == self.head(branch)
        return made.hash_

    def names(self):
        return {one.name: one.hash_ for one in self.client.list_references().references}

    def keys(self, reference, **how):
        entries = self.client.list_keys(reference, **how).entries
        return {(".".join(one.name.elements), one.kind) for one in entries}

    def references(self):
        client = self.client
        assert client.get_default_branch() == "main"
        # Nothing can be merged into a branch without a commit.
        start = self.commit("main", "begin", Put(key("ns"), Namespace(id=None, elements=["ns"])))
        assert client.create_branch("dev", "main", start).hash_ == start
        assert client.create_tag("v0", "main", start).hash_ == start
        assert self.names() == {"main": start, "dev": start, "v0": start}
        must_raise(NessieConflictException, client.create_branch, "dev", "main", start)
        must_raise(NessieNotFoundException, client.get_reference, "nobody")

    def commits(self):
        first = self.commit(
            "dev",
            "three kinds of content",
            Put(key("db"), Namespace(id=None, elements=["db"])),
            Put(key("db.orders"), table(1)),
            Put(key("db.log"), DeltaLakeTable(None, "check", ["c1"], ["m1", "m2"])),
            Put(key("db.view"), IcebergView(None, "s3://lake/v.json", 1, 1, "hive", "select 1")),
        )
        orders = self.client.get_content("dev", key("db.orders"))
        assert orders.id, "the server gives every content an id"
        assert (orders.snapshot_id, orders.sort_order_id) == (1, 3)
        self.commit("dev", "orders change", Put(key("db.orders"), table(2, orders.id)), author="bo")
        assert self.client.get_content("dev", key("db.orders")).snapshot_id == 2
        assert self.client.get_content("dev", key("db.orders"), first).snapshot_id == 1
        self.commit("dev", "log goes", Delete(key("db.log")), Unchanged(key("db.orders")))
        must_raise(NessieNotFoundException, self.client.get_content, "dev", key("db.log"))
        # A writer that knows only the first commit may not change keys that were changed later.
        stale = Put(key("db.orders"), table(9, orders.id))
        must_raise(NessieConflictException, self.client.commit, "dev", first, "late", "cy", stale)
        assert self.keys("dev") == {
            ("ns", "NAMESPACE"),
            ("db", "NAMESPACE"),
            ("db.orders", "ICEBERG_TABLE"),
            ("db.view", "ICEBERG_VIEW"),
        }
        views = self.keys("dev", query_filter="entry.contentType == 'ICEBERG_VIEW'")
        assert views == {("db.view", "ICEBERG_VIEW")}

    def logs(self):
        messages = [one.commit_meta.message for one in self.client.get_log("dev")]
        assert messages == ["log goes", "orders change", "three kinds of content", "begin"]
        # Pages of one are put together again by the client.
        assert len(list(self.client.get_log("dev", max_records=2))) == 2
        by_bo = list(self.client.get_log("dev", filter="commit.author == 'bo'"))
        assert [one.commit_meta.message for one in by_bo] == ["orders change"]
        assert by_bo[0].commit_meta.author == "bo"
        full = next(self.client.get_log("dev", max_records=1, fetch_all=True))
        assert sorted(type(one).__name__ for one in full.operations or ()) == ["Delete"]
        assert full.parent_commit_hash == next(iter(by_bo)).commit_meta.hash_

    def merges(self):
        client = self.client
        differences = client.get_diff("main", "dev").diffs
        assert {tuple(one.content_key.elements) for one in differences} == {
            ("db",),
            ("db", "orders"),
            ("db", "view"),
        }
        assert client.merge("dev", "main").was_applied
        assert self.keys("main") == self.keys("dev")
        assert client.get_diff("main", "dev").diffs == []
        client.create_branch("side", "main", self.head("main"))
        picked = self.commit("side", "customers", Put(key("db.customers"), table(5)))
        self.commit("side", "never picked", Put(key("db.other"), table(6)))
        assert client.cherry_pick("main", "side", None, picked).was_applied
        assert ("db.customers", "ICEBERG_TABLE") in self.keys("main")
        assert ("db.other", "ICEBERG_TABLE") not in self.keys("main")

    def assignments(self):
        client = self.client
        client.assign_tag("v0", "main")
        assert self.head("v0") == self.head("main")
        before = self.head("dev")
        client.assign_branch("dev", "side")
        assert self.head("dev") == self.head("side") != before
        must_raise(NessieConflictException, client.delete_branch, "dev", before)
        client.delete_branch("dev", self.head("dev"))
        client.delete_branch("side", self.head("side"))
        client.delete_tag("v0", self.head("v0"))
        assert set(self.names()) == {"main"}

    def busy(self):
        """Reads whatever version 2 has made, then changes it."""
        client = self.client
        for name in self.names():
            for fetch_all in (False, True):
                list(client.get_log(name, fetch_all=fetch_all))
            client.get_reference(name)
            for entry in client.list_keys(name).entries:
                client.get_content(name, ContentKey(entry.name.elements))
            client.get_diff("main", name)
        assert any(len(list(client.get_log(name))) > 3 for name in self.names())
        client.create_branch("copy", "busy/bare", self.head("busy/bare"))
        picked = self.commit("copy", "copied", Put(key("one.copied"), table(7)))
        assert client.cherry_pick("busy/expiring", "copy", None, picked).was_applied
        assert client.merge("busy/expiring", "main").was_applied
        assert [one.commit_meta.message for one in client.get_log("main", max_records=1)]
        client.assign_tag("busy/v1", "main")
        client.delete_tag("busy/v1", self.head("busy/v1"))
        client.delete_branch("busy/expiring", self.head("busy/expiring"))
        client.delete_branch("busy/bare", self.head("busy/bare"))


def main(address, filled):
    session = Session(address)
    steps = [
        *(session.references, session.commits, session.logs, session.merges),
        session.assignments,
    ]
    if filled == "busy":
        steps = [session.busy]
    for step in steps:
        step()
    print(f"pynessie {pynessie.__version__}: {len(steps)} steps")


if __name__ == "__main__":
    main(*sys.argv[1:])
