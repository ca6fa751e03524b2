"""The two versions: operations of `wire/`, each bound to its handler.

Version 2 finds references with slashes in raw paths; version 1 knows segments only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from lochan.base.errors import LochanError
from lochan.faces.answers import problem_of
from lochan.faces.nessie import v1_contents, v1_trees, v2_extensions, v2_reads, v2_writes
from lochan.faces.segments import Chosen, Methods, PathTable, RepositoryFace, build_routes
from lochan.service.repositories import Repositories
from lochan.transport.exchange import Exchange, Request, Response, decode_percent
from lochan.transport.routes import Authentication, Face
from lochan.wire.openapi import document_text
from lochan.wire.operations_v1 import OPERATIONS_V1
from lochan.wire.operations_v2 import OPERATIONS_V2
from lochan.wire.problems import conflict_v1

_TO: Final = re.compile(rb"[^/]+|[^@]+(?:@|%40)[^@/]*")
_WITH_AT: Final = re.compile(rb"([^@]*?(?:@|%40)[^@/]*)(?:/(.*))?", re.DOTALL)

Place = tuple[str, dict[str, str]]
"""The template of a path, and the decoded values in it."""

_TREES: Final = b"/trees/"
_DOTS: Final = b"..."
_DIFF_V1: Final = "/diffs/{from}...{to}"
_KINDS: Final = ("BRANCH", "TAG")

HANDLERS_V2: Final = v2_reads.HANDLERS | v2_writes.HANDLERS | v2_extensions.HANDLERS
HANDLERS_V1: Final = v1_trees.HANDLERS | v1_contents.HANDLERS

PREPARING: Final[Mapping[str, Callable[[Exchange], bool]]] = {
    "commitV2": v2_writes.only_prepares,
}
"""Operations that may leave everything that touches the store to the lane."""

# Objects may come raw, so their handler checks the content type itself.
_ANY_BODY: Final = ("putObjects",)


def nessie_faces(
    repositories: Repositories,
    default_repository: str,
    authentication: Authentication | None = None,
) -> tuple[Face, ...]:
    """Returns both faces; without `authentication` everyone is served."""
    return (
        NessieV2(repositories, default_repository, authentication),
        NessieV1(default_repository, authentication),
    )


def get_openapi(request: Request) -> Response:  # noqa: ARG001 - the same for all requests
    """Returns the OpenAPI document; it is generated for the first request."""
    return Response(200, document_text().encode("utf-8"), (), b"application/yaml")


DOCUMENTS: Final = dict.fromkeys((b"/openapi.yaml", b"/api/openapi.yaml"), get_openapi)
"""Where the OpenAPI document is served, beside the faces."""


class NessieV2(RepositoryFace):
    """Version 2, and what Lochan adds to it."""

    prefix = b"/api/v2"

    def __init__(
        self,
        repositories: Repositories,
        default_repository: str,
        authentication: Authentication | None = None,
    ) -> None:
        super().__init__(default_repository, authentication)
        own = v2_extensions.RepositoryHandlers(repositories)
        bound = {
            **HANDLERS_V2,
            "listRepositories": (own.list_names, False),
            "createRepository": (own.create, False),
        }
        self._fixed: dict[bytes, Methods] = {}
        self._trees: dict[str, Methods] = {}
        for path, methods in build_routes(OPERATIONS_V2, bound, PREPARING, _ANY_BODY).items():
            if path.startswith("/trees/{ref}"):
                tail = path.removeprefix("/trees/{ref}").removeprefix("/")
                self._trees[tail] = methods
            else:
                self._fixed[path.encode("ascii")] = methods
        self._tails = frozenset(
            tail.encode("ascii") for tail in self._trees if tail and "{" not in tail
        )

    def find(self, method: str, rest: bytes) -> Chosen | None:
        """Returns the operations at the raw rest of a path, and the decoded values in it."""
        fixed = self._fixed.get(rest)
        if rest.startswith(_TREES) and (fixed is None or method not in fixed):
            # A reference may have the name of a fixed path.
            place = _find_place(rest[len(_TREES) :], self._tails)
            if place is not None:
                return self._trees[place[0]], place[1]
        return None if fixed is None else (fixed, {})

    def problem(self, request: Request, error: LochanError) -> Response:
        """Returns the answer to an error."""
        return problem_of(request, error)


def _find_place(raw: bytes, tails: frozenset[bytes]) -> Place | None:
    """Returns the place of what follows `/trees/`; `tails` are the fixed ones.

    A reference is one segment, or anything up to an `@` and the rest of that segment, so that names
    with slashes can be written plainly. What may follow it is a short list. The reading with a
    reference of one segment is tried first.
    """
    first, slash, rest = raw.partition(b"/")
    if first:
        if not slash:
            return "", {"ref": decode_percent(first)}
        place = _tail(first, rest, tails)
        if place is not None:
            return place
    match = _WITH_AT.fullmatch(raw)
    if match is None or not match[1]:
        return None
    if match[2] is None:
        return "", {"ref": decode_percent(match[1])}
    return _tail(match[1], match[2], tails)


def _tail(ref: bytes, rest: bytes, tails: frozenset[bytes]) -> Place | None:
    if rest in tails:
        return rest.decode("ascii"), {"ref": decode_percent(ref)}
    head, slash, more = rest.partition(b"/")
    if not slash or not more:
        return None
    if head == b"contents" and b"/" not in more:
        return "contents/{key}", {"ref": decode_percent(ref), "key": decode_percent(more)}
    if head == b"diff" and _TO.fullmatch(more):
        return "diff/{to-ref}", {"ref": decode_percent(ref), "to-ref": decode_percent(more)}
    return None


class NessieV1(RepositoryFace):
    """Version 1."""

    prefix = b"/api/v1"

    def __init__(
        self, default_repository: str, authentication: Authentication | None = None
    ) -> None:
        super().__init__(default_repository, authentication)
        routes = build_routes(OPERATIONS_V1, HANDLERS_V1)
        self._diff = routes.pop(_DIFF_V1)
        self._paths = PathTable(routes)

    def find(self, method: str, rest: bytes) -> Chosen | None:  # noqa: ARG002 - version 2 needs it
        """Returns the operations at the raw rest of a path, and the decoded values in it."""
        segments = rest.split(b"/")
        if len(segments) == 3 and segments[1] == b"diffs":
            left, dots, right = segments[2].partition(_DOTS)
            params = {"from": decode_percent(left), "to": decode_percent(right)}
            return (self._diff, params) if dots else None
        found = self._paths.find(rest)
        if found is not None and found[1].get("type", "BRANCH").upper() not in _KINDS:
            # Kinds of references are words of their own.
            return None
        return found

    def problem(self, request: Request, error: LochanError) -> Response:
        """Returns the answer to an error."""
        return problem_of(request, error, conflict_v1)
