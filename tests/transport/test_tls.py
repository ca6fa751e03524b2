"""TLS: which clients are served, what is refused, and certificates that change under load."""

from __future__ import annotations

import logging
import os
import signal
import socket
import ssl
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Event

import httpx
import msgspec
import pytest

from lochan.assembly.serve import serve
from lochan.base.errors import Invalid, Unavailable
from lochan.client import Client as LochanClient
from lochan.settings import Settings, read_settings
from lochan.transport.connection_registry import Timeouts
from lochan.transport.server import Options
from tests.client.serving import StepByStep
from tests.transport import test_streams as streams
from tests.transport.byte_face import ByteFace
from tests.transport.certificates import ENCRYPTED_KEY, CertificateFiles, make_pair
from tests.transport.world import Client, Place, SmallFace, running


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return CertificateFiles(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def face():
    return ByteFace(bytes_max=1 << 20)


@pytest.fixture(scope="module")
def server(files, face):
    options = Options(port=0, certificate=files.load())
    with running(faces=[face, SmallFace()], options=options, trust=files.trust()) as started:
        yield started


@pytest.fixture
def client(server):
    with Client(server) as connected:
        yield connected


def trusting(*, minimum: ssl.TLSVersion | None = None, maximum: ssl.TLSVersion | None = None):
    """The context of a client that accepts every certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    # So that the client itself refuses no old version.
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    with warnings.catch_warnings(action="ignore"):
        context.minimum_version = minimum or ssl.TLSVersion.TLSv1_2
        context.maximum_version = maximum or ssl.TLSVersion.MAXIMUM_SUPPORTED
    return context


def seen_certificate(place: Place) -> bytes:
    """The certificate that a new connection is shown."""
    plain = socket.create_connection((place.host, place.port))
    with trusting().wrap_socket(plain) as wrapped:
        found = wrapped.getpeercert(binary_form=True)
    assert found is not None
    return found


# Who is served.


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_new_versions_are_served_and_http_1_1_is_agreed_on(server, version):
    context = trusting(minimum=version, maximum=version)
    context.set_alpn_protocols(["h2", "http/1.1"])
    place = Place(server.port, trust=context)
    with Client(place) as client:
        assert isinstance(client.socket, ssl.SSLSocket)
        assert client.socket.selected_alpn_protocol() == "http/1.1"
        assert client.ask("GET", "/t/echo/x").status == 200


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_old_versions_are_refused_by_the_server(server, version):
    place = Place(server.port, trust=trusting(minimum=ssl.TLSVersion.TLSv1, maximum=version))
    with pytest.raises(ssl.SSLError) as refused:
        place.connect()
    assert refused.value.reason == "TLSV1_ALERT_PROTOCOL_VERSION"


@pytest.mark.parametrize(
    "raw",
    [b"GET /t/echo/x HTTP/1.1\r\nHost: localhost\r\n\r\n", bytes(64), b"\x16\x03\x01\0\x05hello"],
)
def test_what_is_no_tls_is_cut_and_never_served(server, raw):
    with Client(Place(server.port)) as client:
        client.send(raw)
        got = b""
        with suppress(ConnectionResetError):
            while piece := client.socket.recv(1_000):
                got += piece
        # At most an alert, of seven bytes.
        assert got == b"" or (got[0], len(got)) == (21, 7)


@pytest.mark.parametrize("path", ["/t/echo/x", "/b-zeros/1000000", "/b-zeros/1000000?chunked=1"])
def test_the_end_of_an_answer_is_announced_so_that_a_cut_one_is_noticed(server, path):
    with Client(server) as client:
        client.send(client.request("GET", path, b"", "Connection: close"))
        # Without the announcement the last read would raise.
        while client.socket.recv(65_536):
            pass


def test_a_client_that_never_shakes_hands_is_counted_and_cut(files):
    quick = Timeouts(header_s=0.2, progress_s=0.2, idle_s=0.2, linger_s=0.2)
    options = Options(port=0, certificate=files.load(), timeouts=quick)
    with running(options=options) as server:
        for begun in (b"", b"\x16\x03\x01\x02\0\x01"):
            with Client(Place(server.port)) as client:
                client.send(begun)
                while not server.on_loop(server.server.connections):
                    pass
                assert client.is_closed()
            while server.on_loop(server.server.connections):
                pass


def test_too_many_connections_are_refused_after_the_handshake(monkeypatch, server):
    monkeypatch.setattr("lochan.transport.connection.HTTP_CONNECTIONS_MAX", 0)
    with Client(server) as client:
        assert client.read().status == 503
        assert client.is_closed()


def test_a_server_that_stops_cuts_handshakes(files):
    with running(options=Options(port=0, certificate=files.load())) as server:
        client = Client(Place(server.port))
        while not server.on_loop(server.server.connections):
            pass
    assert client.is_closed()
    client.socket.close()


# Streams.

OVER_TLS = [
    streams.test_an_empty_body_is_stored,
    streams.test_a_client_that_waits_is_asked_for_the_body_when_the_handler_reads,
    streams.test_a_body_that_is_not_wanted_is_never_asked_for,
    streams.test_requests_of_one_connection_are_answered_in_order,
    streams.test_a_body_over_its_limit_is_refused_by_the_face,
    streams.test_a_head_request_gets_the_length_and_no_part_is_made,
    streams.test_an_answer_whose_source_breaks_is_cut_and_never_looks_whole,
    streams.test_a_client_that_reads_slowly_bounds_what_is_made_for_it,
    streams.test_an_old_client_gets_the_end_of_the_connection_instead_of_chunks,
]


@pytest.mark.parametrize("promise", OVER_TLS, ids=lambda each: each.__name__)
def test_a_promise_of_streams_is_kept_over_tls(promise, server, client, face):
    given = {"server": server, "client": client, "face": face}
    names = promise.__code__.co_varnames[: promise.__code__.co_argcount]
    promise(**{name: given[name] for name in names})


@pytest.mark.parametrize("size", [1, 16_384, 16_385, 65_537, len(streams.BODY)])
def test_bodies_of_all_sizes_pass_in_both_directions(client, face, size):
    streams.test_a_body_in_chunks_or_with_a_length_is_stored_whole(client, face, size)


@pytest.mark.parametrize("count", [0, 1, 65_536, 1_000_000])
def test_answers_in_parts_pass(client, count):
    streams.test_an_answer_in_parts_has_a_length_or_chunks(client, count)


@pytest.mark.parametrize("politely", [True, False])
def test_a_body_that_is_cut_is_an_error_and_nothing_is_stored(server, face, politely):
    face.failures.clear()
    with Client(server) as client:
        client.send(client.request("PUT", "/b/cut", b"0123456789")[:-1])
        if politely:
            # Its end is announced as TLS wants it; the answer to it is an error there.
            assert isinstance(client.socket, ssl.SSLSocket)
            with suppress(ssl.SSLError):
                client.socket.unwrap()
        else:
            client.socket.shutdown(socket.SHUT_WR)
            while client.socket.recv(65_536):
                pass
    while not face.failures:
        pass
    assert [type(error) for error in face.failures] == [Invalid]
    assert b"cut" not in face.stored


def test_a_handler_that_does_not_read_makes_the_client_wait(server, face):
    streams.test_a_handler_that_does_not_read_makes_the_client_wait(server, face)


# Certificates.


def test_a_certificate_is_changed_under_load_and_no_request_is_lost(tmp_path, record_property):
    files = CertificateFiles(tmp_path)
    certificate = files.load()
    stop = Event()

    def asking(place: Place) -> int:
        count = 0
        with Client(place) as kept:
            while not stop.is_set():
                with Client(place) as fresh:
                    assert fresh.ask("POST", "/t/commit/main", b"[1]").status == 200
                    assert kept.ask("GET", "/t/echo/x").status == 200
                    count += 2
        return count

    with running(options=Options(port=0, certificate=certificate)) as server:
        place = Place(server.port, trust=trusting())
        with ThreadPoolExecutor(4) as clients:
            results = [clients.submit(asking, place) for _ in range(4)]
            for _ in range(20):
                old = seen_certificate(place)
                files.renew()
                assert seen_certificate(place) == old
                server.on_loop(server.server.reload)
                assert seen_certificate(place) == files.binary() != old
            stop.set()
        counted = [each.result() for each in results]
        log = server.repositories.opened["default"].log()
    assert all(counted)
    assert len(log) == sum(counted) // 2
    record_property("counted", f"requests while a certificate changed 20 times: {sum(counted)}")


def test_an_open_connection_survives_a_new_certificate(tmp_path):
    files = CertificateFiles(tmp_path)
    options = Options(port=0, certificate=files.load())
    with running(options=options, trust=files.trust()) as server, Client(server) as old:
        assert old.ask("GET", "/t/echo/x").status == 200
        files.renew()
        server.on_loop(server.server.reload)
        assert old.ask("GET", "/t/echo/x").status == 200
        # It trusts the old certificate only, so it does not accept the new one.
        with pytest.raises(ssl.SSLCertVerificationError):
            server.connect()


def test_a_ticket_of_the_old_certificate_is_not_accepted_with_the_new_one(tmp_path):
    files = CertificateFiles(tmp_path)
    context = trusting(maximum=ssl.TLSVersion.TLSv1_2)

    def resumes(
        place: Place, session: ssl.SSLSession | None
    ) -> tuple[bool | None, ssl.SSLSession | None]:
        plain = socket.create_connection((place.host, place.port))
        with context.wrap_socket(plain, session=session) as wrapped:
            return wrapped.session_reused, wrapped.session

    with running(options=Options(port=0, certificate=files.load())) as running_server:
        _, session = resumes(running_server, None)
        assert resumes(running_server, session)[0] is True
        files.renew()
        running_server.on_loop(running_server.server.reload)
        assert resumes(running_server, session)[0] is False


BAD_FILES = {
    "missing certificate": (
        lambda files: files.certificate.unlink(),
        "tls_certificate cannot be read: it does not exist",
    ),
    "missing key": (lambda files: files.key.unlink(), "tls_key cannot be read: it does not exist"),
    "a directory": (
        lambda files: (files.key.unlink(), files.key.mkdir()),
        "tls_key cannot be read: it is a directory",
    ),
    "swapped": (
        lambda files: files.certificate.write_text(files.key.read_text()),
        "tls_certificate holds no certificate in PEM form",
    ),
    "no key": (
        lambda files: files.key.write_text(files.certificate.read_text()),
        "tls_key holds no private key in PEM form",
    ),
    "another key": (
        lambda files: files.key.write_text(make_pair()[1]),
        "the key belongs to another certificate",
    ),
    "encrypted key": (lambda files: files.key.write_text(ENCRYPTED_KEY), "is encrypted"),
    "damaged certificate": (
        lambda files: files.certificate.write_text(files.certificate.read_text()[:200]),
        "one of them is damaged",
    ),
    "damaged key": (
        lambda files: files.key.write_text(files.key.read_text().replace("M", "?", 1)),
        "one of them is damaged",
    ),
}


@pytest.mark.parametrize(("damage", "message"), BAD_FILES.values(), ids=BAD_FILES)
def test_bad_files_are_refused_at_the_start_and_ignored_later(tmp_path, caplog, damage, message):
    files = CertificateFiles(tmp_path)
    secret = "".join(files.key.read_text().splitlines()[1:-1])
    with running(options=Options(port=0, certificate=files.load()), trust=files.trust()) as server:
        old = seen_certificate(server)
        damage(files)
        with pytest.raises(Invalid, match=message):
            files.load()
        with caplog.at_level(logging.INFO):
            server.on_loop(server.server.reload)
        assert seen_certificate(server) == old
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert message in record.getMessage()
    assert secret[:40] not in record.getMessage()


@pytest.mark.parametrize("given", ["tls_certificate", "tls_key"])
def test_a_certificate_needs_its_key(tmp_path, monkeypatch, given):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Invalid, match="TLS needs tls_certificate and tls_key"):
        serve(read_settings({given: "file.pem"}), lambda _: None)
    assert list(tmp_path.iterdir()) == []


def test_bad_files_are_refused_before_anything_is_opened(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Invalid, match=r"tls_certificate cannot be read: it does not exist"):
        serve(Settings(tls_certificate="a.pem", tls_key="b.pem"), lambda _: None)
    assert list(tmp_path.iterdir()) == []


def test_the_secrets_of_connections_are_not_written_down(tmp_path, monkeypatch, files):
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "secrets"))
    assert files.load().context.keylog_filename is None
    assert not (tmp_path / "secrets").exists()


# Our client, and the process.


@pytest.mark.parametrize("build", [LochanClient, StepByStep])
def test_our_clients_trust_the_certificates_of_the_environment(tmp_path, monkeypatch, build, files):
    other = CertificateFiles(tmp_path)
    options = Options(port=0, certificate=files.load())
    with running(options=options) as server:
        url = f"https://127.0.0.1:{server.port}"
        for trusted, error in ((files, None), (other, Unavailable)):
            monkeypatch.setenv("SSL_CERT_FILE", str(trusted.certificate))
            client = build(url, attempts_max=1)
            if error is None:
                # The small face has no such path: the answer came over TLS.
                with pytest.raises(Exception, match="nothing is served at this address"):
                    client.config()
            else:
                with pytest.raises(error, match="CERTIFICATE_VERIFY_FAILED"):
                    client.config()
            client.close()


def test_certificates_of_the_environment_that_cannot_be_read_are_an_error_of_ours(
    tmp_path, monkeypatch
):
    file = tmp_path / "trusted.pem"
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    file.write_text("nothing")
    with pytest.raises(Invalid, match="SSL_CERT_FILE"):
        LochanClient("https://127.0.0.1:1")


@pytest.mark.slow
def test_the_process_serves_tls_on_both_ports_and_reloads_by_sighup(tmp_path):
    files = CertificateFiles(tmp_path / "certificate")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        files_port = taken.getsockname()[1]
    outside = {key: value for key, value in os.environ.items() if not key.startswith("LOCHAN_")}
    words = ["--port", "0", "--files-port", str(files_port), "--unix-socket", "socket", "--json"]
    words += ["--tls-certificate", str(files.certificate), "--tls-key", str(files.key)]
    lochan = [sys.executable, "-m", "lochan"]
    process = subprocess.Popen(
        [*lochan, "serve", *words],
        cwd=tmp_path,
        env=outside,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        report = msgspec.json.decode(process.stdout.readline())
        url = report["url"]
        assert url.startswith("https://127.0.0.1:")
        assert report["files_url"] == f"https://127.0.0.1:{files_port}"
        main, second = Place(int(url.rpartition(":")[2])), Place(files_port)
        assert seen_certificate(main) == seen_certificate(second) == files.binary()
        # The command finds the server by its file, and trusts what the environment names.
        shown = subprocess.run(
            [*lochan, "config", "--json"],
            cwd=tmp_path,
            env={**outside, "SSL_CERT_FILE": str(files.certificate)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert msgspec.json.decode(shown.stdout)["where"] == url
        old = files.binary()
        files.renew()
        process.send_signal(signal.SIGHUP)
        while seen_certificate(main) == old:
            pass
        assert seen_certificate(main) == seen_certificate(second) == files.binary()
        old = files.binary()
        files.key.write_text(make_pair()[1])
        process.send_signal(signal.SIGHUP)
        assert "certificate not reloaded" in process.stderr.readline()
        assert seen_certificate(main) == seen_certificate(second) == old
        answer = httpx.get(f"https://127.0.0.1:{files_port}/", verify=trusting())
        assert answer.status_code == 200
        assert b"<ListAllMyBucketsResult" in answer.content
        with Client(Place(unix_socket=str(tmp_path / "socket"))) as client:
            assert client.ask("GET", "/api/v2/config").status == 200
        process.send_signal(signal.SIGTERM)
        out, errors = process.communicate(timeout=60)
        assert (process.returncode, out, errors) == (0, "", "")
        assert not (tmp_path / "socket").exists()
    finally:
        process.kill()
        process.communicate()
