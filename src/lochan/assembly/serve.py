"""From settings to a running server: store, repositories, faces and telemetry, joined."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import msgspec

from lochan.access.policy import Call
from lochan.access.rights import OPEN_RIGHTS
from lochan.assembly import open_store
from lochan.assembly.access import ServerAccess, open_access
from lochan.assembly.event_feeds import FeedReader
from lochan.assembly.events import EventRunner, StoreRepositories
from lochan.assembly.exposure import check_exposure, warn_exposure
from lochan.assembly.places import Places, TemporaryPlaces, data_directory, place_below
from lochan.assembly.server_file import (
    ServerFile,
    read_server_file,
    remove_server_file,
    server_file,
    write_server_file,
)
from lochan.assembly.subscribers import Registration, read_subscribers
from lochan.base.errors import NotFound, StoreLocked
from lochan.base.limits.access import ACCESS_STALE_MS
from lochan.base.limits.maintenance import (
    DELETED_REPOSITORIES_EVERY_S,
    KEY_PACKS_EVERY_S,
    SWEEP_CLAIMS_EVERY_S,
    SWEEP_EVERY_S,
    SWEEP_PAUSE_S,
)
from lochan.events.feeds import EventFeeds
from lochan.events.observers import UNOBSERVED, DeliveryObserver
from lochan.events.subscribers import SubscriptionStatus
from lochan.faces.access.face import AccessFace
from lochan.faces.events.face import EventsFace
from lochan.faces.files.face import FilesFace
from lochan.faces.lakefs.face import LakefsFace
from lochan.faces.metrics.face import MetricsFace
from lochan.faces.nessie.face import DOCUMENTS, nessie_faces
from lochan.faces.s3.face import S3Face
from lochan.faces.store.face import StoreFace
from lochan.kernel.context import Tuning
from lochan.kernel.repository import Ports
from lochan.kernel.settled import SettledObserver
from lochan.kv.observe import ObservedStore, Observer
from lochan.kv.store import Store
from lochan.kv.url import parse_store_url
from lochan.persist.cache import Caches
from lochan.persist.retry import RetryPolicy
from lochan.service.quotas import ReferenceQuota
from lochan.service.repositories import Repositories
from lochan.service.repository import Repository
from lochan.service.stores import StoreControl
from lochan.service.sweeps import (
    KeyPackSweep,
    SweepFailure,
    sweep_of_claims,
    sweep_of_references,
    sweep_of_tokens,
)
from lochan.settings import Settings
from lochan.system import SystemClock, SystemRandom, ThreadWaiting
from lochan.telemetry.audit import AuditLog, AuditWriter
from lochan.telemetry.deliveries import DeliveryMetrics, ObservedDeliveries
from lochan.telemetry.metrics import Exposition, Metrics
from lochan.telemetry.observers import ObservedWaiting, Observers, SleepObserver
from lochan.telemetry.process_log import start_log, stop_log
from lochan.telemetry.traces import TracedRandom, Traces
from lochan.transport.access_log import AccessLog
from lochan.transport.addresses import is_loopback
from lochan.transport.listener import ListenerOptions
from lochan.transport.observers import RequestObserver, RequestObservers
from lochan.transport.quotas import QuotaLimits
from lochan.transport.routes import Face
from lochan.transport.serve import run_until_stopped
from lochan.transport.server import Options, PeriodicTask, Server
from lochan.transport.tls import certificate_of

_MEGABYTE: Final = 1_024 * 1_024
_LOG: Final = logging.getLogger("lochan.sweeps")


def tuning_of(settings: Settings, observer: SettledObserver | None = None) -> Tuning:
    """Returns the tuning of each repository that the settings ask for."""
    sleep_first_ms = (settings.retry_sleep_low_ms, settings.retry_sleep_high_ms)
    return Tuning(
        Caches(settings.cache_mb * _MEGABYTE),
        retry_policy=RetryPolicy(
            settings.commit_timeout_ms, sleep_first_ms, settings.retry_sleep_max_ms
        ),
        observer=observer,
    )


def reference_quota_of(settings: Settings) -> ReferenceQuota:
    """Returns the quota of each repository that the settings ask for; 0 is no limit."""
    return ReferenceQuota(
        branches_max=settings.branches_max or None,
        ttl_us_max=settings.branch_ttl_max_s * 1_000_000 or None,
    )


def places_of(settings: Settings) -> Places:
    """Returns the places of files that the settings ask for; none is opened yet."""
    allowed = [one for one in (settings.storage, *settings.storage_prefixes) if one]
    if not settings.data and parse_store_url(settings.store).scheme == "memory":
        return TemporaryPlaces(imports=settings.import_prefixes, allowed=allowed)
    directory = data_directory(settings.store, settings.data)
    return Places(directory, imports=settings.import_prefixes, allowed=allowed)


class ServerReady(msgspec.Struct, frozen=True):
    """A server that is ready: where it is, and what it serves, without passwords."""

    url: str
    store: str
    insecure: str = ""
    """What the server gives up by a setting; empty for nothing."""
    files_url: str = ""
    """Where clients of lakeFS and of S3 are served; empty if they are not."""


class Telemetry:
    """The access log, audit log, metrics and traces that the settings ask for; none by default."""

    def __init__(self, settings: Settings) -> None:
        self._log = AccessLog(settings.access_log) if settings.access_log != "off" else None
        self._metrics = Metrics() if settings.metrics else None
        endpoint = settings.trace_endpoint
        self._traces = Traces(endpoint, settings.trace_sampler) if endpoint else None
        self._audit_writer: AuditWriter | None = None
        self.audit: AuditLog | None = None
        if settings.audit_log != "off":
            self._audit_writer = AuditWriter(settings.audit_file)
            self.audit = AuditLog(settings.audit_log, self._audit_writer.write)
        self._server: Server | None = None
        self._repository: Repository | None = None
        self._feeds: EventFeeds | None = None
        self._events: EventRunner | None = None
        self._deliveries = DeliveryMetrics(self._subscriptions)
        self._exposition: Exposition | None = None
        if self._metrics is not None:
            self._exposition = Exposition(
                self._metrics, self._readings, self._chains, self._deliveries.families
            )

    def request_observers(self) -> RequestObservers:
        """Returns the observers of requests."""
        observers: list[RequestObserver] = [
            each for each in (self._log, self._metrics) if each is not None
        ]
        return RequestObservers(observers, self._traces)

    def store(self, store: Store) -> Store:
        """Returns the store, with its calls observed if metrics or traces are on."""
        observers: list[Observer] = [each for each in (self._metrics, self._traces) if each]
        return ObservedStore(store, Observers(observers), SystemClock()) if observers else store

    def ports(self) -> Ports:
        """Returns clock, randomness and sleeps; sleeps are observed if metrics or traces are on."""
        observers: list[SleepObserver] = [each for each in (self._metrics, self._traces) if each]
        waiting = ThreadWaiting()
        watched = ObservedWaiting(waiting, observers) if observers else waiting
        random = SystemRandom()
        drawn = random if self._traces is None else TracedRandom(random, self._traces)
        return Ports(SystemClock(), drawn, watched)

    def run_events(self, ports: Ports) -> EventRunner:
        """Returns the runner of subscriptions; metrics and traces see its deliveries."""
        metrics = None if self._metrics is None else self._deliveries
        observer: DeliveryObserver = UNOBSERVED
        if metrics is not None or self._traces is not None:
            observer = ObservedDeliveries(metrics, self._traces)
        self._events = EventRunner(ports, observer=observer)
        return self._events

    def faces(self, access: ServerAccess) -> list[Face]:
        """Returns the face of metrics, if they are on."""
        if self._exposition is None:
            return []
        text, kind = self._exposition.text, Exposition.content_type
        return [MetricsFace(text, kind, access.policy, access.authentication)]

    def reloads(self) -> list[Callable[[], None]]:
        """Returns what is done when the process is asked to read its files again."""
        return [] if self._audit_writer is None else [self._audit_writer.reopen]

    def attach(self, server: Server, repository: Repository, feeds: EventFeeds) -> None:
        """Takes the server, the repository and the feeds whose numbers `/metrics` shows."""
        self._server = server
        self._repository = repository
        self._feeds = feeds

    def close(self) -> None:
        """Sends the traces that are left, and writes the rest of the audit log."""
        if self._traces is not None:
            self._traces.close()
        if self._audit_writer is not None:
            self._audit_writer.close()

    def _subscriptions(self) -> Sequence[tuple[str, SubscriptionStatus]]:
        deliveries = () if self._events is None else self._events.hub.deliveries
        return [(one.name, one.status()) for one in deliveries]

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
            "lane_members": server.lanes.unsettled,
            "pool_brief_under_way": server.brief_pool.under_way,
            "pool_publish_under_way": server.publish_pool.under_way,
            "pool_long_under_way": server.long_pool.under_way,
            "event_followers": 0 if self._feeds is None else self._feeds.followers,
            "flush_waiting": server.group_flush.waiting,
            "flushes_total": server.group_flush.flushes,
            "node_cache_hits_total": nodes.hits,
            "node_cache_misses_total": nodes.misses,
            "commit_cache_misses_total": views.reads,
        }


def serve(settings: Settings, ready: Callable[[ServerReady], None]) -> None:
    """Serves until SIGTERM or SIGINT; `ready` is called once, when requests may be sent.

    1. refuse what cannot work before anything is opened; 2. open the store, its access, and the
    repository, which is made if it is missing; 3. refuse to serve other machines unless callers are
    known and nothing can be read; 4. listen, and write the server file beside an embedded store;
    5. stop in the opposite order. A crash leaves the server file, and the next server replaces it.
    """
    check_exposure(settings, authenticates=None)
    options = options_of(settings)
    subscribers = read_subscribers(settings.subscribers)
    log = start_log()
    telemetry = Telemetry(settings)
    try:
        file = server_file(settings.store)
        if file is not None and settings.store == Settings().store:
            file.parent.mkdir(parents=True, exist_ok=True)
        store = telemetry.store(_open_free(settings.store, file))
        places = places_of(settings)
        try:
            _serve(settings, options, subscribers, telemetry, store, places, file, ready)
        finally:
            places.close()
            store.close()
    finally:
        telemetry.close()
        stop_log(log)


def _serve(
    settings: Settings,
    options: Options,
    subscribers: Sequence[Registration],
    telemetry: Telemetry,
    store: Store,
    places: Places,
    file: Path | None,
    ready: Callable[[ServerReady], None],
) -> None:
    ports = telemetry.ports()
    events = telemetry.run_events(ports) if subscribers else None
    reader = FeedReader(ports)
    tuning = tuning_of(settings, reader.observer(events))
    access = open_access(settings, store, ports, tuning.retry_policy, telemetry.audit)
    authenticates = access.authenticator.is_required()
    insecure = check_exposure(settings, authenticates=authenticates)
    repositories = Repositories(
        store,
        ports,
        policy=access.policy,
        tuning=tuning,
        quota=reference_quota_of(settings),
        files=places.support(),
    )
    if events is not None:
        events.register(subscribers, StoreRepositories(repositories), access.find_user)
    repository = _open_or_create(repositories, settings)
    written: list[tuple[Path, ServerFile]] = []

    def make() -> Server:
        server = Server(
            store,
            repositories,
            faces_of(settings, repositories, access, telemetry, reader.feeds),
            options,
            observers=telemetry.request_observers(),
            own=DOCUMENTS,
            periodic_tasks=periodic_tasks(repositories, access),
            listeners=file_listeners(settings, options, file_faces(settings, repositories, access)),
            reloads=telemetry.reloads(),
        )
        telemetry.attach(server, repository, reader.feeds)
        return server

    def on_ready(url: str) -> None:
        if file is not None:
            written.append((file, write_server_file(file, url)))
        warn_exposure(settings, insecure, authenticates=authenticates)
        store_name = str(parse_store_url(settings.store))
        ready(ServerReady(url, store_name, insecure, _files_url(settings, url)))

    try:
        with closing(reader):
            run_until_stopped(make, on_ready)
    finally:
        if events is not None:
            events.close()
        for path, own_file in written:
            remove_server_file(path, own_file)


def faces_of(
    settings: Settings,
    repositories: Repositories,
    access: ServerAccess,
    telemetry: Telemetry,
    feeds: EventFeeds,
) -> list[Face]:
    """Returns the faces of the main listener; all of them have the same authentication."""
    return [
        *nessie_faces(repositories, settings.repository, access.authentication),
        FilesFace(settings.repository, access.authentication),
        EventsFace(settings.repository, feeds, access.authentication),
        AccessFace(access.control, access.authentication),
        StoreFace(StoreControl(repositories, access.policy), access.authentication),
        *telemetry.faces(access),
    ]


def periodic_tasks(
    repositories: Repositories, access: ServerAccess | None = None
) -> list[PeriodicTask]:
    """Returns what a server does by itself: it sweeps branches, tombstones, claims and tokens.

    It builds key packs for logs of files. On a store that may block it looks for changes of access
    too.
    """
    references = sweep_of_references(repositories, report_failure)
    claims = sweep_of_claims(repositories, report_failure)
    tokens = sweep_of_tokens(repositories, report_failure)
    key_packs = KeyPackSweep(repositories, report_failure)
    tasks = [
        PeriodicTask(SWEEP_EVERY_S, references.turn, SWEEP_PAUSE_S),
        PeriodicTask(SWEEP_CLAIMS_EVERY_S, claims.turn, SWEEP_PAUSE_S),
        PeriodicTask(SWEEP_CLAIMS_EVERY_S, tokens.turn, SWEEP_PAUSE_S),
        PeriodicTask(DELETED_REPOSITORIES_EVERY_S, repositories.drop_deleted),
        PeriodicTask(KEY_PACKS_EVERY_S, key_packs.turn, SWEEP_PAUSE_S),
    ]
    if access is not None and not repositories.store.capabilities.inline:
        tasks.append(PeriodicTask(ACCESS_STALE_MS / 2_000, access.refresh))
    return tasks


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
    """Returns the options of the server that the settings ask for; loads the certificate."""
    return Options(
        host=settings.host,
        port=settings.port,
        names=settings.host_names,
        certificate=certificate_of(settings.tls_certificate, settings.tls_key),
        unix_socket=settings.unix_socket,
        brief_threads=settings.brief_threads,
        publish_threads=settings.publish_threads,
        long_threads=settings.long_threads,
        drain_s=settings.drain_timeout_s,
        show_traces=settings.stack_traces,
        default_repository=settings.repository,
        # What must not be served was refused before (`check_exposure`).
        allow_remote=not is_loopback(settings.host),
        quotas=QuotaLimits(
            settings.principal_requests_max,
            settings.principal_requests_per_s,
            settings.repository_requests_max,
        ),
        request_bytes_max=settings.request_bytes_max,
    )


def file_faces(settings: Settings, repositories: Repositories, access: ServerAccess) -> list[Face]:
    """Returns the faces of the port for files, in the order in which they are asked.

    What is signed as AWS does it, or addressed by the name of a host, goes to the S3 gateway, and
    everything else below `/api` to the lakeFS API.
    """
    return [
        S3Face(repositories, access.signed_authentication, settings.s3_domains),
        LakefsFace(repositories, access.control, settings.repository, access.authentication),
    ]


def _files_url(settings: Settings, url: str) -> str:
    """Returns the address for clients of lakeFS and of S3, beside that of the main port."""
    if not settings.files_port:
        return ""
    return f"{url.rpartition(':')[0]}:{settings.files_port}"


def file_listeners(
    settings: Settings, options: Options, faces: Sequence[Face] = ()
) -> list[ListenerOptions]:
    """Returns the listener for files, if there is a port for it."""
    if not settings.files_port:
        return []
    return [
        ListenerOptions(
            host=settings.host,
            port=settings.files_port,
            faces=faces,
            names=settings.host_names,
            domains=settings.s3_domains,
            certificate=options.certificate,
            allow_remote=options.allow_remote,
        )
    ]


def _open_free(address: str, file: Path | None) -> Store:
    """Opens the store; if another server has it, the error names that server."""
    try:
        return open_store(address)
    except StoreLocked as error:
        other = None if file is None else read_server_file(file)
        if other is None:
            raise
        raise StoreLocked(
            f"a server serves this store already: {other.url} (process {other.pid})"
        ) from error


def _open_or_create(repositories: Repositories, settings: Settings) -> Repository:
    """Returns the repository that is served by default; it is durable."""
    try:
        found = repositories.open(settings.repository)
    except NotFound:
        call = Call(repository=settings.repository, rights=OPEN_RIGHTS)
        storage = settings.storage and place_below(settings.storage, settings.repository)
        found = repositories.create(call, settings.repository, settings.default_branch, storage)
    repositories.store.flush(repositories.store.epoch())
    return found
