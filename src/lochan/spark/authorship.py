"""Who is named in the commits of a lake: an author, and the application that made them.

The names of the properties are those that Iceberg's own client for Nessie gives its commits, so
that tools which look for them find ours too. What a job does for whom is its own to say
(`Lake(author=…)`); these names prove nothing, because whoever commits writes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from getpass import getuser
from typing import Final

from pyspark.sql import SparkSession

from lochan.base.errors import Invalid

APPLICATION_TYPE: Final = "application-type"
"""The property that says what kind of program made a commit."""

APPLICATION_ID: Final = "app-id"
"""The property that says which run of it did: Spark's id of the application."""

_OURS: Final = "lochan-spark"


def author_of(given: str | None) -> str:
    """Returns the author that was named, or else the user that runs this; '' if nobody knows."""
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
