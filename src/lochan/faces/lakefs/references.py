"""The handlers of branches and tags."""

from __future__ import annotations

from typing import Final

from lochan.base.errors import Denied, Invalid, ReferenceNotFound
from lochan.faces.calls import read_call, write_call
from lochan.faces.lakefs.answers import DIRTY, NO_CONTENT, answer, refusal
from lochan.faces.lakefs.collection import collect
from lochan.faces.lakefs.params import branch_of, flag_of, page_of, parse_ref, path_of
from lochan.faces.lakefs.staged_branches import forget_staged
from lochan.faces.params import Handlers
from lochan.model.references import Reference
from lochan.model.requests import NewReference
from lochan.model.results import Page
from lochan.model.specs import check_name
from lochan.service.pending_writes import PendingWrite
from lochan.transport.exchange import Exchange, LongWork, Response
from lochan.wire.codec import Reader
from lochan.wire.lakefs import BranchIn, LakefsResetIn, RefJson, TagIn, page_out

_BRANCH: Final = "BRANCH"
_TAG: Final = "TAG"

_read_branch: Final = Reader(BranchIn)
_read_tag: Final = Reader(TagIn)
_read_reset: Final = Reader(LakefsResetIn)


def ref_out(reference: Reference) -> RefJson:
    """Returns a branch or a tag."""
    return RefJson(reference.name or "", reference.hash)


def list_branches(exchange: Exchange) -> Response | LongWork:
    """Lists branches; hidden ones only if they are asked for."""
    return _list(exchange, _BRANCH, show_hidden=flag_of(exchange, "show_hidden"))


def list_tags(exchange: Exchange) -> Response | LongWork:
    """Lists tags."""
    return _list(exchange, _TAG, show_hidden=True)


def _list(exchange: Exchange, kind: str, *, show_hidden: bool) -> Response | LongWork:
    page, references = page_of(exchange), exchange.repository.references

    def read(limit: int, token: str | None) -> Page[Reference]:
        some = references.list(
            read_call(exchange), limit, token, prefix=page.prefix, after=page.after
        )
        wanted = [
            one for one in some.items if one.kind == kind and (show_hidden or not one.concealed)
        ]
        return Page(tuple(wanted), some.token)

    def show(found: list[Reference], has_more: bool) -> Response:  # noqa: ARG001 - see below
        shown = [ref_out(one) for one in found[: page.amount]]
        last = shown[-1].id if shown else ""
        return answer(page_out(shown, last, has_more=len(found) > page.amount))

    # One more than are shown: the names that follow may all be of the other kind.
    return collect(page.amount + 1, read, show)


def get_branch(exchange: Exchange) -> Response:
    """Returns a branch."""
    return answer(ref_out(find_branch(exchange)))


def find_branch(exchange: Exchange) -> Reference:
    """Returns the branch in the path; ReferenceNotFound if there is none."""
    return _get(exchange, branch_of(exchange), _BRANCH)


def get_tag(exchange: Exchange) -> Response:
    """Returns a tag."""
    return answer(ref_out(_get(exchange, check_name(exchange.params["tag"]), _TAG)))


def _get(exchange: Exchange, name: str, kind: str) -> Reference:
    found = exchange.repository.references.get(read_call(exchange), name)
    if found.kind != kind:
        raise ReferenceNotFound(f"{kind.lower()} '{name}': not found")
    return found


def create_branch(exchange: Exchange) -> PendingWrite[Response] | Response:
    """Creates a branch."""
    body: BranchIn = _read_branch(exchange.request.body)
    new = NewReference(
        name=body.name,
        source=parse_ref(exchange, body.source).spec,
        concealed=bool(body.hidden),
    )
    if _exists(exchange, body.name):
        return refusal(409, "branch already exists")
    pending = exchange.repository.references.create(write_call(exchange), new)
    return pending.then(_created_branch)


def _created_branch(made: Reference) -> Response:
    # lakeFS answers with the id of the commit alone, as text.
    return Response(201, made.hash.encode("ascii"), (), b"text/html")


def create_tag(exchange: Exchange) -> PendingWrite[Response] | Response:
    """Creates a tag."""
    body: TagIn = _read_tag(exchange.request.body)
    if _exists(exchange, body.id):
        return refusal(409, "tag already exists")
    new = NewReference(name=body.id, source=parse_ref(exchange, body.ref).spec, kind=_TAG)
    pending = exchange.repository.references.create(write_call(exchange), new)
    return pending.then(lambda made: answer(ref_out(made), 201))


def _exists(exchange: Exchange, name: str) -> bool:
    """Returns whether a name is taken, for lakeFS's words; the creation itself decides."""
    if exchange.request.headers.get("idempotency-key") is not None:
        return False
    try:
        exchange.repository.references.get(read_call(exchange), check_name(name))
    except (ReferenceNotFound, Denied):
        return False
    return True


def delete_branch(exchange: Exchange) -> Response:
    """Deletes a branch; not the default one."""
    name = branch_of(exchange)
    if name == exchange.repository.info.default_branch:
        raise Denied("cannot delete repository default branch")
    return _delete(exchange, name, _BRANCH)


def delete_tag(exchange: Exchange) -> Response:
    """Deletes a tag."""
    return _delete(exchange, check_name(exchange.params["tag"]), _TAG)


def _delete(exchange: Exchange, name: str, kind: str) -> Response:
    exchange.repository.references.delete(write_call(exchange), name, None, kind=kind)
    return NO_CONTENT


def reset_branch(exchange: Exchange) -> Response:
    """Drops staged changes: all, those below a prefix, or that of one object."""
    body: LakefsResetIn = _read_reset(exchange.request.body)
    branch, resets = branch_of(exchange), exchange.repository.resets
    forget_staged(exchange, branch)
    if body.type == "reset":
        resets.reset(write_call(exchange), branch)
    elif body.type in ("object", "common_prefix"):
        if not body.path:
            raise Invalid("a reset of an object or of a prefix names its path")
        is_object = body.type == "object"
        resets.reset(
            write_call(exchange),
            branch,
            path=body.path if is_object else None,
            prefix=None if is_object else body.path,
        )
    else:
        raise Invalid(f"reset type {body.type[:40]!r}: invalid value")
    return NO_CONTENT


def hard_reset(exchange: Exchange) -> Response:
    """Moves a branch to a commit."""
    target = parse_ref(exchange, path_of(exchange, "ref")).spec
    exchange.repository.resets.hard_reset(write_call(exchange), branch_of(exchange), target)
    return NO_CONTENT


def check_clean(exchange: Exchange, branch: str) -> None:
    """Raises Invalid if something is staged on a branch.

    lakeFS refuses merges then. What is staged later is not lost either: the merge itself refuses
    to hide it.
    """
    page = exchange.repository.file_listings.uncommitted(read_call(exchange), branch, limit=1)
    if page.items:
        raise Invalid(DIRTY)


HANDLERS: Final[Handlers] = {
    "lakefs.listBranches": (list_branches, True),
    "lakefs.createBranch": (create_branch, True),
    "lakefs.getBranch": (get_branch, True),
    "lakefs.deleteBranch": (delete_branch, False),
    "lakefs.resetBranch": (reset_branch, False),
    "lakefs.hardResetBranch": (hard_reset, False),
    "lakefs.listTags": (list_tags, True),
    "lakefs.createTag": (create_tag, True),
    "lakefs.getTag": (get_tag, True),
    "lakefs.deleteTag": (delete_tag, False),
}
"""The operations of this module: their handlers, and whether they are brief."""
