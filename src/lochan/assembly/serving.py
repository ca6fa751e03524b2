"""From settings to a server that runs: store, repositories, faces and what watches them, joined."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from lochan.assembly import open_store
from lochan.base.errors import NotFound, StoreLocked
from lochan.base.limits import SWEEP_CLAIMS_EVERY_S, SWEEP_EVERY_S, SWEEP_PAUSE_S
from lochan.http.access_log import AccessLog
from lochan.http.app import OwnHandler
from lochan.http.exchange import Request, Response
from lochan.http.nessie.documents import document_handlers
from lochan.http.nessie.face import nessie_faces
from lochan.http.observers import RequestObserver, RequestObservers
from lochan.http.serve import run_until_stopped
from lochan.http.server import Chore, Options, Server, check_loopback
from lochan.http.server_file import ServerFile, announce, find_presence, server_file, withdraw
from lochan.kernel.context import Tuning
from lochan.kernel.repository import Ports
from lochan.kv.observe import ObservedStore, Observer
from lochan.kv.store import Store
from lochan.kv.url import parse_store_url
from lochan.persist.cache import Caches
from lochan.persist.retry import RetryPolicy
from lochan.service.calls import Call
from lochan.service.repositories import Repositories
from lochan.service.repository import Repository
from lochan.service.sweeps import SweepFailure, sweep_of_claims, sweep_of_references
from lochan.settings import Settings
from lochan.system import SystemClock, SystemRandom, ThreadWaiting
from lochan.telemetry.metrics import Exposition, Metrics
from lochan.telemetry.observers import ObservedWaiting, Observers, SleepObserver
from lochan.telemetry.traces import Traces

_MEGABYTE: Final = 1_024 * 1_024
_LOG: Final = logging.getLogger("lochan.sweeps")


def tuning_of(settings: Settings) -> Tuning:
    """Returns what the settings say of each repository."""
    sleep_first_ms = (settings.retry_sleep_low_ms, settings.retry_sleep_high_ms)
    return Tuning(
        Caches(settings.cache_mb * _MEGABYTE),
        retry_policy=RetryPolicy(
            settings.commit_timeout_ms, sleep_first_ms, settings.retry_sleep_max_ms
        ),
    )


class Serving(msgspec.Struct, frozen=True):
    """A server that is ready: where it is, and what it serves, without passwords."""

    url: str
    store: str


class Watching:
    """Everything that a setting asks to watch with; nothing by default."""

    def __init__(self, settings: Settings) -> None:
        self._log = AccessLog(settings.access_log) if settings.access_log != "off" else None
        self._metrics = Metrics() if settings.metrics else None
        endpoint = settings.trace_endpoint
        self._traces = Traces(endpoint, settings.trace_sampler) if endpoint else None
        self._server: Server | None = None
        self._repository: Repository | None = None
        self._exposition: Exposition | None = None
        if self._metrics is not None:
            self._exposition = Exposition(self._metrics, self._readings, self._chains)

    def watch(self) -> RequestObservers:
        """Returns what the driver of requests tells."""
        watchers: list[RequestObserver] = [
            each for each in (self._log, self._metrics) if each is not None
        ]
        return RequestObservers(watchers, self._traces)

    def store(self, store: Store) -> Store:
        """Returns the store, watched if anybody wants to know of its calls."""
        observers: list[Observer] = [each for each in (self._metrics, self._traces) if each]
        return ObservedStore(store, Observers(observers), SystemClock()) if observers else store

    def ports(self) -> Ports:
        """Returns the doors to the world, with sleeps watched if anybody wants to know."""
        observers: list[SleepObserver] = [each for each in (self._metrics, self._traces) if each]
        waiting = ThreadWaiting()
        watched = ObservedWaiting(waiting, observers) if observers else waiting
        return Ports(SystemClock(), SystemRandom(), watched)

    def own_routes(self) -> Mapping[bytes, OwnHandler]:
        """Returns what is served beside the faces."""
        return {} if self._exposition is None else {b"/metrics": self._serve_metrics}

    def notice(self, server: Server, repository: Repository) -> None:
        """Gets to know what can be read from."""
        self._server = server
        self._repository = repository

    def close(self) -> None:
        """Sends what is left."""
        if self._traces is not None:
            self._traces.close()

    def _serve_metrics(self, request: Request) -> Response:  # noqa: ARG002
        if self._exposition is None:
            raise NotFound("metrics are not kept; set metrics to true")
        text = self._exposition.text()
        return Response(200, text, content_type=Exposition.content_type)

    def _chains(self) -> Mapping[int, int]:
        return {} if self._server is None else self._server.chains

    def _readings(self) -> Mapping[str, float]:
        server, repository = self._server, self._repository
        if server is None or repository is None:
            return {}
        nodes, views = repository.context.nodes, repository.context.views
        return {
            "connections": server.connections(),
            "requests_under_way": server.driver.under_way,
            "lanes": len(server.lanes),
            "lane_members": server.lanes.inside,
            "pool_brief_under_way": server.brief_pool.under_way,
            "pool_publish_under_way": server.publish_pool.under_way,
            "pool_long_under_way": server.long_pool.under_way,
            "flush_waiting": server.flushing.waiting,
            "flushes_total": server.flushing.flushes,
            "node_cache_hits_total": nodes.hits,
            "node_cache_misses_total": nodes.misses,
            "commit_cache_misses_total": views.reads,
        }


def serve(settings: Settings, ready: Callable[[Serving], None]) -> None:
    """Serves until SIGTERM or SIGINT; `ready` is called once, when requests may be sent.

    1. refuse what cannot work before anything is opened; 2. open the store, make the repository if
    it is missing; 3. listen, and leave a note beside an embedded store; 4. stop in the opposite
    order. A crash leaves a note, and the next server replaces it.
    """
    check_loopback(settings.host)
    watching = Watching(settings)
    try:
        note = server_file(settings.store)
        if note is not None and settings.store == Settings().store:
            note.parent.mkdir(parents=True, exist_ok=True)
        store = watching.store(_open_free(settings.store, note))
        try:
            _serve(settings, watching, store, note, ready)
        finally:
            store.close()
    finally:
        watching.close()


def _serve(
    settings: Settings,
    watching: Watching,
    store: Store,
    note: Path | None,
    ready: Callable[[Serving], None],
) -> None:
    repositories = Repositories(store, watching.ports(), tuning=tuning_of(settings))
    repository = _open_or_create(repositories, settings)
    store.flush(store.epoch())

    written: list[ServerFile] = []

    def make() -> Server:
        server = Server(
            store,
            repositories,
            nessie_faces(repositories),
            options_of(settings),
            watch=watching.watch(),
            own={**document_handlers(), **watching.own_routes()},
            chores=chores(repositories),
        )
        watching.notice(server, repository)
        return server

    def tell(url: str) -> None:
        if note is not None:
            written.append(announce(note, url))
        ready(Serving(url, str(parse_store_url(settings.store))))

    try:
        run_until_stopped(make, tell)
    finally:
        for presence in written:
            if note is not None:
                withdraw(note, presence)


def chores(repositories: Repositories) -> list[Chore]:
    """Returns what a server does by itself: it sweeps branches, tombstones and claims."""
    references = sweep_of_references(repositories, report_failure)
    claims = sweep_of_claims(repositories, report_failure)
    return [
        Chore(SWEEP_EVERY_S, references.turn, SWEEP_PAUSE_S),
        Chore(SWEEP_CLAIMS_EVERY_S, claims.turn, SWEEP_PAUSE_S),
    ]


def report_failure(failure: SweepFailure) -> None:
    """Logs what a sweep could not do; the names of rows are printed so that they forge no line."""
    _LOG.warning(
        "sweep skipped sweep=%s repository=%s what=%s row=%s error=%s",
        failure.sweep,
        failure.repository,
        failure.what,
        failure.row.hex() if failure.what == "claim" else ascii(failure.row.decode("latin-1")),
        failure.error,
    )


def options_of(settings: Settings) -> Options:
    """Returns how the server runs."""
    return Options(
        host=settings.host,
        port=settings.port,
        names=settings.host_names,
        brief_threads=settings.brief_threads,
        publish_threads=settings.publish_threads,
        long_threads=settings.long_threads,
        drain_s=settings.drain_timeout_s,
        show_traces=settings.stack_traces,
        default_repository=settings.repository,
    )


def _open_free(address: str, note: Path | None) -> Store:
    """Opens the store; if another server has it, says where that one is."""
    try:
        return open_store(address)
    except StoreLocked as error:
        other = None if note is None else find_presence(note)
        if other is None:
            raise
        raise StoreLocked(
            f"a server serves this store already: {other.url} (process {other.pid})"
        ) from error


def _open_or_create(repositories: Repositories, settings: Settings) -> Repository:
    try:
        return repositories.open(settings.repository)
    except NotFound:
        call = Call(repository=settings.repository)
        return repositories.create(call, settings.repository, settings.default_branch)
