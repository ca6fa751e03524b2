"""How executors on other machines get the token, and that it appears nowhere on the way.

The workers of the cluster have no token in their environment. The driver has the variables
LOCHAN_TOKEN_FILE and LOCHAN_TOKEN_URI, and gives the same two to executors by the settings
`spark.executorEnv.…`: a path and an address, no secret. The Connect server has them itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.secured import Secured, secured
from tests.spark.cluster.canaries import USES, events_of, files_with, settings_for
from tests.spark.cluster.drivers import Driver
from tests.spark.cluster.standalone import Standalone
from tests.spark.cluster.test_standalone import SETTINGS
from tests.spark.connect_server import ConnectServer

pytestmark = pytest.mark.slow


class TokenFile:
    """A file with the token for a server, which is replaced while sessions run."""

    def __init__(self, server: Secured, path: Path) -> None:
        self.server = server
        self.path = path
        self.tokens: list[str] = []
        self.rotate()

    @property
    def variables(self) -> dict[str, str]:
        return {"LOCHAN_TOKEN_FILE": str(self.path), "LOCHAN_TOKEN_URI": self.server.url}

    def rotate(self) -> None:
        """Writes a new token, and revokes the one before."""
        token = self.server.new_token()
        new = self.path.with_suffix(".new")
        new.write_text(token)
        new.replace(self.path)
        self.revoke()
        self.tokens.append(token)
        self.server.recorder.seen.clear()

    def revoke(self) -> None:
        for token in self.tokens[-1:]:
            self.server.revoke(token)

    def check_files(self, folder: Path) -> None:
        """Checks that no file below a folder has a token."""
        for token in self.tokens:
            assert files_with(token.rpartition("_")[2], folder) == []


@pytest.fixture
def token_file(tmp_path_factory) -> Iterator[TokenFile]:
    with secured() as server:
        yield TokenFile(server, tmp_path_factory.mktemp("secret") / "token")


def use_and_look(driver: Driver, file: TokenFile) -> None:
    """Uses the server in every way, also after the token was replaced and after it was refused."""
    for use in USES:
        driver.call(use)
    assert file.server.sent == {f"Bearer {file.tokens[0]}"}
    file.rotate()
    driver.call("suite:history_is_read_as_frames")
    texts = driver.call("canaries:shown")
    assert file.server.sent == {f"Bearer {file.tokens[1]}"}
    file.revoke()
    errors = driver.call("canaries:refusal")
    assert all("did not accept the token of LOCHAN_TOKEN_FILE" in error for error in errors)
    words = [token.rpartition("_")[2] for token in file.tokens]
    assert [text for text in (*texts, *errors) for word in words if word in text] == []


def test_executors_of_a_cluster_read_the_token_from_a_file(java, tmp_path, token_file):
    cluster = Standalone(tmp_path)
    given = {f"spark.executorEnv.{name}": value for name, value in token_file.variables.items()}
    try:
        driver = Driver(
            tmp_path,
            cluster.url,
            token_file.server.url,
            str(tmp_path / "warehouse"),
            settings={**SETTINGS, **settings_for(tmp_path), **given},
            variables=token_file.variables,
        )
        try:
            use_and_look(driver, token_file)
        finally:
            driver.stop()
    finally:
        cluster.stop()
    assert b"SparkListenerJobEnd" in events_of(tmp_path)
    executors = list(tmp_path.glob("worker-*/*/*/stderr"))
    assert len(executors) >= 2
    token_file.check_files(tmp_path)


def test_a_connect_server_reads_the_token_from_its_own_environment(java, tmp_path, token_file):
    settings = settings_for(tmp_path)
    remote = ConnectServer(settings=settings, variables=token_file.variables, log=tmp_path / "log")
    try:
        driver = Driver(
            tmp_path,
            remote.url,
            token_file.server.url,
            str(tmp_path / "warehouse"),
            settings={"spark.sql.shuffle.partitions": "2"},
            variables=token_file.variables,
        )
        try:
            use_and_look(driver, token_file)
        finally:
            driver.stop()
    finally:
        remote.stop()
    assert b"SparkListenerJobEnd" in events_of(tmp_path)
    assert b"INFO" in (tmp_path / "log").read_bytes()
    token_file.check_files(tmp_path)
