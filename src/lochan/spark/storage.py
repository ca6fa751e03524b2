"""Locations of files, and what reads and writes them: Spark itself, or pyarrow in executors.

Spark's own readers are the fastest, but the plain package has no file system for object stores.
There, unless the session has one that works, executors use pyarrow; no jar is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import quote, urlsplit

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from lochan.spark.lake import Lake

FileAccess = Literal["native", "arrow"]

_S3: Final = ("s3", "s3a", "s3n")

# What Hadoop's S3 file system calls the properties that pyiceberg's has.
_S3A: Final[Mapping[str, str]] = {
    "s3.endpoint": "fs.s3a.endpoint",
    "s3.access-key-id": "fs.s3a.access.key",
    "s3.secret-access-key": "fs.s3a.secret.key",
    "s3.session-token": "fs.s3a.session.token",
    "s3.region": "fs.s3a.endpoint.region",
}

# Asked once for each bucket, so a store that is not there must not be asked for minutes.
_IMPATIENT: Final[Mapping[str, str]] = {
    "fs.s3a.attempts.maximum": "1",
    "fs.s3a.retry.limit": "1",
    "fs.s3a.connection.establish.timeout": "5000",
}

# What Java leaves alone in the path of an address, beside letters, digits and what is not ASCII.
_PLAIN: Final = "/-_.!~*'();:@&=+$,"


def find_access(lake: Lake, location: str) -> FileAccess:
    """Returns what reads and writes the files at a location; found once for each bucket or host."""
    parts = urlsplit(location)
    if parts.scheme in ("", "file"):
        return "native"
    place = f"{parts.scheme}://{parts.netloc}"
    if place not in lake.reached:
        lake.reached[place] = "native" if _is_reached(lake, place) else "arrow"
    return lake.reached[place]


def native_path(location: str) -> str:
    """Returns a location as Spark's own file systems take it."""
    scheme, colon, rest = location.partition("://")
    return f"s3a{colon}{rest}" if scheme in _S3 else location


def native_options(lake: Lake, location: str) -> Mapping[str, str]:
    """Returns the options with which Spark's readers and writers reach a location."""
    if urlsplit(location).scheme not in _S3:
        return {}
    options = {_S3A[key]: value for key, value in lake.files.items() if key in _S3A}
    endpoint = lake.files.get("s3.endpoint", "")
    if endpoint:
        virtual = lake.files.get("s3.force-virtual-addressing", "false").lower() == "true"
        options["fs.s3a.path.style.access"] = "false" if virtual else "true"
        options["fs.s3a.connection.ssl.enabled"] = str(not endpoint.startswith("http:")).lower()
    return options


def shown_path(location: str) -> str:
    """Returns a location as `_metadata.file_path` shows it: an address, percent-encoded by Java."""
    native = native_path(location)
    scheme, colon, rest = native.partition("://")
    if not colon:
        return "file:" + _encoded(native.removeprefix("file:"))
    host, slash, path = rest.partition("/")
    encoded = _encoded(slash + path)
    return f"{scheme}://{host}{encoded}" if host else f"{scheme}:{encoded}"


def _encoded(path: str) -> str:
    return "".join(each if ord(each) > 127 else quote(each, safe=_PLAIN) for each in path)


def _is_reached(lake: Lake, place: str) -> bool:
    """Returns whether Spark reaches a store: if it does, it reports a missing file as missing.

    The answer comes while the plan is made, so no job is started.
    """
    missing = f"{native_path(place)}/lochan-is-this-reached"
    options = {**native_options(lake, place), **_IMPATIENT}
    try:
        _ = lake.spark.read.schema("x int").options(**options).parquet(missing).schema
    except PySparkException as error:
        return error.getCondition() == "PATH_NOT_FOUND"
    except Py4JError:
        return False
    return True
