"""What a store, a driver or the system says of the inside reaches the log and never a client.

Every operation of both versions is sent to a server whose store fails at its first, second, … call,
with every error that a store may raise and with raw ones that nobody translated.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import lochan
from lochan.access.policy import Call
from lochan.base import errors
from lochan.base.errors import LochanError
from lochan.faces.nessie.face import DOCUMENTS, nessie_faces
from lochan.kernel.repository import Ports
from lochan.service.repositories import Repositories
from lochan.stores.memory.store import MemoryStore
from lochan.stores.postgres.failures import read_failure, write_failure
from lochan.stores.rocksdb.failures import lost_rows, opening_failure, reading_failure
from lochan.testing.ports import ManualClock, RecordedWaiting, SeededRandom
from lochan.transport.error_boundary import attempt, log_failure
from tests.profile import counted
from tests.transport.world import Answer, Client, running
from tests.wire.recording import Recording, record_v1, record_v2

INSIDE = "db.inside.example port 5432 user alice /var/lib/inside/000012.log"
SECRETS = (b"inside", b"5432", b"alice", b"/var/lib", b"Traceback", b".py")

# What the rules at the head of `kv/store.py` let a store raise, and what the format check raises.
OF_STORES = (
    errors.Unavailable,
    errors.StoreClosed,
    errors.StoreLocked,
    errors.Unknown,
    errors.Exhausted,
    errors.Corrupt,
    errors.NewerFormat,
    errors.Bug,
    errors.InvalidUrl,
)
RAW: tuple[Callable[[str], Exception], ...] = (
    OSError,
    PermissionError,
    psycopg.OperationalError,
    ValueError,
    KeyError,
    RuntimeError,
)
ABOUT_REQUESTS = (
    errors.NotFound,
    errors.AlreadyExists,
    errors.Conflict,
    errors.Invalid,
    errors.Denied,
)


class FailingStore:
    """A memory store that fails from the n-th call on while `error` is set."""

    def __init__(self) -> None:
        self._store = MemoryStore()
        self.make: Callable[[str], Exception] | None = None
        self.calls_left = 0
        self.failed = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        # A failed flush ends the process, which no client could read anything of.
        if not callable(found) or name in ("flush", "epoch", "close"):
            return found

        def call(*args: Any, **named: Any) -> Any:
            if self.make is not None:
                if self.calls_left <= 0:
                    self.failed += 1
                    raise self.make(INSIDE)
                self.calls_left -= 1
            return found(*args, **named)

        return call


def said_in(tell: Callable[[], Recording]) -> list[tuple[str, str, bytes, list[str]]]:
    """Every request of a story, with its headers as lines."""
    requests: list[tuple[str, str, bytes, list[str]]] = []
    whole = tell().wire.sent
    for method, target, body, headers in whole:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        requests.append((method, target, raw, [f"{k}: {v}" for k, v in headers.items()]))
    return requests


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[FailingStore, Any]]:
    store = FailingStore()
    clock = ManualClock()
    ports = Ports(clock, SeededRandom(5), RecordedWaiting(clock))
    repositories = Repositories(store, ports)
    repositories.open_or_create(Call(), "default")
    faces = nessie_faces(repositories, "default")
    own = DOCUMENTS
    with running(store, faces, repositories=repositories, own=own) as server:
        yield store, server


def check_answer(answer: Answer) -> None:
    shown = answer.body + repr(sorted(answer.headers.items())).encode()
    assert not [one for one in SECRETS if one in shown], shown


@pytest.mark.parametrize("make", [*OF_STORES, *RAW], ids=lambda make: make.__name__)
def test_no_answer_of_any_operation_tells_what_a_store_said(served, make, caplog):
    store, server = served
    requests = [*said_in(record_v1), *said_in(record_v2)]
    failures = 0
    with Client(server) as client:
        for depth in (0, 1, 3)[: counted(2, 3)]:
            for method, target, body, lines in requests:
                caplog.clear()
                store.calls_left, store.failed, store.make = depth, 0, make
                answer = client.ask(method, target, body, *lines, "Nessie-Client-Spec: 2")
                store.make = None
                check_answer(answer)
                if answer.status >= 500:
                    failures += 1
                    request = answer.headers["x-request-id"]
                    assert request in answer.json()["message"]
                    logged = "\n".join(record.getMessage() for record in caplog.records)
                    assert request in logged
                    assert "inside" in caplog.text
    assert failures or make is errors.InvalidUrl


@pytest.mark.parametrize("make", [*OF_STORES, *RAW], ids=lambda make: make.__name__)
def test_health_tells_nothing_either(served, make):
    store, server = served
    with Client(server) as client:
        store.calls_left, store.make = 0, make
        answers = [client.ask("GET", f"/health/{what}") for what in ("live", "ready", "started")]
        store.make = None
    for answer in answers:
        check_answer(answer)


def test_the_log_does_not_quote_a_driver_whose_words_were_taken_out(caplog):
    def connect() -> None:
        try:
            raise psycopg.OperationalError("password=correct-horse")
        except psycopg.Error:
            raise errors.Unavailable("cannot connect to db with password=***") from None

    def publish() -> None:
        try:
            connect()
        except errors.Unavailable:
            raise errors.Unknown("nobody knows") from None

    failed = attempt(publish)
    assert isinstance(failed, LochanError)
    log_failure(failed, "id-1", "commit")
    assert "id-1" in caplog.text
    assert "cannot connect to db" in caplog.text
    assert "correct-horse" not in caplog.text


def every_class() -> list[type[LochanError]]:
    return [
        each
        for each in vars(errors).values()
        if isinstance(each, type) and issubclass(each, LochanError)
    ]


@pytest.mark.parametrize("kind", every_class(), ids=lambda kind: kind.__name__)
def test_only_errors_about_the_request_itself_show_their_message(kind):
    details = ((),) if kind is errors.KeysConflict else ()
    error = kind(INSIDE, *details)
    shown = issubclass(kind, ABOUT_REQUESTS) and kind is not errors.InvalidUrl
    assert (INSIDE in error.public_message) == shown
    # On the own machine there is nobody to hide it from.
    assert str(error) == error.message == INSIDE


@pytest.mark.parametrize("text", ["Corruption: ", "IO error: ", "", "While open: No such file "])
def test_what_drivers_say_is_for_the_log(text):
    said = Exception(text + INSIDE)
    postgres = psycopg.OperationalError(text + INSIDE)
    told = [
        opening_failure(Path("/var/lib/inside"), said),
        reading_failure(said),
        lost_rows(Path("/var/lib/inside")),
        read_failure(postgres),
        write_failure(postgres, broken=True),
        write_failure(postgres, broken=False),
    ]
    for error in told:
        assert "inside" in error.message
        assert "inside" not in error.public_message


# Exceptions of reading and computing values; all others may quote hosts, users and paths.
_OF_VALUES = {"ValidationError", "DecodeError", "UnicodeDecodeError", "UnicodeEncodeError"}
_OF_VALUES |= {"ValueError", "TypeError", "ArithmeticError", "OverflowError", "RuntimeError"}
_OF_VALUES |= {"RecursionError"}
_NOT_SERVED = ("spark", "cli", "testing", "iceberg", "client", "settings.py", "telemetry")


def public_classes() -> set[str]:
    kinds = [kind for kind in every_class() if issubclass(kind, ABOUT_REQUESTS)]
    return {kind.__name__ for kind in kinds if not kind.sentence}


def sources() -> list[Path]:
    root = Path(lochan.__file__).parent
    return [
        path for path in root.rglob("*.py") if path.relative_to(root).parts[0] not in _NOT_SERVED
    ]


def name_of(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def quotes_the_inside(handler: ast.ExceptHandler, public: set[str]) -> list[int]:
    """Lines of a handler that put a foreign exception's text into an error that clients see."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = {name_of(kind) for kind in kinds if kind is not None}
    ours = {kind.__name__ for kind in every_class()}
    if handler.name is None or names <= _OF_VALUES | ours:
        return []
    return [
        node.lineno
        for node in ast.walk(handler)
        if isinstance(node, ast.Call)
        and name_of(node.func) in public
        and any(getattr(each, "id", "") == handler.name for each in ast.walk(node))
    ]


def test_no_error_about_a_request_quotes_an_exception_of_a_driver_or_the_system():
    public = public_classes()
    found = []
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ExceptHandler):
                found += [f"{path.name}:{line}" for line in quotes_the_inside(node, public)]
    assert found == []


def test_stores_raise_only_errors_whose_message_stays_inside():
    public = public_classes()
    found = [
        f"{path.name}:{node.lineno}"
        for path in sources()
        if "stores" in path.parts
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and name_of(node.func) in public
    ]
    assert found == []


def test_the_rule_can_fail():
    code = "try:\n    go()\nexcept OSError as error:\n    raise Invalid(f'{error}')\n"
    handler = next(n for n in ast.walk(ast.parse(code)) if isinstance(n, ast.ExceptHandler))
    assert quotes_the_inside(handler, public_classes()) == [4]
