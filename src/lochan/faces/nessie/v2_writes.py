"""Version 2, writing: references, commits, merges, transplants, settings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from lochan.base.errors import Invalid
from lochan.faces.answers import answer, takes_additions
from lochan.faces.calls import flag_of, write_call
from lochan.faces.nessie import handlers
from lochan.faces.nessie.preconditions import check_unambiguous, expected_hash
from lochan.faces.nessie.responses import reference_for
from lochan.faces.params import Handlers
from lochan.model.references import Reference
from lochan.model.requests import NewReference
from lochan.model.results import Merged
from lochan.model.specs import (
    ReferenceSpec,
    check_name,
    check_new_name,
    parse_on_reference,
    parse_path,
)
from lochan.service.pending_writes import PendingWrite
from lochan.transport.exchange import Exchange, Response
from lochan.wire.codec import Instant, Reader, micros, span_us
from lochan.wire.commits import commit_response
from lochan.wire.config import RepositoryConfigPrevious, RepositoryConfigUpdate
from lochan.wire.merges import MergeBody, MergeV2, TransplantBody, merge_v2
from lochan.wire.references import (
    ReferenceIn,
    SingleReference,
    annotation_in,
)

_KINDS: Final = ("BRANCH", "TAG")

_read_update: Final = Reader(RepositoryConfigUpdate)


def create_reference(exchange: Exchange) -> PendingWrite[Response]:
    """Creates a branch or a tag from another reference at a hash; with `bare` from nothing."""
    query = exchange.request.query
    kind = kind_of(query.get("type"))
    name = query.get("name")
    if kind is None:
        raise Invalid("Mandatory reference type missing")
    if name is None:
        raise Invalid("Mandatory reference name missing")
    body = exchange.request.body
    source: ReferenceIn = handlers.read_reference_body(body) if body else ReferenceIn()
    new = NewReference(
        kind=kind,
        name=check_new_name(name),
        source=_source(source, bare=flag_of(exchange, "bare")),
        expires_us=expiry(exchange, source.expires_at, source.ttl),
        annotation=None if source.annotation is None else annotation_in(source.annotation),
    )
    return exchange.repository.references.create(write_call(exchange), new).then(
        partial(_single, exchange)
    )


def _source(source: ReferenceIn, *, bare: bool) -> ReferenceSpec | None:
    if bare:
        if source.hash is not None:
            raise Invalid("A bare branch starts from nothing: leave the hash out.")
        return None
    return check_unambiguous(named(source))


def named(reference: ReferenceIn) -> ReferenceSpec:
    """Returns where a reference of a body points; Invalid if it is none."""
    kind = reference.type
    if kind is not None and kind not in (*_KINDS, handlers.DETACHED):
        raise Invalid(f"The type of a reference is BRANCH, TAG or DETACHED: {kind[:40]!r}")
    name = reference.name
    if handlers.DETACHED in (kind, name):
        name = None
    return parse_on_reference(None if name is None else check_name(name), reference.hash)


def expiry(exchange: Exchange, moment: Instant | None, span: str | None) -> int | None:
    """Returns when a branch expires, from the time or from the time span of the request."""
    if moment is not None and span is not None:
        raise Invalid("Say when a branch expires once: `expiresAt` or `ttl`.")
    if moment is not None:
        return micros(moment)
    if span is None:
        return None
    return exchange.repository.context.clock.now_us() + span_us(span)


def assign_reference(exchange: Exchange) -> Response:
    """Points a branch or a tag to another commit."""
    kind = kind_of(exchange.request.query.get("type"))
    target: ReferenceIn = handlers.read_reference_body(exchange.request.body)
    path = parse_path(exchange.params["ref"])
    if path.name is None:
        raise Invalid("Assignment target must be a branch or a tag.")
    expected = expected_hash(exchange, path)
    spec = check_unambiguous(named(target))
    call = write_call(exchange)
    assigned = exchange.repository.references.assign(call, path.name, expected, spec, kind=kind)
    return _single(exchange, assigned)


def delete_reference(exchange: Exchange) -> Response:
    """Deletes a branch or a tag, merged or not."""
    kind = kind_of(exchange.request.query.get("type"))
    path = parse_path(exchange.params["ref"])
    if path.name is None:
        raise Invalid("Only a branch or a tag can be deleted.")
    expected = expected_hash(exchange, path)
    call = write_call(exchange)
    deleted = exchange.repository.references.delete(call, path.name, expected, kind=kind)
    return _single(exchange, deleted)


def only_prepares(exchange: Exchange) -> bool:
    """Returns whether a commit is prepared without the store: no key to claim, a plain hash."""
    ref = exchange.params["ref"]
    plain = "@" in ref and not any(mark in ref for mark in "~^*")
    return plain and exchange.request.headers.get("idempotency-key") is None


def commit(exchange: Exchange) -> PendingWrite[Response]:
    """Commits operations to a branch."""
    return handlers.commit(exchange, parse_path(exchange.params["ref"]), commit_response)


def merge(exchange: Exchange) -> PendingWrite[Response]:
    """Merges a reference into a branch."""
    body: MergeBody = handlers.read_merge(exchange.request.body)
    return handlers.merge(exchange, body, parse_path(exchange.params["ref"]), _shown(exchange))


def transplant(exchange: Exchange) -> PendingWrite[Response]:
    """Makes commits of a reference again on a branch."""
    body: TransplantBody = handlers.read_transplant(exchange.request.body)
    path = parse_path(exchange.params["ref"])
    return handlers.transplant(exchange, body, path, _shown(exchange))


def _shown(exchange: Exchange) -> Callable[[Merged], MergeV2]:
    return partial(merge_v2, with_paths=takes_additions(exchange.request))


def update_repository_config(exchange: Exchange) -> Response:
    """Replaces the settings of one type."""
    update: RepositoryConfigUpdate = _read_update(exchange.request.body)
    previous = exchange.repository.settings.update(write_call(exchange), update.config)
    return answer(RepositoryConfigPrevious(previous))


def kind_of(text: str | None) -> str | None:
    """Returns the kind of reference that a parameter names, None without it."""
    if not text:
        return None
    if text.upper() not in _KINDS:
        raise Invalid("Reference type name must be either 'branch' or 'tag'")
    return text.upper()


def _single(exchange: Exchange, reference: Reference) -> Response:
    return answer(SingleReference(reference_for(exchange, reference)), reference.hash)


HANDLERS: Final[Handlers] = {
    "updateRepositoryConfig": (update_repository_config, False),
    "createReferenceV2": (create_reference, True),
    "assignReferenceV2": (assign_reference, True),
    "deleteReferenceV2": (delete_reference, True),
    "commitV2": (commit, True),
    "mergeV2": (merge, False),
    "transplantV2": (transplant, False),
}
"""The operations of this module: their handlers, and whether they are brief."""
