"""A whole server with users inside the test: its first user, that user's tokens and access keys."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lochan.client import Client
from tests.client.serving import Recorder, serving


class Secured:
    """A server that needs credentials, and what requests have sent to it."""

    def __init__(self, url: str, token: str, recorder: Recorder) -> None:
        self.url = url
        self.token = token
        self.recorder = recorder

    @property
    def word(self) -> str:
        """The secret of the token: what must not appear anywhere."""
        return self.token.rpartition("_")[2]

    @property
    def sent(self) -> set[str | None]:
        """The headers of all requests so far."""
        return set(self.recorder.seen)

    def new_token(self) -> str:
        """Returns another token of the first user."""
        with self._admin() as client:
            return client.access.create_token("admin").secret

    def new_access_key(self) -> tuple[str, str]:
        """Returns an access key of the first user: its id and its secret."""
        with self._admin() as client:
            made = client.access.create_access_key("admin")
        return made.key.id, made.secret

    def revoke(self, token: str) -> None:
        """Deletes a token on the server."""
        with self._admin() as client:
            client.access.delete_token(token.split("_")[1])

    def _admin(self) -> Client:
        return Client(self.url, token=self.token)


@contextmanager
def secured(*repositories: str) -> Iterator[Secured]:
    """Runs a server in a thread that has a first user, `admin`."""
    recorder = Recorder()
    with serving("memory:", *repositories, recorder=recorder) as url:
        with Client(url) as client:
            token = client.access.set_up("admin").secret
        recorder.seen.clear()
        recorder.anonymous.clear()
        yield Secured(url, token, recorder)
