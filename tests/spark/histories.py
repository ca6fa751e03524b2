"""Commits for the tests of the data source."""

from __future__ import annotations

from lochan.client import Client
from lochan.model.commits import CommitMeta, Delete, Put
from lochan.model.contents import IcebergTable, OtherContent


def table(number: int, content_id: str | None = None) -> IcebergTable:
    return IcebergTable(
        id=content_id,
        metadata_location=f"s3://lake/t/{number}.json",
        snapshot_id=number,
        schema_id=0,
        spec_id=0,
        sort_order_id=0,
    )


def make_commits(client: Client, count: int, branch: str = "main", first: int = 1) -> list[str]:
    """Puts `count` tables, one commit each; returns the hashes, the oldest first."""
    made = []
    for number in range(first, first + count):
        put = Put(key=(f"t{number:05d}",), content=table(number))
        made.append(client.commits.commit(branch, f"commit {number}", [put]).hash)
    return made


def make_story(client: Client) -> list[str]:
    """Makes four commits with everything that a row can show; returns their hashes."""
    first = CommitMeta(
        message="first",
        authors=("Ada", "Grace"),
        signed_off_by=("Lin",),
        properties=(("job", ("a", "b")),),
    )
    put = Put(key=("orders",), content=table(1))
    other = Put(key=("odd.name",), content=OtherContent("MODEL", None, {"depth": 3}))
    done = [client.commits.commit("main", first, [put, other])]
    kept = client.contents.get("main", ("orders",))[0]
    changed = table(2, kept.id)
    done.append(client.commits.commit("main", "second", [Put(key=("orders",), content=changed)]))
    more = Put(key=("lines",), content=table(3))
    done.append(client.commits.commit("main", "third", [more]))
    done.append(client.commits.commit("main", "fourth", [Delete(key=("orders",))]))
    return [each.hash for each in done]
