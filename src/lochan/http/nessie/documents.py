"""The OpenAPI document, as the server hands it out."""

from __future__ import annotations

from typing import Final

from lochan.http.app import OwnHandler
from lochan.http.exchange import Request, Response
from lochan.wire.openapi import document_text

PATHS: Final = (b"/openapi.yaml", b"/api/openapi.yaml")


def get_openapi(request: Request) -> Response:  # noqa: ARG001 - the same for all requests
    """Returns the document; it is generated for the first request."""
    return Response(200, document_text().encode("utf-8"), (), b"application/yaml")


def document_handlers() -> dict[bytes, OwnHandler]:
    """Returns where the document is served."""
    return dict.fromkeys(PATHS, get_openapi)
