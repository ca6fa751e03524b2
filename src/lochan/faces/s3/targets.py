"""What a request names: a bucket by its path or by its host, and a key, which is `REF/PATH`.

A bucket is a repository. The name of a branch may contain `/`; in a key it is written `%2F`. The
path of a file may be anything that UTF-8 can write: `.`, `..` and `//` are no steps here.
"""

from __future__ import annotations

from typing import Final

import msgspec

from lochan.base.errors import Invalid, Refusal
from lochan.model.specs import ReferenceSpec, check_name, parse_spec
from lochan.transport.exchange import Exchange, Request, decode_percent
from lochan.wire.s3_problems import no_such_key

_SLASH: Final = "%2F"


class ObjectName(msgspec.Struct, frozen=True, gc=False):
    """A bucket, empty for the server itself, and a key, empty for the bucket itself."""

    bucket: str
    key: str


class Addressing:
    """Finds the targets of requests; below one of the domains a host names the bucket."""

    def __init__(self, domains: tuple[str, ...]) -> None:
        self._below = tuple("." + domain.lower() for domain in domains)

    def find_bucket(self, request: Request) -> str:
        """Returns the bucket that the host of a request names, empty if it names none."""
        if not self._below:
            return ""
        host = (request.headers.get("host") or "").lower()
        if ":" in host:
            host = host.rpartition(":")[0]
        for each in self._below:
            if host.endswith(each):
                return host[: -len(each)]
        return ""

    def locate(self, request: Request) -> ObjectName:
        """Returns what a request names."""
        try:
            bucket, path = self.find_bucket(request), request.path[1:]
            if bucket:
                return ObjectName(bucket, decode_percent(path))
            first, _, rest = path.partition(b"/")
            return ObjectName(decode_percent(first), decode_percent(rest))
        except Invalid as error:
            raise Refusal(error.message, 400, "InvalidURI") from None


def split_key(key: str) -> tuple[str, str]:
    """Returns the reference and the path that a key names; either may be empty."""
    ref, _, path = key.partition("/")
    return decode_ref(ref), path


def decode_ref(text: str) -> str:
    """Returns a reference as it is named everywhere else."""
    return text.replace(_SLASH, "/").replace(_SLASH.lower(), "/")


def encode_ref(name: str) -> str:
    """Returns a reference as keys contain it."""
    return name.replace("/", _SLASH)


def read_target(exchange: Exchange) -> tuple[ReferenceSpec, str]:
    """Returns what a request reads; a key that no file can have is absent."""
    return parse_target(exchange.params["key"])


def parse_target(key: str) -> tuple[ReferenceSpec, str]:
    """Returns the reference and the path of a key; a key that no file can have is absent."""
    ref, path = split_key(key)
    try:
        spec = parse_spec(ref)
    except Invalid:
        raise no_such_key(key) from None
    if not path:
        raise no_such_key(key)
    return spec, path


def root_of(key: str) -> str:
    """Returns the branch whose root a key names as a directory; empty for any other key."""
    ref, slash, path = key.partition("/")
    return decode_ref(ref) if slash and not path else ""


def write_target(exchange: Exchange) -> tuple[str, str]:
    """Returns the branch and the path that a request writes."""
    return parse_write_target(exchange.params["key"])


def parse_write_target(key: str) -> tuple[str, str]:
    """Returns the branch and the path that a key names."""
    ref, path = split_key(key)
    if not path:
        raise Refusal("a key is BRANCH/PATH, and this one has no path", 400, "InvalidArgument")
    return check_name(ref), path
