"""One request for a set of keys: no redirects, no proxies, bounded in time and in size."""

from __future__ import annotations

import ssl
import threading
from time import monotonic
from typing import Final

import httpx

from lochan.base.errors import Unavailable
from lochan.base.limits.credentials import KEY_FETCH_TIMEOUT_MS, KEY_SET_BYTES_MAX
from lochan.identity.addresses import key_url, resolve

# No encoding: a small body could unpack into a large one.
_HEADERS: Final = {
    "accept": "application/json",
    "accept-encoding": "identity",
    "user-agent": "lochan",
    "connection": "close",
}

_REASON_CHARACTERS_MAX: Final = 200


class KeyFetch:
    """Fetches the set of keys of one issuer."""

    def __init__(
        self, url: str, *, any_address: bool = False, timeout_ms: int = KEY_FETCH_TIMEOUT_MS
    ) -> None:
        self._url = key_url(url)
        self._any_address = any_address
        self._timeout_s = timeout_ms / 1_000
        # Authorities that the machine trusts, so that those of a company count too.
        self._tls = ssl.create_default_context()

    def __str__(self) -> str:
        """Returns the address for logs, without the query."""
        return str(self._url.copy_with(query=None))

    def fetch(self) -> bytes:
        """Returns the body of the answer; Unavailable with the reason if there is none."""
        end_s = monotonic() + self._timeout_s
        reason = "there is no time left"
        for address in resolve(self._url, any_address=self._any_address):
            left_s = end_s - monotonic()
            if left_s <= 0:
                break
            client = httpx.Client(
                verify=self._tls, trust_env=False, follow_redirects=False, timeout=left_s
            )
            # The timeout of the client starts again with each byte that arrives; this one does not.
            end = threading.Timer(left_s, client.close)
            end.daemon = True
            end.start()
            try:
                with client:
                    return self._fetch_from(client, address)
            except (httpx.HTTPError, OSError, RuntimeError) as error:
                # A client that is closed in the middle raises RuntimeError.
                reason = f"{type(error).__name__} {str(error)[:_REASON_CHARACTERS_MAX]}".rstrip()
            finally:
                end.cancel()
        raise Unavailable(f"{self} does not answer: {reason}")

    def _fetch_from(self, client: httpx.Client, address: str) -> bytes:
        url = self._url.copy_with(host=address)
        request = client.build_request(
            "GET",
            url,
            headers={**_HEADERS, "host": self._url.netloc.decode("ascii")},
            extensions={"sni_hostname": self._url.raw_host.decode("ascii")},
        )
        response = client.send(request, stream=True)
        if response.status_code != 200:
            advice = "; set the address that it leads to" if response.is_redirect else ""
            raise Unavailable(f"{self} answers with status {response.status_code}{advice}")
        if response.headers.get("content-encoding", "identity") != "identity":
            raise Unavailable(f"{self} answers with an encoding that was not asked for")
        parts: list[bytes] = []
        size = 0
        for part in response.iter_raw():
            size += len(part)
            if size > KEY_SET_BYTES_MAX:
                raise Unavailable(f"{self} answers with more than {KEY_SET_BYTES_MAX} bytes")
            parts.append(part)
        return b"".join(parts)
