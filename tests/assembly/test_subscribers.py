"""The setting `subscribers`: its form, what is refused, and who can register a subscriber."""

from __future__ import annotations

import ast
from typing import Any

import msgspec
import pytest

from lochan.assembly.events import EventRunner
from lochan.assembly.subscribers import Registration, read_subscribers
from lochan.base.errors import Invalid
from lochan.base.limits.events import EVENT_SUBSCRIPTIONS_MAX
from lochan.embedded.repository import _ports
from lochan.events.filters import EventFilter
from lochan.events.subscribers import DeliveryOptions, DropPolicy, Registrar
from lochan.model.events import ContentStored
from lochan.settings import read_settings
from lochan.wire.operations_access import OPERATIONS_ACCESS
from lochan.wire.operations_events import OPERATIONS_EVENTS
from lochan.wire.operations_files import OPERATIONS_FILES
from lochan.wire.operations_lakefs import OPERATIONS_LAKEFS
from lochan.wire.operations_store import OPERATIONS_STORE
from lochan.wire.operations_v1 import OPERATIONS_V1
from lochan.wire.operations_v2 import OPERATIONS_V2
from tests.architecture.tree import sources
from tests.events.collector import Collector
from tests.events.served import commit_over_http, served

_FILE = """
[subscribers.orders]
type = "json-lines"
path = "/tmp/secret-place"
types = ["COMMIT"]
references = ["main", "release-*"]
queue_max = 7
drop = "oldest"

[subscribers.everything]
type = "log"
"""


def orders() -> dict[str, Any]:
    """The table of a subscriber, as the file above has it."""
    return {
        "type": "json-lines",
        "path": "/tmp/secret-place",
        "types": ["COMMIT"],
        "references": ["main", "release-*"],
        "queue_max": 7,
        "drop": "oldest",
    }


def test_a_file_the_environment_and_a_flag_have_one_form(tmp_path):
    file = tmp_path / "lochan.toml"
    file.write_text(_FILE)
    expected = {"orders": orders(), "everything": {"type": "log"}}
    text = msgspec.json.encode(expected).decode()
    assert read_settings({}, {}, file).subscribers == expected
    assert read_settings({}, {"LOCHAN_SUBSCRIBERS": text}, None).subscribers == expected
    assert read_settings({"subscribers": text}, {}, None).subscribers == expected
    # The whole table of a lower place is replaced.
    environment = {"LOCHAN_SUBSCRIBERS": '{"log": {"type": "log"}}'}
    assert list(read_settings({}, environment, file).subscribers) == ["log"]


def test_values_of_subscribers_are_not_shown(tmp_path):
    file = tmp_path / "lochan.toml"
    file.write_text(_FILE)
    shown = repr(read_settings({}, {}, file))
    assert "orders" in shown
    assert "secret-place" not in shown


@pytest.mark.parametrize("text", ["secret-place", '["secret-place"]', '{"a": "secret-place"}'])
def test_a_setting_of_another_form_is_refused_and_not_repeated(text):
    with pytest.raises(Invalid) as refused:
        read_settings({}, {"LOCHAN_SUBSCRIBERS": text}, None)
    assert "LOCHAN_SUBSCRIBERS" in refused.value.message
    assert "secret-place" not in refused.value.message


def test_keys_of_every_type_become_filter_and_options():
    (one,) = read_subscribers({"orders": orders()})
    assert one.name == "orders"
    assert one.filter == EventFilter(types=("COMMIT",), references=("main", "release-*"))
    given = DeliveryOptions(queue_max=100, attempts_max=2)
    assert one.options(given, "orders") == DeliveryOptions(
        queue_max=7, drop=DropPolicy.OLDEST, attempts_max=2
    )


def test_delivery_at_least_once_has_a_cursor_of_the_name_of_its_subscription():
    table = {"type": "log", "delivery": "at-least-once", "poll_ms": 50, "age_s_max": 60}
    (one,) = read_subscribers({"orders": table})
    assert one.options(None, "orders/2") == DeliveryOptions(
        cursor="orders/2", poll_ms=50, age_s_max=60
    )


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ({}, ["'type'", "missing"]),
        ({"type": "log", "delivery": "exactly-once"}, ["'delivery'", "docs/events.md"]),
        ({"type": "log", "types": ["COMIT"]}, ["'types'", "COMIT", "REFERENCE_CREATED"]),
        ({"type": "log", "types": "COMMIT"}, ["'types'", "array"]),
        ({"type": "log", "queue_max": 0}, ["'queue_max'", ">= 1"]),
        ({"type": "log", "drop": "all"}, ["'drop'"]),
        ({"type": "log", "references": ["*a*b*c*"]}, ["stars"]),
        ({"type": "log", "expression": "nonsense("}, ["'orders'"]),
        ({"type": "log", "poll_ms": 5}, ["'poll_ms'", "at-most-once"]),
        ({"type": "log", "delivery": "at-least-once", "drop": "oldest"}, ["'drop'", "at-least"]),
        ({"type": "log", "delivery": "at-least-once", "age_s_max": 0}, ["'age_s_max'", ">= 1"]),
    ],
)
def test_what_is_wrong_is_refused_with_its_key_and_reason(table, named):
    with pytest.raises(Invalid) as refused:
        read_subscribers({"orders": table})
    message = refused.value.message
    assert [word for word in ["'orders'", *named] if word not in message] == [], message


@pytest.mark.parametrize("name", ["", "Orders", "a b", "-a", "a" * 65, "a/2"])
def test_a_name_that_cannot_be_shown_everywhere_is_refused(name):
    with pytest.raises(Invalid, match="cannot have the name"):
        read_subscribers({name: {"type": "log"}})


def test_their_number_is_bounded():
    many = {f"s{number}": {"type": "log"} for number in range(EVENT_SUBSCRIPTIONS_MAX + 1)}
    with pytest.raises(Invalid, match="at most"):
        read_subscribers(many)


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ({"type": "none"}, ["'none'", "no installed package", "json-lines", "log"]),
        ({"type": "log", "colour": "red"}, ["'log'", "'colour'", "not known"]),
        ({"type": "json-lines"}, ["'json-lines'", "'path'", "missing"]),
    ],
)
def test_what_only_the_type_can_judge_is_refused_when_it_is_registered(table, named):
    (one,) = read_subscribers({"orders": table})
    with pytest.raises(Invalid) as refused:
        one.load()
    assert [word for word in named if word not in refused.value.message] == []


class Given:
    """A subscriber that accepts commits and contents."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    def register(self, registrar: Registrar) -> None:
        registrar.subscribe(self._collector, EventFilter(types=("COMMIT", "CONTENT_STORED")))


def test_an_operator_narrows_what_a_subscriber_asks_for():
    collector = Collector()
    runner = EventRunner(_ports())
    wanted = EventFilter(types=("CONTENT_STORED", "REFERENCE_CREATED"), keys=("a*",))
    one = Registration(name="one", load=lambda: Given(collector), filter=wanted)
    runner.register([one])
    with served(runner, _ports()) as address:
        commit_over_http(address, "a1", "b1")
    runner.close()
    (event,) = collector.events
    assert isinstance(event, ContentStored)
    assert event.key == ("a1",)


# The modules that may start delivery to a subscriber: its own package, the runner, and who gives it
# what an operator or the program itself chose. A new one needs a reason beside it.
_MAY_SUBSCRIBE = {
    "src/lochan/assembly/events.py",
    "src/lochan/assembly/serve.py",
    "src/lochan/embedded/repository.py",
    "src/lochan/sinks/kafka.py",
    "src/lochan/sinks/lines.py",
    "src/lochan/sinks/nats.py",
    "src/lochan/sinks/webhook.py",
}
_STARTS = {"subscribe", "register", "read_subscribers"}


def test_only_operators_can_register_subscribers():
    starting = {
        source.where
        for source in sources("src")
        if "lochan.events" in source.text or "lochan.assembly" in source.text
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call)
        and getattr(node.func, "attr", getattr(node.func, "id", "")) in _STARTS
    }
    assert starting == _MAY_SUBSCRIBE
    # No request is for it, and what handles requests knows neither the runner nor its types.
    operations = (
        *OPERATIONS_ACCESS,
        *OPERATIONS_FILES,
        *OPERATIONS_EVENTS,
        *OPERATIONS_STORE,
        *OPERATIONS_LAKEFS,
        *OPERATIONS_V1,
        *OPERATIONS_V2,
    )
    named = [
        one.id
        for one in operations
        if one.method != "GET" and "subscri" in f"{one.id} {one.path}".lower()
    ]
    assert named == []
    requests = ("src/lochan/faces/", "src/lochan/transport/", "src/lochan/service/")
    knowing = [
        source.where
        for source in sources("src")
        if source.where.startswith(requests)
        and any(word in source.text for word in ("lochan.assembly", "lochan.sinks", "EventRunner"))
    ]
    assert knowing == []
