"""Version 1 below `/trees`: references, entries, history, commits, merges, transplants.

Some messages are literally those of Nessie's Java server, because tests of its clients read them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from lochan.base.errors import Invalid
from lochan.faces.answers import NO_CONTENT, answer, etag
from lochan.faces.calls import read_call, write_call
from lochan.faces.nessie import handlers
from lochan.faces.nessie.handlers import DETACHED, V1_PAGES, whole_or_page
from lochan.faces.nessie.params import filter_of, is_plain, is_short_page
from lochan.faces.nessie.preconditions import (
    check_unambiguous,
    expected_hash,
)
from lochan.faces.params import Handlers, limit_of, token_of
from lochan.model.requests import NewReference
from lochan.model.results import Entry
from lochan.model.specs import (
    ReferenceSpec,
    check_name,
    check_new_name,
    parse_on_reference,
)
from lochan.service.pages import Selection
from lochan.service.pending_writes import PendingWrite
from lochan.transport.exchange import Exchange, Response
from lochan.wire.commits import LogV1, committed_branch_v1, log_entry_v1
from lochan.wire.config import ConfigV1
from lochan.wire.listings import EntriesV1, entry_v1
from lochan.wire.merges import MergeBody, TransplantBody, merge_v1
from lochan.wire.references import ReferenceIn, ReferencesV1, reference_v1

_JAVA_TYPES: Final = {"BRANCH": "Branch", "TAG": "Tag", DETACHED: "Detached"}


def get_config(exchange: Exchange) -> Response:
    """Returns the configuration that clients need."""
    info = exchange.repository.describe(read_call(exchange))
    return answer(ConfigV1(info.default_branch, 2))


def list_references(exchange: Exchange) -> Response:
    """Lists branches and tags."""
    page = handlers.read_references(exchange, V1_PAGES)
    shown = [reference_v1(each) for each in page.items]
    return answer(ReferencesV1(page.token is not None, page.token, shown))


def get_default_branch(exchange: Exchange) -> Response:
    """Reads the default branch."""
    reference = exchange.repository.references.get(read_call(exchange), "-")
    return answer(reference_v1(reference), reference.hash)


def get_reference(exchange: Exchange) -> Response:
    """Reads one reference by its name."""
    reference = handlers.read_reference(exchange, check_name(exchange.params["ref"]))
    return answer(reference_v1(reference), reference.hash)


def create_reference(exchange: Exchange) -> PendingWrite[Response]:
    """Creates a branch or a tag from another reference at a hash."""
    body = _body_reference(exchange, "createReference.reference")
    if body.type not in ("BRANCH", "TAG"):
        raise Invalid("Only a branch or a tag can be created.")
    source = exchange.request.query.get("sourceRefName") or None
    path = parse_on_reference(None if source in (None, DETACHED) else check_name(source), body.hash)
    new = NewReference(
        kind=body.type, name=check_new_name(body.name or ""), source=check_unambiguous(path)
    )
    made = exchange.repository.references.create(write_call(exchange), new)
    return made.then(lambda one: answer(reference_v1(one), one.hash))


def assign_reference(exchange: Exchange) -> Response:
    """Points a branch or a tag to another commit."""
    missing = _missing_hash(exchange, "assignReference")
    target = _body_reference(exchange, "assignReference.assignTo", missing)
    kind, name = _kind_and_name(exchange)
    expected = expected_hash(exchange, _expected_path(exchange, name))
    named = None if target.type == DETACHED else target.name
    spec = check_unambiguous(parse_on_reference(named, target.hash))
    references = exchange.repository.references
    moved = references.assign(write_call(exchange), name, expected, spec, kind=kind)
    return Response(204, b"", etag(moved.hash))


def delete_reference(exchange: Exchange) -> Response:
    """Deletes a branch or a tag."""
    missing = _missing_hash(exchange, "deleteReference")
    if missing:
        raise Invalid(", ".join(missing))
    kind, name = _kind_and_name(exchange)
    expected = expected_hash(exchange, _expected_path(exchange, name))
    exchange.repository.references.delete(write_call(exchange), name, expected, kind=kind)
    return NO_CONTENT


def get_entries(exchange: Exchange) -> Response:
    """Lists keys and the types of what they hold; with a depth, namespaces of that depth."""
    spec = read_path(exchange, "hashOnRef")
    depth = limit_of(exchange, "namespaceDepth")
    if depth is None:
        selection = Selection(filter=filter_of(exchange))
        paging = (limit_of(exchange, V1_PAGES.limit), token_of(exchange, V1_PAGES.token))
        entries, page = whole_or_page(exchange, spec, selection, paging, entry_v1)
    else:
        # Truncated names can repeat across pages, so all of them are read together.
        contents = exchange.repository.contents
        page = contents.entries(read_call(exchange), spec, filter=filter_of(exchange))
        entries = [entry_v1(each) for each in _entries_of_depth(page.items, depth)]
    digits = None if page.reference is None else page.reference.hash
    return answer(EntriesV1(page.token is not None, page.token, entries), digits)


def _entries_of_depth(entries: Iterable[Entry], depth: int) -> tuple[Entry, ...]:
    """Returns the entries of a depth; of deeper ones the namespaces of that depth, each once."""
    found: list[Entry] = []
    seen: set[tuple[str, ...]] = set()
    for entry in entries:
        if len(entry.key) < depth:
            continue
        if len(entry.key) > depth:
            entry = Entry(entry.key[:depth], "NAMESPACE", "")
        if entry.type == "NAMESPACE":
            if entry.key in seen:
                continue
            seen.add(entry.key)
        found.append(entry)
    return tuple(found)


def get_log(exchange: Exchange) -> Response:
    """Reads commits from newest (`endHash`) to oldest (`startHash`)."""
    spec = read_path(exchange, "endHash")
    last = parse_on_reference(spec.name, exchange.request.query.get("startHash"))
    return handlers.read_log(exchange, spec, last, V1_PAGES, log_entry_v1, LogV1)


def commit(exchange: Exchange) -> PendingWrite[Response]:
    """Commits operations to a branch."""
    _check_body(exchange, "commitMultipleOperations.operations")
    return handlers.commit(exchange, _branch_path(exchange), committed_branch_v1)


def merge(exchange: Exchange) -> PendingWrite[Response]:
    """Merges a reference into a branch."""
    _check_body(exchange, "mergeRefIntoBranch.merge")
    body: MergeBody = handlers.read_merge(exchange.request.body)
    _check_kept(body.keep_individual_commits, supported=False, purpose="Merge")
    return handlers.merge(exchange, body, _branch_path(exchange), merge_v1)


def transplant(exchange: Exchange) -> PendingWrite[Response]:
    """Makes commits of a reference again on a branch."""
    _check_body(exchange, "transplantCommitsIntoBranch.transplant")
    body: TransplantBody = handlers.read_transplant(exchange.request.body)
    _check_kept(body.keep_individual_commits, supported=True, purpose="Transplant")
    message = exchange.request.query.get("message")
    if message and not body.message:
        body = msgspec.structs.replace(body, message=message)
    return handlers.transplant(exchange, body, _branch_path(exchange), merge_v1)


def _check_kept(kept: bool | None, *, supported: bool, purpose: str) -> None:
    if kept is not None and kept != supported:
        form = "unsquashed" if supported else "squashed"
        raise Invalid(
            "The parameter 'keepIndividualCommits' is deprecated. "
            f"{purpose} operations only support {form} now."
        )


def read_path(exchange: Exchange, parameter: str) -> ReferenceSpec:
    """Returns the reference of the path, at the hash that a parameter names."""
    name = check_name(exchange.params["ref"])
    return on_reference(name, exchange.request.query.get(parameter))


def on_reference(name: str, text: str | None) -> ReferenceSpec:
    """Returns a hash on a reference that version 1 names; DETACHED is none."""
    path = parse_on_reference(None if name == DETACHED else name, text)
    if name == DETACHED and path.hash is None:
        raise Invalid("Expected hash must be provided.")
    return path


def _expected_path(exchange: Exchange, name: str) -> ReferenceSpec:
    return parse_on_reference(name, exchange.request.query.get("expectedHash"))


def _branch_path(exchange: Exchange) -> ReferenceSpec:
    return _expected_path(exchange, check_name(exchange.params["branch"]))


def _kind_and_name(exchange: Exchange) -> tuple[str, str]:
    kind = exchange.params["type"].upper()
    return kind, check_name(exchange.params["name"])


def _missing_hash(exchange: Exchange, operation: str) -> list[str]:
    request = exchange.request
    if request.query.get("expectedHash") or request.headers.get("if-match"):
        return []
    return [f"{operation}.expectedHash: must not be null"]


def _check_body(exchange: Exchange, name: str) -> None:
    if exchange.request.body.strip() in (b"", b"null"):
        raise Invalid(f"{name}: must not be null")


def _body_reference(exchange: Exchange, name: str, missing: Any = ()) -> ReferenceIn:
    """Reads a reference as the Java server does, with its messages for what is wrong."""
    body = exchange.request.body
    if body.strip() in (b"", b"null"):
        raise Invalid(", ".join((f"{name}: must not be null", *missing)))
    reference: ReferenceIn = handlers.read_reference_body(body)
    kind = reference.type
    if kind not in _JAVA_TYPES:
        raise Invalid(
            f"Could not resolve type id '{(kind or '')[:80]}' as a subtype of "
            "`org.projectnessie.model.Reference`: known type ids = [BRANCH, DETACHED, TAG]"
        )
    try:
        if kind != DETACHED:
            check_name(reference.name or "")
        if reference.hash is not None:
            parse_on_reference(None, reference.hash)
    except Invalid as error:
        raise Invalid(
            "Cannot construct instance of `org.projectnessie.model.Immutable"
            f"{_JAVA_TYPES[kind]}`, problem: {error.message}\n in the request body"
        ) from None
    if missing:
        raise Invalid(", ".join(missing))
    return reference


HANDLERS: Final[Handlers] = {
    "getConfigV1": (get_config, True),
    "getAllReferencesV1": (list_references, is_short_page),
    "getDefaultBranchV1": (get_default_branch, True),
    "createReferenceV1": (create_reference, True),
    "getReferenceByNameV1": (get_reference, is_plain),
    "getEntriesV1": (get_entries, is_short_page),
    "getCommitLogV1": (get_log, is_plain),
    "assignReferenceV1": (assign_reference, True),
    "deleteReferenceV1": (delete_reference, True),
    "commitV1": (commit, True),
    "mergeV1": (merge, False),
    "transplantV1": (transplant, False),
}
"""The operations of this module: their handlers, and whether they are brief."""
