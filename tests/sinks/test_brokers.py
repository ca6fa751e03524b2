"""Messages of brokers, and secrets: what needs no broker."""

from __future__ import annotations

import json

import pytest

from lochan.base.errors import Invalid
from lochan.base.limits.events import BROKER_SECRET_BYTES_MAX
from lochan.events.reactions import EventRefused
from lochan.sinks.brokers import BrokerOptions, MessageMode, message_of, read_secret
from lochan.sinks.nats import subject_of
from tests.sinks.samples import commit_event, stored_event


@pytest.mark.parametrize("mode", MessageMode)
@pytest.mark.parametrize("bytes_max", [1_200, 5_000, 100_000])
def test_a_message_with_its_attributes_is_not_larger_than_allowed(mode, bytes_max):
    options = BrokerOptions(mode=mode, bytes_max=bytes_max)
    message = message_of(commit_event(1_000), options, "ce-")
    attributes = sum(
        len(name.removeprefix("ce-")) + len(text) for name, text in message.headers.items()
    )
    assert len(message.body) + attributes <= bytes_max + len("content-type") + 64
    event = json.loads(message.body)
    event = event["data"] if mode is MessageMode.STRUCTURED else event
    listed = len(event.get("operations", ()))
    if "operations" in event:
        assert listed + event.get("operationsLeftOut", 0) == 1_000


def test_an_event_that_cannot_be_made_small_enough_is_refused():
    with pytest.raises(EventRefused, match="in its shortest form"):
        message_of(stored_event(reference="r" * 500), BrokerOptions(bytes_max=1_000), "ce-")


def test_subjects_of_different_repositories_and_types_differ():
    names = ["a.b", "a%2Eb", "a b", "a", "*", ">", "a.COMMIT"]
    subjects = {subject_of("lake", stored_event(repository=name)) for name in names}
    assert len(subjects) == len(names)
    for subject in subjects:
        assert len(subject.split(".")) == 3
        assert not set(subject) & set(" *>\t\r\n")


def test_a_secret_comes_from_a_file_or_from_the_environment_and_is_masked(tmp_path, monkeypatch):
    file = tmp_path / "secret"
    file.write_text("  canary-secret\n")
    monkeypatch.setenv("BROKER_PASSWORD", "canary-secret")
    for found in (
        read_secret(str(file), "", "password"),
        read_secret("", "BROKER_PASSWORD", "password"),
    ):
        assert found is not None
        assert found.reveal() == "canary-secret"
        assert "canary" not in f"{found!r}{found}"
    assert read_secret("", "", "password") is None


@pytest.mark.parametrize("text", ["", " \n", "x" * (BROKER_SECRET_BYTES_MAX + 1)])
def test_an_empty_secret_is_refused_and_never_shown(tmp_path, text):
    file = tmp_path / "secret"
    file.write_text(text)
    with pytest.raises(Invalid, match="the password is empty or too long"):
        read_secret(str(file), "", "password")
    with pytest.raises(Invalid, match="cannot be read: No such file"):
        read_secret(str(tmp_path / "none"), "", "password")
    with pytest.raises(Invalid, match="the variable NOT_SET of the token is empty"):
        read_secret("", "NOT_SET", "token")
