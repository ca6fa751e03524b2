"""The audit log: every decision that is wanted is one line, in order, and none is lost."""

from __future__ import annotations

import errno
import json
import os
import stat
from threading import Event, Thread

import pytest

from lochan.access.audit import AuditEvent
from lochan.access.policy import Action
from lochan.base.errors import Invalid
from lochan.telemetry.audit import AuditLog, AuditWriter, encode_line

EVENT = AuditEvent(
    principal="ada",
    roles=("writers", "everyone"),
    credential="token:t1",
    origin="10.1.2.3",
    trace="request-1",
    action=Action.COMMIT,
    repository="default",
    reference="main",
    keys=("sales.orders",),
    key_count=12,
    allowed=False,
    reason="denied",
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "audit.log"


def read(path) -> list[dict]:
    return [json.loads(line) for line in path.read_text("ascii").splitlines()]


def test_a_decision_is_a_line_with_everything_about_it():
    lines: list[bytes] = []
    AuditLog("all", lines.append).record(EVENT)
    (line,) = map(json.loads, lines)
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "event": "decision",
        "principal": "ada",
        "roles": ["writers", "everyone"],
        "credential": "token:t1",
        "origin": "10.1.2.3",
        "request": "request-1",
        "action": "commit",
        "repository": "default",
        "reference": "main",
        "keys": ["sales.orders"],
        "key_count": 12,
        "allowed": False,
        "reason": "denied",
    }


def test_an_attempt_to_log_in_is_a_line_too():
    lines: list[bytes] = []
    log = AuditLog("denied", lines.append)
    log.record_attempt("login", principal="ada", origin="::1", request="r", allowed=True)
    (line,) = map(json.loads, lines)
    assert (line["event"], line["principal"], line["allowed"]) == ("login", "ada", True)


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("denied", (True, True, False, False, False)),
        ("writes", (True, True, False, True, True)),
        ("all", (True, True, True, True, True)),
    ],
)
def test_each_level_includes_the_one_before(level, expected):
    log = AuditLog(level, lambda _: None)
    asked = (
        (Action.COMMIT, False),
        (Action.READ_LOG, False),
        (Action.READ_LOG, True),
        (Action.COMMIT, True),
        (Action.MANAGE_ACCESS, True),
    )
    assert tuple(log.wants(action, allowed) for action, allowed in asked) == expected


@pytest.mark.parametrize("name", ["a\nb", "a\r\x1b[2Jb", "a\x7fb", "a\x9bb", "ä\u2028\u202e", '"}'])
def test_no_name_forges_a_line_or_steers_a_terminal(name):
    line = encode_line({"reference": name})
    assert line.count(b"\n") == 1
    assert all(32 <= byte < 127 for byte in line[:-1])
    assert json.loads(line) == {"reference": name}


def test_lines_are_appended_in_order_to_a_file_for_its_owner(path):
    for first in (0, 1_000):
        writer = AuditWriter(str(path), queue_max=10)
        for number in range(first, first + 1_000):
            writer.write(b"%d\n" % number)
        writer.close()
    assert path.read_text().split() == [str(number) for number in range(2_000)]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_is_renamed_is_opened_anew(path):
    writer = AuditWriter(str(path))
    writer.write(b"1\n")
    while not path.stat().st_size:
        pass
    path.rename(path.with_suffix(".1"))
    writer.reopen()
    writer.write(b"2\n")
    writer.close()
    assert path.read_text() == "2\n"
    assert path.with_suffix(".1").read_text() == "1\n"


def test_a_file_that_cannot_be_opened_is_refused_at_the_start(tmp_path):
    with pytest.raises(Invalid, match="audit_file cannot be written: Is a directory"):
        AuditWriter(str(tmp_path))


def test_a_file_that_cannot_be_opened_anew_is_kept(path, caplog):
    writer = AuditWriter(str(path))
    path.rename(path.with_suffix(".1"))
    path.mkdir()
    writer.reopen()
    writer.write(b"1\n")
    writer.close()
    assert path.with_suffix(".1").read_text() == "1\n"
    assert "audit log not reopened" in caplog.text


def test_when_the_disk_is_full_lines_wait_and_none_is_lost(path, monkeypatch, caplog):
    is_full = Event()
    is_full.set()
    failed = Event()

    def write(file, rest):
        if is_full.is_set():
            failed.set()
            raise OSError(errno.ENOSPC, "no space")
        # Sometimes only a part is taken.
        return os.write(file, rest[: max(1, len(rest) // 2)])

    monkeypatch.setattr("lochan.telemetry.audit.write_bytes", write)
    monkeypatch.setattr("lochan.telemetry.audit.AUDIT_RETRY_S", 0.0)
    writer = AuditWriter(str(path), queue_max=4)
    wrote = Event()

    def produce() -> None:
        for number in range(100):
            writer.write(b"%d\n" % number)
        wrote.set()

    producer = Thread(target=produce)
    producer.start()
    assert failed.wait(20)
    assert not wrote.is_set()
    is_full.clear()
    assert wrote.wait(20)
    producer.join()
    writer.close()
    assert path.read_text().split() == [str(number) for number in range(100)]
    assert "audit log not written, trying again" in caplog.text


def test_a_server_that_stops_reports_how_many_lines_it_could_not_write(path, monkeypatch, caplog):
    def write(file, rest):
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr("lochan.telemetry.audit.write_bytes", write)
    writer = AuditWriter(str(path))
    for _ in range(3):
        writer.write(b"lost\n")
    writer.close()
    lost = [record for record in caplog.records if record.levelname == "CRITICAL"]
    assert sum(record.args[1] for record in lost) == 3
