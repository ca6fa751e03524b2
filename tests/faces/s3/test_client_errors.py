"""The errors that users of S3 programs meet are those that these programs raise on S3.

One table: what goes wrong, and the exception of each program. What a program cannot ask for, such
as a conditional write by DuckDB, is not in its row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import pytest
import s3fs
from botocore.exceptions import ClientError
from duckdb_extensions import import_extension
from pyarrow import fs

from lochan.model.access import Statement
from tests.faces.s3.gateway import REPOSITORY, Gateway, gateway

HELD = b"as it was"
READS = ("read",)


class World:
    """A gateway with an object, a tag, a commit, and a user that may do nothing."""

    def __init__(self, one: Gateway) -> None:
        self.gateway = one
        self.admin = (one.key, one.secret)
        self.wrong = (one.key, "a" * 52)
        self.stranger = one.user("stranger")
        self.reader = one.user("reader", Statement(effect="allow", actions=READS))
        one.put("main/held", HELD)
        with one.admin() as client:
            self.commit = client.files.commit("main", "first").hash
            client.references.create("v1", "main", kind="TAG")


class Boto3:
    def __init__(self, world: World, key: str, secret: str) -> None:
        self._s3 = world.gateway.client(key, secret)

    def read(self, bucket: str, key: str) -> None:
        self._s3.get_object(Bucket=bucket, Key=key)

    def write(self, bucket: str, key: str) -> None:
        self._s3.put_object(Bucket=bucket, Key=key, Body=b"x")

    def create(self, bucket: str, key: str) -> None:
        self._s3.put_object(Bucket=bucket, Key=key, Body=b"x", IfNoneMatch="*")

    def replace(self, bucket: str, key: str) -> None:
        self._s3.put_object(Bucket=bucket, Key=key, Body=b"x", IfMatch='"0"')

    def remove(self, bucket: str, key: str) -> None:
        self._s3.delete_object(Bucket=bucket, Key=key)

    def list(self, bucket: str, key: str) -> None:
        self._s3.list_objects_v2(Bucket=bucket, Prefix=key)


class S3fs:
    def __init__(self, world: World, key: str, secret: str) -> None:
        s3fs.S3FileSystem.clear_instance_cache()
        self._files = s3fs.S3FileSystem(
            key=key, secret=secret, endpoint_url=world.gateway.url, use_listings_cache=False
        )

    def read(self, bucket: str, key: str) -> None:
        self._files.cat_file(f"{bucket}/{key}")

    def write(self, bucket: str, key: str) -> None:
        self._files.pipe_file(f"{bucket}/{key}", b"x")

    def create(self, bucket: str, key: str) -> None:
        self._files.pipe_file(f"{bucket}/{key}", b"x", mode="create")

    def remove(self, bucket: str, key: str) -> None:
        self._files.rm_file(f"{bucket}/{key}")

    def list(self, bucket: str, key: str) -> None:
        self._files.ls(f"{bucket}/{key}")


class Arrow:
    def __init__(self, world: World, key: str, secret: str) -> None:
        self._files = fs.S3FileSystem(
            access_key=key,
            secret_key=secret,
            endpoint_override=world.gateway.host,
            scheme="http",
            region="us-east-1",
            retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=1),
        )

    def read(self, bucket: str, key: str) -> None:
        self._files.open_input_file(f"{bucket}/{key}").read()

    def write(self, bucket: str, key: str) -> None:
        with self._files.open_output_stream(f"{bucket}/{key}") as out:
            out.write(b"x")

    def remove(self, bucket: str, key: str) -> None:
        self._files.delete_file(f"{bucket}/{key}")

    def list(self, bucket: str, key: str) -> None:
        self._files.get_file_info(fs.FileSelector(f"{bucket}/{key}"))


class DuckDB:
    def __init__(self, world: World, key: str, secret: str) -> None:
        import_extension("httpfs")
        self._connection = duckdb.connect()
        self._connection.execute("LOAD httpfs")
        self._connection.execute("SET http_retries = 0")
        self._connection.execute(
            f"CREATE SECRET (TYPE s3, KEY_ID '{key}', SECRET '{secret}', ENDPOINT "
            f"'{world.gateway.host}', URL_STYLE 'path', USE_SSL false, REGION 'us-east-1')"
        )

    def read(self, bucket: str, key: str) -> None:
        self._connection.execute(f"SELECT * FROM read_text('s3://{bucket}/{key}')").fetchall()

    def write(self, bucket: str, key: str) -> None:
        self._connection.execute(f"COPY (SELECT 1) TO 's3://{bucket}/{key}' (FORMAT csv)")

    def list(self, bucket: str, key: str) -> None:
        self._connection.execute(f"SELECT * FROM glob('s3://{bucket}/{key}/*')").fetchall()


CLIENTS: dict[str, Callable[..., Any]] = {
    "boto3": Boto3,
    "s3fs": S3fs,
    "pyarrow": Arrow,
    "duckdb": DuckDB,
}
HTTP = duckdb.HTTPException
ABSENT: dict[str, tuple[type[Exception], str]] = {
    "s3fs": (FileNotFoundError, ""),
    "duckdb": (HTTP, "404"),
}
NO_BUCKET = ABSENT | {
    "boto3": (ClientError, "NoSuchBucket"),
    "pyarrow": (OSError, "NO_SUCH_BUCKET"),
}
NO_KEY = ABSENT | {"boto3": (ClientError, "NoSuchKey"), "pyarrow": (FileNotFoundError, "")}
FORGED: dict[str, tuple[type[Exception], str]] = {
    "boto3": (ClientError, "SignatureDoesNotMatch"),
    "s3fs": (PermissionError, ""),
    "pyarrow": (OSError, "ACCESS_DENIED|SIGNATURE_DOES_NOT_MATCH"),
    "duckdb": (HTTP, "403"),
}
DENIED: dict[str, tuple[type[Exception], str]] = {
    "boto3": (ClientError, "AccessDenied"),
    "s3fs": (PermissionError, ""),
    "pyarrow": (OSError, "ACCESS_DENIED"),
    "duckdb": (HTTP, "403"),
}
NOT_A_BRANCH: dict[str, tuple[type[Exception], str]] = {
    "boto3": (ClientError, "MethodNotAllowed"),
    "s3fs": (PermissionError, "is not a branch"),
    "pyarrow": (OSError, "405"),
    "duckdb": (HTTP, "405"),
}
# An id begins with a letter or with a digit, so it is an absent branch or not the name of one.
NOT_A_NAME: dict[str, tuple[type[Exception], str]] = {
    "boto3": (ClientError, "InvalidArgument|NoSuchBucket"),
    "s3fs": (OSError, ""),
    "pyarrow": (OSError, "400|NO_SUCH_BUCKET"),
    "duckdb": (HTTP, "400|404"),
}
HELD_KEY = f"{REPOSITORY} main/held"
CASES: dict[str, tuple[str, str, dict[str, tuple[type[Exception], str]]]] = {
    "missing bucket, read": (
        "admin read",
        "absent main/x",
        NO_BUCKET | {"pyarrow": NO_KEY["pyarrow"]},
    ),
    "missing bucket, write": ("admin write", "absent main/x", NO_BUCKET),
    "missing bucket, list": ("admin list", "absent main/x", NO_BUCKET),
    "missing branch, read": ("admin read", f"{REPOSITORY} absent/x", NO_KEY),
    "missing branch, write": ("admin write", f"{REPOSITORY} absent/x", NO_BUCKET),
    "missing key, read": ("admin read", f"{REPOSITORY} main/absent", NO_KEY),
    "hidden, read": ("stranger read", HELD_KEY, NO_BUCKET | {"pyarrow": NO_KEY["pyarrow"]}),
    "hidden, write": ("stranger write", HELD_KEY, NO_BUCKET),
    "hidden, list": ("stranger list", HELD_KEY, NO_BUCKET),
    "denied, write": ("reader write", HELD_KEY, DENIED),
    "denied, remove": ("reader remove", HELD_KEY, DENIED),
    "wrong secret, read": ("wrong read", HELD_KEY, FORGED),
    "wrong secret, write": ("wrong write", HELD_KEY, FORGED),
    "wrong secret, remove": ("wrong remove", HELD_KEY, FORGED),
    "wrong secret, list": ("wrong list", HELD_KEY, FORGED),
    "taken": (
        "admin create",
        HELD_KEY,
        {"boto3": (ClientError, "PreconditionFailed"), "s3fs": (OSError, "nothing was written")},
    ),
    "changed": ("admin replace", HELD_KEY, {"boto3": (ClientError, "PreconditionFailed")}),
    "tag, write": ("admin write", f"{REPOSITORY} v1/held", NOT_A_BRANCH),
    "tag, remove": ("admin remove", f"{REPOSITORY} v1/held", NOT_A_BRANCH),
    "commit, write": ("admin write", f"{REPOSITORY} COMMIT/held", NOT_A_NAME),
    "commit, remove": ("admin remove", f"{REPOSITORY} COMMIT/held", NOT_A_NAME),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with gateway(tmp_path_factory.mktemp("blocks")) as one:
        yield World(one)


POSSIBLE = [
    (case, name)
    for case, (asked, _, expected) in CASES.items()
    for name in expected
    if hasattr(CLIENTS[name], asked.split()[1])
]


@pytest.mark.parametrize(("case", "name"), POSSIBLE)
def test_users_meet_the_errors_that_their_program_has_for_s3(
    world: World, case: str, name: str
) -> None:
    asked, target, expected = CASES[case]
    who, operation = asked.split()
    bucket, key = target.replace("COMMIT", world.commit).split()
    client = CLIENTS[name](world, *getattr(world, who))
    kind, words = expected[name]
    with pytest.raises(kind, match=words or None):
        getattr(client, operation)(bucket, key)
    assert world.gateway.get("main/held") == HELD
    assert world.gateway.keys("main/") == ["main/held"]
