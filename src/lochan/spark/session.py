"""Spark sessions with the settings that versioned tables need.

`session()` makes one. On a session of the user's a lake sets only what reading and writing by field
id depend on (`RUNTIME_SETTINGS`; docs/spark.md lists them), and when the last lake on it is closed
they are as they were: see `HeldSettings`. Nothing here asks for a `sparkContext`, so that sessions
through Connect work too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from threading import Lock
from typing import Final
from weakref import WeakKeyDictionary, WeakSet

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lochan.base.errors import Invalid, Unavailable
from lochan.spark.java import use_java

# What Spark looks at when a frame of a table is run; a reader takes none of this as an option.
READ_SETTINGS: Final[Mapping[str, str]] = {
    # Columns are found by their ids, so that renamed ones are; schemas without ids are not touched.
    "spark.sql.parquet.fieldId.read.enabled": "true",
    # The columns of a file that lost its ids would be NULL without an error.
    "spark.sql.parquet.fieldId.read.ignoreMissing": "false",
}

# What every session needs that reads or writes our tables; all of it may be set at run time.
RUNTIME_SETTINGS: Final[Mapping[str, str]] = {
    **READ_SETTINGS,
    # By default more than 32 files start a job of 10,000 tasks that lists them.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "64",
    # The default, INT96, is no Iceberg type.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # The other mode moves days before 1582 by those that the Julian calendar is behind.
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    # Readers find columns by their ids.
    "spark.sql.parquet.fieldId.write.enabled": "true",
}

# What a session of our own has besides; a session of the user's keeps its own values.
OWN_SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}

# In local mode no other machine needs to reach the driver, and the cores are few.
LOCAL_SETTINGS: Final[Mapping[str, str]] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "8",
}

_PYTHON: Final = "PYSPARK_PYTHON"
_EXITED: Final = "JAVA_GATEWAY_EXITED"


def session(
    name: str = "lochan",
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Returns a session, started if none runs in this process; `settings` win over ours.

    One that runs gets `settings` and else stays as it is: a lake sets what it needs by itself.
    `master` is what Spark takes: `local[*]`, the default, `spark://host:port`, `yarn`…, or
    `sc://host:port` for a server that is reached through Connect. Workers run the
    interpreter that runs here, unless PYSPARK_PYTHON names another.
    """
    running = _find_running()
    if running is not None:
        _check_master(running, master)
        _set(running, settings or {})
        return running
    master = master or "local[*]"
    builder = SparkSession.builder.appName(name)
    chosen = {**RUNTIME_SETTINGS, **OWN_SETTINGS}
    if master.startswith("sc://"):
        builder = builder.remote(master)
        chosen = dict(RUNTIME_SETTINGS)
    else:
        os.environ.setdefault(_PYTHON, sys.executable)
        use_java()
        builder = builder.master(master)
        if master.startswith("local"):
            chosen |= LOCAL_SETTINGS
    for key, value in (chosen | dict(settings or {})).items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except (PySparkException, Py4JError, OSError) as error:
        raise Unavailable(f"no Spark session on {master}: {_reason(error)}") from error


def is_session(value: object) -> bool:
    """Returns whether something is a session; those through Connect are of a class of their own."""
    return not isinstance(value, type) and all(
        hasattr(value, name) for name in ("conf", "sql", "createDataFrame")
    )


def _find_running() -> SparkSession | None:
    """Returns the session of this thread, or else the process's; None if there is none that runs.

    A builder would give the same one, but with all settings of a new one put on it.
    """
    try:
        found = SparkSession.active()
        # One whose context was stopped under it is still remembered, and cannot even do this.
        found.range(1)
    except (PySparkException, Py4JError, AttributeError):
        return None
    return found


def _check_master(running: SparkSession, master: str | None) -> None:
    """Raises Invalid if another master is asked for than that of the session that runs."""
    if master is None or master.startswith("sc://"):
        # What a server is on is its own affair.
        return
    present = running.conf.get("spark.master", "")
    if present != master:
        raise Invalid(f"a session runs on {present}; stop it before you ask for one on {master}")


def _reason(error: Exception) -> str:
    """Returns the reason of an error; for a Java error the first line with a message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    first = next((line[2:] for line in lines if line.startswith(": ")), lines[0] if lines else "")
    exited = isinstance(error, PySparkException) and error.getCondition() == _EXITED
    return f"{first} The reason is on standard error." if exited else first


class _Changed:
    """What was set on one session, by which lakes, and what it had before."""

    def __init__(self) -> None:
        self.holders: WeakSet[HeldSettings] = WeakSet()
        self.before: dict[str, str | None] = {}


_changed: Final[WeakKeyDictionary[SparkSession, _Changed]] = WeakKeyDictionary()
_changing: Final = Lock()


class HeldSettings:
    """The settings that one lake needs on the sessions that it works in, until it is closed.

    A setting goes back to what it was, or is unset if it was not set, when the last lake on a
    session is closed; one that the user has changed meanwhile stays as the user has it.
    """

    def __init__(self) -> None:
        self._sessions: WeakSet[SparkSession] = WeakSet()

    def apply(self, spark: SparkSession, settings: Mapping[str, str] = RUNTIME_SETTINGS) -> None:
        """Sets on a session what is needed and not set, also what was changed since."""
        with _changing:
            changed = _changed.setdefault(spark, _Changed())
            changed.holders.add(self)
            self._sessions.add(spark)
            for key, value in settings.items():
                present = spark.conf.get(key, None)
                if present != value:
                    changed.before[key] = present
                    _set(spark, {key: value})

    def release(self) -> None:
        """Sets back what no other lake needs; a session that has been stopped needs nothing."""
        with _changing:
            for spark in list(self._sessions):
                changed = _changed.get(spark)
                if changed is None:
                    continue
                changed.holders.discard(self)
                if not changed.holders:
                    del _changed[spark]
                    with suppress(PySparkException, Py4JError, OSError, AttributeError, ValueError):
                        _set_back(spark, changed.before)
            self._sessions.clear()


def _set_back(spark: SparkSession, before: Mapping[str, str | None]) -> None:
    for key, value in before.items():
        if spark.conf.get(key, None) != RUNTIME_SETTINGS[key]:
            continue
        if value is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, value)


def _set(spark: SparkSession, settings: Mapping[str, str]) -> None:
    for key, value in settings.items():
        try:
            spark.conf.set(key, value)
        except PySparkException as error:
            raise Invalid(
                f"the session that runs refuses the setting {key}={value}: {_reason(error)}"
            ) from error
