"""One history through four kinds of client: each commits in turn, and all read the same."""

from __future__ import annotations

from contextlib import closing
from itertools import count

import pytest

from lochan.spark.lake import Lake
from tests.faces.s3.process import gateway_process
from tests.profile import counted
from tests.spark.four_clients import Boto3, Files, Lakefs, Logged, NessieRest, Pipeline, Tables

ROUNDS = counted(3, 20)


@pytest.fixture
def server(tmp_path):
    """A server process of its own; every request needs credentials."""
    with gateway_process(tmp_path / "server") as started:
        yield started


@pytest.fixture
def lake(spark, server, tmp_path, monkeypatch):
    """A lake whose workers, too, have the token, in a session that shares the one of the worker."""
    for name, value in (("LOCHAN_TOKEN", server.token), ("LOCHAN_TOKEN_URI", server.catalog)):
        monkeypatch.setenv(name, value)
        monkeypatch.setitem(spark.sparkContext.environment, name, value)
    warehouse = str(tmp_path / "warehouse")
    with Lake(spark.newSession(), server.catalog, warehouse=warehouse) as made:
        yield made


class World:
    """The four clients, and what every one of them has to read."""

    def __init__(self, rest: NessieRest, lakefs: Lakefs, boto3: Boto3, spark: Pipeline) -> None:
        self.rest, self.lakefs, self.boto3, self.spark = rest, lakefs, boto3, spark
        self.made: Logged = []
        """What the clients were told of their commits on main, the newest first."""
        self._numbers = count(1)

    def note(self, commit: tuple[str, str]) -> str:
        self.made.insert(0, commit)
        return commit[0]

    def commit_in_turn(self) -> list[str]:
        """Commits once by each client; returns the ids."""
        clients = (self.rest, self.lakefs, self.boto3, self.spark)
        return [self.note(client.commit("main", next(self._numbers))) for client in clients]

    def make_side(self, name: str) -> tuple[str, str]:
        """Makes a branch with a table and a file of its own; returns their names."""
        self.rest.branch(name)
        table, file = next(self._numbers), next(self._numbers)
        self.rest.commit(name, table)
        self.boto3.commit(name, file)
        return f"rest_{table}", f"boto3/{file}"

    def check(self, ref: str = "main") -> tuple[Tables, Files]:
        """All logs are what was made, and tables and files of a commit are the same for all."""
        clients = (self.rest, self.lakefs, self.boto3, self.spark)
        for log in [client.log("main") for client in clients]:
            assert log == self.made
        tables, files = self.rest.tables(ref), self.lakefs.files(ref)
        assert self.spark.tables(ref) == tables
        assert self.boto3.files(ref) == files
        return tables, files


@pytest.fixture
def world(server, lake, tmp_path, monkeypatch):
    # Where the package `lakefs` looks for a configuration of the machine.
    monkeypatch.setenv("HOME", str(tmp_path))
    with (
        closing(NessieRest(server)) as rest,
        closing(Lakefs(server)) as lakefs,
        closing(Boto3(server)) as boto3,
    ):
        yield World(rest, lakefs, boto3, Pipeline(lake))


def test_ids_log_and_contents_agree_for_four_kinds_of_client(world):
    rounds = []
    for _ in range(ROUNDS):
        ids = world.commit_in_turn()
        rounds.append((ids, *world.check()))
    # What a commit holds is the same later, whoever asks, and whoever has committed since.
    for number, (ids, tables, files) in enumerate(rounds, 1):
        last = ids[-1]
        assert world.rest.tables(last) == tables
        assert world.lakefs.files(last) == world.boto3.files(last) == files
        assert len(tables) == number + 1
        assert len(files) == 2 * number + 1
        assert len(world.spark.rows(last)) == number
        # Each client's own commit changed what it wrote, and nothing else.
        assert world.rest.tables(ids[2]) == world.rest.tables(ids[0])
        assert world.lakefs.files(ids[3]) == world.boto3.files(ids[2])
        assert world.boto3.files(ids[1])["shared"].startswith(b"lakefs ")


def test_merges_and_reverts_of_one_client_are_seen_by_all(world):
    (rest, by_lakefs, _, spark) = world.commit_in_turn()
    before_tables, before_files = world.check()
    for name, client in (("one", world.lakefs), ("two", world.rest)):
        table, file = world.make_side(name)
        world.note(client.merge("main", name, f"merge {name}"))
        tables, files = world.check()
        assert table in tables
        assert files[file] == b"by boto3 " * 9_000
    # The merge of the other client is undone by the one, and the rows of Spark by the other.
    world.note(world.boto3.revert("main", world.made[0][0]))
    tables, files = world.check()
    assert table not in tables
    assert file not in files
    world.commit_in_turn()
    assert len(world.spark.rows("main")) == 2
    world.note(world.lakefs.revert("main", world.made[0][0]))
    tables, files = world.check()
    assert tables["shop.orders"] == before_tables["shop.orders"]
    assert world.spark.rows("main") == world.spark.rows(spark)
    assert before_tables.keys() < tables.keys()
    assert before_files.keys() < files.keys()
    assert rest in dict(world.made)
    assert by_lakefs in dict(world.made)
