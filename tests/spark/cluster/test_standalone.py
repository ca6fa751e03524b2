"""A standalone master with two workers, a catalog on PostgreSQL and data on SeaweedFS.

Executors and drivers are killed in the middle of a write.
"""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from lochan.client import Client
from lochan.testing.postgres import MISSING, shared_server
from tests.spark.cluster.drivers import Driver
from tests.spark.cluster.gates import FREE, PARTS
from tests.spark.cluster.standalone import Standalone
from tests.spark.cluster.suite import ESSENTIAL

pytestmark = pytest.mark.slow

# An executor on each worker, with one core; they find the driver on loopback.
SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "640m",
    "spark.sql.shuffle.partitions": "2",
}
# The SDK that goes with a Hadoop: not the bundle of 640 MB, but the parts that are used.
SDK = {"3.4.2": "2.29.52", "3.5.0": "2.35.4"}
SDK_PARTS = ("s3", "s3-transfer-manager", "sts", "apache-client", "netty-nio-client")
UNRESOLVED = "unresolved dependency"
NATIVE = ("rows_are_written_and_read_by_branch", "a_merge_replaces_and_adds")
ALL = {"ids": list(range(400)), "most": 1}


@pytest.fixture(scope="module")
def catalog_server():
    """A server on PostgreSQL."""
    from lochan.spark.lake_server import open_server

    database = shared_server()
    if database is None:
        pytest.skip(MISSING)
    service = open_server(database.url(schema=database.fresh_schema()))
    yield service.url
    service.close()


@pytest.fixture(scope="module")
def cluster(java, folder):
    made = Standalone(folder)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def warehouse(object_store):
    return f"s3://{object_store.bucket(f'cluster-{uuid4()}')}/lake"


@pytest.fixture(scope="module")
def drive(folder, cluster, catalog_server, object_store, warehouse):
    started: list[Driver] = []

    def start(**more: str) -> Driver:
        started.append(
            Driver(
                folder,
                cluster.url,
                catalog_server,
                warehouse,
                settings={**SETTINGS, **more},
                files=object_store.files,
            )
        )
        return started[-1]

    yield start
    for driver in started:
        driver.stop()


@pytest.fixture(scope="module")
def driver(drive):
    """A driver without a jar: pyarrow reads and writes objects in the executors."""
    made = drive()
    assert made.call("gates:about")["way"] == "arrow"
    return made


def hadoop_version() -> str:
    """Returns the version of the Hadoop that Spark brings."""
    import pyspark

    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    return jar.stem.rpartition("-")[2]


@pytest.fixture(scope="module")
def native(drive):
    """A driver whose Spark reaches objects by Hadoop's file system."""
    hadoop = hadoop_version()
    if hadoop not in SDK:
        pytest.skip(f"which AWS SDK goes with Hadoop {hadoop} is not written down in this file")
    packages = [f"org.apache.hadoop:hadoop-aws:{hadoop}"]
    packages += [f"software.amazon.awssdk:{part}:{SDK[hadoop]}" for part in SDK_PARTS]
    jars = {
        "spark.jars.packages": ",".join(packages),
        "spark.jars.excludes": "software.amazon.awssdk:bundle",
    }
    try:
        made = drive(**jars)
    except pytest.fail.Exception as failure:
        if UNRESOLVED in str(failure):
            pytest.skip(f"{packages[0]} is missing and could not be fetched from Maven Central")
        raise
    assert made.call("gates:about")["way"] == "native"
    return made


@pytest.fixture
def client(catalog_server):
    with Client(catalog_server) as made:
        yield made


class Write:
    """A write of its own: a branch, a table and a gate."""

    def __init__(self, client: Client, folder: Path) -> None:
        self.client = client
        self.branch = f"write-{uuid4().hex[:10]}"
        self.base = client.references.create(self.branch, "main").hash
        self.gate = folder / "gate"
        self.gate.mkdir()
        self.place = {"branch": self.branch, "table": "t.orders"}

    @property
    def head(self) -> str:
        return self.client.references.get(self.branch).hash

    def open(self) -> None:
        (self.gate / "open").touch()


@pytest.fixture
def slow(client, tmp_path):
    return Write(client, tmp_path)


def lose_an_executor(driver: Driver, cluster: Standalone, slow: Write, application: str) -> None:
    """Kills an executor of a driver whose tasks wait, and lets them go on."""
    driver.waits(slow.gate, PARTS - FREE)
    killed = cluster.kill_one(application)
    assert slow.head == slow.base
    slow.open()
    assert driver.end() == {"rows": 400, "again": False}, cluster.logs
    assert killed not in cluster.executors(application)
    assert driver.call("gates:found", **slow.place) == ALL


@pytest.mark.parametrize("promise", ESSENTIAL)
def test_on_a_cluster(driver, promise):
    driver.call(f"suite:{promise}")


@pytest.mark.parametrize("promise", NATIVE)
def test_on_a_cluster_with_hadoops_file_system(native, promise):
    native.call(f"suite:{promise}")


def test_an_executor_that_is_killed_costs_no_row_and_doubles_none(driver, cluster, slow):
    application = driver.call("gates:about")["application"]
    driver.begin("gates:write", **slow.place, job="nightly", gate=str(slow.gate))
    lose_an_executor(driver, cluster, slow, application)


def test_the_same_with_hadoops_file_system(native, cluster, slow):
    application = native.call("gates:about")["application"]
    native.begin("gates:write", **slow.place, job="nightly", gate=str(slow.gate))
    lose_an_executor(native, cluster, slow, application)


def test_stages_that_are_run_again_cost_no_row_and_double_none(driver, cluster, slow):
    application = driver.call("gates:about")["application"]
    driver.begin("gates:write_shuffled", **slow.place, gate=str(slow.gate))
    lose_an_executor(driver, cluster, slow, application)


def test_what_a_killed_driver_began_is_done_once_by_the_next(driver, drive, slow):
    job = {"job": "nightly", "gate": str(slow.gate)}
    doomed = drive()
    doomed.begin("gates:write", **slow.place, **job)
    doomed.waits(slow.gate, PARTS - FREE)
    doomed.kill()
    slow.open()
    assert slow.head == slow.base
    assert driver.call("gates:write", **slow.place, **job) == {"rows": 400, "again": False}
    assert driver.call("gates:found", **slow.place) == ALL
    done = slow.head
    assert driver.call("gates:write", **slow.place, **job) == {"rows": 400, "again": True}
    assert slow.head == done
