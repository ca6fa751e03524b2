"""A canary token is in no plan, log, option, error and event log of Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from lochan.base.errors import Unavailable
from lochan.spark.java import use_java
from tests.client.secured import secured
from tests.spark.cluster.canaries import events_of, files_with, settings_for
from tests.spark.cluster.drivers import Driver

pytestmark = pytest.mark.slow


def test_a_canary_token_appears_nowhere_on_one_machine(tmp_path: Path):
    try:
        use_java()
    except Unavailable as error:
        pytest.skip(f"Java is missing: {error.message}")
    with secured() as server:
        token = server.new_token()
        server.recorder.seen.clear()
        driver = Driver(
            tmp_path,
            "local[2]",
            server.url,
            str(tmp_path / "warehouse"),
            settings=settings_for(tmp_path),
            variables={"LOCHAN_TOKEN": token, "LOCHAN_TOKEN_URI": server.url},
        )
        try:
            texts = driver.call("canaries:shown")
            assert server.sent == {f"Bearer {token}"}
            # Now the server refuses the token, in the driver and in the workers.
            server.revoke(token)
            errors = driver.call("canaries:refusal")
        finally:
            driver.stop()
    word = token.rpartition("_")[2]
    assert all("did not accept the token of LOCHAN_TOKEN" in error for error in errors)
    assert [text for text in (*texts, *errors) if word in text] == []
    assert b"SparkListenerJobEnd" in events_of(tmp_path)
    assert b"INFO" in driver.log.read_bytes()
    assert files_with(word, tmp_path) == []
