"""One fetch of signing keys: bounded, without redirects, only from where the settings point."""

from __future__ import annotations

import gzip
import socket
import ssl
import threading
from ipaddress import ip_address

import pytest

from lochan.base.errors import Invalid, Unavailable
from lochan.base.limits.credentials import KEY_SET_BYTES_MAX
from lochan.identity.addresses import is_allowed, key_url, resolve
from lochan.identity.key_fetch import KeyFetch
from tests.identity.key_server import answer_of, key_server
from tests.transport.certificates import CertificateFiles


def test_the_body_is_fetched_without_an_encoding_or_a_proxy(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.invalid:1")
    monkeypatch.setenv("ALL_PROXY", "http://proxy.invalid:1")
    with key_server() as server:
        server.answer = answer_of(b'{"keys":[]}')
        assert KeyFetch(server.url).fetch() == b'{"keys":[]}'
        [request] = server.requests
        assert f"host: localhost:{server.port}\r\n".encode() in request.lower()
        assert b"accept-encoding: identity" in request.lower()


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"])
def test_a_redirect_is_not_followed(status):
    with key_server() as server:
        server.answer = answer_of(b"", status, f"location: {server.url}")
        with pytest.raises(Unavailable, match="leads to"):
            KeyFetch(server.url).fetch()
        assert len(server.requests) == 1


@pytest.mark.parametrize("status", ["204 No Content", "401 Unauthorized", "500 Error", "206 Part"])
def test_any_other_status_is_a_failure(status):
    with key_server() as server:
        server.answer = answer_of(b"", status)
        with pytest.raises(Unavailable, match=status[:3]):
            KeyFetch(server.url).fetch()


def test_a_large_answer_is_cut_off():
    with key_server() as server:
        server.answer = answer_of(bytes(KEY_SET_BYTES_MAX))
        assert len(KeyFetch(server.url).fetch()) == KEY_SET_BYTES_MAX
        server.answer = answer_of(bytes(KEY_SET_BYTES_MAX + 1))
        with pytest.raises(Unavailable, match="more than"):
            KeyFetch(server.url).fetch()


def test_an_endless_answer_is_cut_off():
    def endless(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")
        while True:
            connection.sendall(bytes(4_096))

    with key_server() as server:
        server.answer = endless
        with pytest.raises(Unavailable, match="more than"):
            KeyFetch(server.url).fetch()


def test_an_encoded_answer_is_refused():
    with key_server() as server:
        server.answer = answer_of(gzip.compress(b"{}"), "200 OK", "content-encoding: gzip")
        with pytest.raises(Unavailable, match="encoding"):
            KeyFetch(server.url).fetch()


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nlong: ",
        b"HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n",
    ],
)
def test_a_server_that_sends_byte_after_byte_is_left_in_time(head):
    ended = threading.Event()

    def drip(connection):
        connection.sendall(head)
        while not ended.wait(0.01):
            connection.sendall(b"x")

    with key_server() as server:
        server.answer = drip
        try:
            with pytest.raises(Unavailable, match="does not answer"):
                KeyFetch(server.url, timeout_ms=200).fetch()
        finally:
            ended.set()


def test_a_server_that_never_answers_is_left_in_time():
    ended = threading.Event()

    def wait(connection):
        ended.wait()

    with key_server() as server:
        server.answer = wait
        try:
            with pytest.raises(Unavailable, match="does not answer"):
                KeyFetch(server.url, timeout_ms=100).fetch()
        finally:
            ended.set()


def test_a_server_that_is_not_there_is_named_with_the_reason():
    with key_server() as server:
        url = server.url
    with pytest.raises(Unavailable, match="/keys does not answer: ConnectError"):
        KeyFetch(url + "?token=canary").fetch()
    assert "canary" not in str(KeyFetch(url + "?token=canary"))


@pytest.fixture
def secure_server(tmp_path, monkeypatch):
    """A server for localhost; clients that are made from now on trust it."""
    files = CertificateFiles(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(files.certificate, files.key)
    monkeypatch.setenv("SSL_CERT_FILE", str(files.certificate))
    with key_server(tls) as server:
        server.answer = answer_of(b"{}")
        yield server


def test_a_certificate_that_the_machine_trusts_is_accepted(secure_server):
    assert KeyFetch(secure_server.url).fetch() == b"{}"


def test_a_certificate_that_the_machine_does_not_trust_is_refused(secure_server, monkeypatch):
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(Unavailable, match="certificate verify failed"):
        KeyFetch(secure_server.url).fetch()


def test_a_certificate_is_checked_for_the_host_of_the_url(secure_server, monkeypatch):
    # The name resolves to this machine, for which the certificate is; the name is another one.
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", secure_server.port))]
    monkeypatch.setattr("lochan.outbound.addresses.socket.getaddrinfo", lambda *_, **__: found)
    url = f"https://issuer.example:{secure_server.port}/keys"
    with pytest.raises(Unavailable, match="Hostname mismatch"):
        KeyFetch(url, any_address=True).fetch()
    with pytest.raises(Unavailable, match="not fetched from"):
        KeyFetch(url).fetch()


@pytest.mark.parametrize(
    "url",
    [
        "http://issuer.example/keys",
        "http://127.0.0.1.nip.io/keys",
        "http://10.0.0.1/keys",
        "http://localhost.example/keys",
        "https://user:canary@issuer.example/keys",
        "https://canary@issuer.example/keys",
        "https:///keys",
        "https://issuer.example/keys#part",
        "ftp://issuer.example/keys",
        "file:///etc/passwd",
        "https://issuer.example:port/canary",
        "https://issuer.example/" + "x" * 3_000,
    ],
)
def test_other_addresses_are_refused(url):
    with pytest.raises(Invalid) as caught:
        KeyFetch(url)
    assert "canary" not in caught.value.message


@pytest.mark.parametrize(
    "url",
    [
        "https://issuer.example/keys?a=b",
        "http://localhost:1/keys",
        "http://127.0.0.1/keys",
        "http://[::1]:80/keys",
        "https://10.0.0.1/keys",
    ],
)
def test_https_and_this_machine_are_addresses(url):
    assert key_url(url).path == "/keys"


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "::1",
        "169.254.169.254",
        "169.254.170.2",
        "fe80::1",
        "fd00:ec2::254",
        "100.100.100.200",
        "168.63.129.16",
        "0.0.0.0",
        "::",
        "224.0.0.1",
        "255.255.255.255",
        "::ffff:169.254.169.254",
        "::ffff:127.0.0.1",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::1",
    ],
)
def test_addresses_of_the_machine_and_of_its_cloud_are_refused(address):
    assert not is_allowed(ip_address(address), on_loopback=False)


@pytest.mark.parametrize("address", ["10.1.2.3", "192.168.1.1", "93.184.216.34", "2606:2800::1"])
def test_public_and_private_networks_are_allowed(address):
    assert is_allowed(ip_address(address), on_loopback=False)
    assert not is_allowed(ip_address(address), on_loopback=True)


def test_a_name_that_resolves_to_a_refused_address_is_not_connected_to():
    for host in ("169.254.169.254", "[fe80::1]", "0.0.0.0", "[::ffff:7f00:1]"):
        with pytest.raises(Unavailable, match="not fetched from"):
            resolve(key_url(f"https://{host}/keys"))
    assert resolve(key_url("https://169.254.169.254/keys"), any_address=True) == ["169.254.169.254"]


def test_a_name_without_an_address_is_a_failure():
    with pytest.raises(Unavailable, match="resolved"):
        resolve(key_url("https://issuer.invalid/keys"))
