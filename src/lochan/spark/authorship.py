"""The author and the application that commits of a lake name.

The names of the properties are those that Iceberg's own client for Nessie gives its commits, so
that tools which look for them find ours too. A job may name another author (`Lake(author=…)`);
the names prove nothing, because every client writes its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from getpass import getuser
from typing import Final

from pyspark.sql import SparkSession

from lochan.base.errors import Invalid

APPLICATION_TYPE: Final = "application-type"
"""The property for the kind of program that made a commit."""

APPLICATION_ID: Final = "app-id"
"""The property for the run of the program: Spark's id of the application."""

_OURS: Final = "lochan-spark"


def author_of(given: str | None) -> str:
    """Returns the author that was given, or else the user of this process; '' if unknown."""
    if given is not None:
        if not given.strip():
            raise Invalid(f"an author has a name, not {given!r}; leave it out for the user")
        return given
    try:
        return getuser()
    except (KeyError, ImportError, OSError):
        # In a container a user may have a number and no name.
        return ""


def application_of(spark: SparkSession) -> Mapping[str, str]:
    """Returns the properties that name this application in its commits."""
    run = spark.conf.get("spark.app.id", None)
    return {APPLICATION_TYPE: _OURS, **({APPLICATION_ID: run} if run else {})}
