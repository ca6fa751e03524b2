"""The handlers of commits, merges and differences."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Final

import msgspec

from lochan.base.errors import Invalid, KeysConflict, LochanError, NothingToCommit
from lochan.faces.calls import read_call, write_call
from lochan.faces.lakefs.answers import NO_CHANGES, NO_CONTENT, answer, refusal
from lochan.faces.lakefs.collection import collect
from lochan.faces.lakefs.params import (
    amount_of,
    branch_of,
    flag_of,
    page_of,
    parse_ref,
    ref_of,
    spec_of,
    text_of,
)
from lochan.faces.lakefs.references import check_clean
from lochan.faces.lakefs.staged_branches import take_staged_at
from lochan.faces.params import Handlers
from lochan.model.commits import CommitMeta, Committed, Properties
from lochan.model.files import FileDifference
from lochan.model.requests import MergeRequest, RevertRequest, TransplantRequest
from lochan.model.results import Merged, Page
from lochan.model.specs import ReferenceSpec, Step
from lochan.service.commit_log import LoggedCommit
from lochan.service.pending_writes import PendingWrite
from lochan.transport.exchange import Exchange, LongWork, Response
from lochan.wire.codec import Reader
from lochan.wire.lakefs import (
    AMOUNT_DEFAULT,
    CherryPickIn,
    CommitIn,
    CommitJson,
    CommitOverrides,
    MergeBaseJson,
    MergeIn,
    MergeJson,
    RevertIn,
    commit_out,
    diff_out,
    page_out,
    properties_in,
)

_read_commit: Final = Reader(CommitIn)
_read_revert: Final = Reader(RevertIn)
_read_pick: Final = Reader(CherryPickIn)
_read_merge: Final = Reader(MergeIn)

_STRATEGIES: Final = {"": "NORMAL", "source-wins": "FORCE", "dest-wins": "TAKE_TARGET_ON_CONFLICT"}
_NO_OVERRIDES: Final = CommitOverrides()


def logged(commit: LoggedCommit) -> CommitJson:
    """Returns a commit of a log."""
    return commit_out(commit.meta, commit.created_us, commit.generation)


def get_commit(exchange: Exchange) -> Response:
    """Returns one commit."""
    spec = spec_of(exchange, "commit")
    return answer(logged(exchange.repository.commit_log.get(read_call(exchange), spec)))


def log(exchange: Exchange) -> Response:
    """Lists commits, or those that changed some objects."""
    query, spec, amount = exchange.request.query, spec_of(exchange), amount_of(exchange)
    paths, prefixes = tuple(query.all("objects")), tuple(query.all("prefixes"))
    if paths or prefixes:
        return _log_of_paths(exchange, paths, prefixes)
    since, stop_at = text_of(exchange, "since"), text_of(exchange, "stop_at")
    page = exchange.repository.commit_log.page(
        read_call(exchange),
        spec,
        amount,
        after=text_of(exchange, "after"),
        since_us=_micros(since) if since else None,
        first_parent=flag_of(exchange, "first_parent"),
        stop_at=parse_ref(exchange, stop_at).spec if stop_at else None,
    )
    shown = [logged(one) for one in page.commits]
    has_more = page.has_more and not flag_of(exchange, "limit")
    return answer(page_out(shown, shown[-1].id if shown else "", has_more=has_more))


def _log_of_paths(
    exchange: Exchange, paths: tuple[str, ...], prefixes: tuple[str, ...]
) -> Response:
    """Lists the commits of the line of first parents that changed some objects."""
    spec, amount, after = spec_of(exchange), amount_of(exchange), text_of(exchange, "after")
    if after:
        behind = Step("~1", 1)
        spec = msgspec.structs.replace(spec, hash=after, steps=(behind,))
    found: list[CommitJson] = []
    token: str | None = None
    while True:
        page = exchange.repository.file_history.log(
            read_call(exchange), spec, paths, prefixes, amount - len(found), token
        )
        found += [commit_out(one.meta, 0) for one in page.items]
        token = page.token
        if token is None or len(found) == amount:
            break
    has_more = token is not None and not flag_of(exchange, "limit")
    return answer(page_out(found, found[-1].id if found else "", has_more=has_more))


def _micros(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Invalid(f"the parameter 'since' is a time of RFC 3339: {text[:40]!r}") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1_000_000)


def commit(exchange: Exchange) -> PendingWrite[Response]:
    """Commits what is staged."""
    body: CommitIn = _read_commit(exchange.request.body)
    branch = branch_of(exchange)
    if exchange.request.query.get("source_metarange"):
        raise Invalid("commits are made of what is staged: source_metarange: invalid value")
    pending = exchange.repository.commits.commit(
        write_call(exchange),
        branch,
        None,
        commit_meta(body),
        (),
        staged=True,
        allow_empty=bool(body.allow_empty),
        staged_at=take_staged_at(exchange, branch),
    )
    return pending.then(_committed)


def commit_meta(body: CommitIn) -> CommitMeta:
    """Returns the meta of a commit to be made."""
    return CommitMeta(
        message=body.message,
        properties=properties_in(body.metadata),
        commit_time_us=None if body.date is None else body.date * 1_000_000,
    )


def _committed(done: Committed) -> Response:
    meta = done.meta or CommitMeta(message="", hash=done.hash)
    return answer(commit_out(meta, 0), 201)


def revert(exchange: Exchange) -> PendingWrite[Response]:
    """Undoes a commit of the branch."""
    body: RevertIn = _read_revert(exchange.request.body)
    branch, over = branch_of(exchange), body.commit_overrides or _NO_OVERRIDES
    check_clean(exchange, branch)
    digits = _one_commit(exchange, body.ref, body.parent_number or None)
    request = RevertRequest(
        branch=branch,
        hashes=(ReferenceSpec(None, digits),),
        meta=CommitMeta(
            message=over.message or f"Revert {body.ref}", properties=properties_in(over.metadata)
        ),
    )
    pending = exchange.repository.merges.revert(write_call(exchange), request)
    return pending.then(_made(lambda _: NO_CONTENT))


def cherry_pick(exchange: Exchange) -> PendingWrite[Response]:
    """Makes a commit again on the branch."""
    body: CherryPickIn = _read_pick(exchange.request.body)
    branch, over = branch_of(exchange), body.commit_overrides or _NO_OVERRIDES
    check_clean(exchange, branch)
    digits = _one_commit(exchange, body.ref, body.parent_number)
    named = parse_ref(exchange, body.ref).spec.name
    added: Properties = tuple(
        sorted({**dict(properties_in(over.metadata)), "cherry-pick-origin": (digits,)}.items())
    )
    request = TransplantRequest(
        branch=branch,
        source=named or "",
        hashes=(ReferenceSpec(None, digits),),
        meta=CommitMeta(message=over.message or ""),
        added=added,
    )
    pending = exchange.repository.merges.cherry_pick(write_call(exchange), request)
    return pending.then(_made(partial(_picked, exchange)))


def _picked(exchange: Exchange, done: Merged) -> Response:
    try:
        made = exchange.repository.commit_log.get(
            read_call(exchange), ReferenceSpec(None, done.hash)
        )
    except LochanError:
        # It is made, whether the caller may read it or not.
        return answer(commit_out(CommitMeta(message="", hash=done.hash), 0), 201)
    return answer(commit_out(made.meta, made.created_us), 201)


def _one_commit(exchange: Exchange, ref: str, parent: int | None) -> str:
    """Returns the hash of a commit that is undone or made again; changes are of the first parent.

    Of a merge the parent has to be named, and can be the first one only.
    """
    spec = parse_ref(exchange, ref).spec
    meta = exchange.repository.commit_log.get(read_call(exchange), spec).meta
    if len(meta.parents) > 1 and parent is None:
        raise Invalid("this commit is a merge: name the parent (parent number 1)")
    if parent is not None and not 1 <= parent <= max(len(meta.parents), 1):
        raise Invalid(f"parent {parent}: the commit has {len(meta.parents)} parents: invalid value")
    if parent is not None and parent > 1:
        raise Invalid("changes are those against the first parent: other parents: invalid value")
    return meta.hash or ""


def merge(exchange: Exchange) -> PendingWrite[Response]:
    """Merges a reference into a branch."""
    body: MergeIn = _read_merge(exchange.request.body or b"{}")
    branch, source = branch_of(exchange), spec_of(exchange)
    strategy = body.strategy or ""
    if strategy not in _STRATEGIES:
        raise Invalid(f"merge strategy {strategy[:40]!r}: invalid value")
    check_clean(exchange, branch)
    metadata = {**(body.metadata or {}), ".lakefs.merge.strategy": strategy or "default"}
    squash = bool(body.squash_merge)
    request = MergeRequest(
        branch=branch,
        source=source,
        meta=CommitMeta(
            message=body.message or f"Merge '{exchange.params['ref']}' into '{branch}'",
            properties=properties_in(metadata),
        ),
        default=_STRATEGIES[strategy],
        empty="always" if body.allow_empty else "new",
        records_source=not squash,
    )
    # A merge that records no source could not be found again by an idempotency key.
    call = read_call(exchange) if squash else write_call(exchange)
    pending = exchange.repository.merges.merge(call, request)
    return pending.then(_made(lambda done: answer(MergeJson(done.hash or ""))))


def _made(show: Callable[[Merged], Response]) -> Callable[[Merged], Response]:
    """Returns what answers to a merge; one that had nothing to do is refused."""

    def shown(done: Merged) -> Response:
        if not done.applied:
            raise NothingToCommit(NO_CHANGES)
        return show(done)

    return shown


def conflict_of(error: KeysConflict) -> Response:
    """Returns the refusal of a merge in conflict; older clients read its `reference`."""
    body = {"message": f"conflict found: {error.public_message}", "reference": ""}
    return answer(body, 409)


def find_base(exchange: Exchange) -> Response:
    """Returns where the histories of a reference and a branch parted."""
    branch = ReferenceSpec(branch_of(exchange))
    found = exchange.repository.commit_log.merge_base(
        read_call(exchange), spec_of(exchange), branch
    )
    return answer(MergeBaseJson(found.source, found.target, found.base))


def diff_branch(exchange: Exchange) -> Response | LongWork:
    """Lists what is staged."""
    branch, page = branch_of(exchange), page_of(exchange)

    def read(limit: int, token: str | None) -> Page[FileDifference]:
        return exchange.repository.file_listings.uncommitted(
            read_call(exchange), branch, page.prefix, page.delimiter, limit, token, page.after
        )

    return _differences(page.amount, read)


def diff(exchange: Exchange) -> Response | LongWork:
    """Lists the objects that differ between two commits."""
    left, right = ref_of(exchange).spec, spec_of(exchange, "right")
    page, kind = page_of(exchange), text_of(exchange, "type") or "three_dot"
    if kind not in ("two_dot", "three_dot"):
        raise Invalid(f"diff type {kind[:40]!r}: invalid value")

    def read(limit: int, token: str | None) -> Page[FileDifference]:
        return exchange.repository.file_history.diff(
            read_call(exchange),
            left,
            right,
            page.prefix,
            page.delimiter,
            limit,
            token,
            since_base=kind == "three_dot",
            after=page.after,
        )

    return _differences(page.amount, read, with_right=flag_of(exchange, "include_right_stats"))


def _differences(
    amount: int,
    read: Callable[[int, str | None], Page[FileDifference]],
    *,
    with_right: bool = False,
) -> Response | LongWork:
    def show(found: list[FileDifference], has_more: bool) -> Response:
        shown = [diff_out(one, with_right=with_right) for one in found]
        return answer(page_out(shown, shown[-1].path if shown else "", has_more=has_more))

    return collect(amount, read, show)


def unsupported(exchange: Exchange) -> Response:  # noqa: ARG001 - every handler takes it
    """Refuses what is not implemented, as open-source lakeFS does."""
    return refusal(501, "feature not implemented")


_SEARCHES: Final = ("objects", "prefixes", "after", "since", "stop_at")


def _is_short_log(exchange: Exchange) -> bool:
    """Returns whether a log is brief: the first commits, no more than a usual page."""
    query = exchange.request.query
    if any(query.all(name) for name in _SEARCHES):
        return False
    return amount_of(exchange) <= AMOUNT_DEFAULT


HANDLERS: Final[Handlers] = {
    "lakefs.logCommits": (log, _is_short_log),
    "lakefs.getCommit": (get_commit, True),
    "lakefs.commit": (commit, False),
    "lakefs.revertBranch": (revert, False),
    "lakefs.cherryPick": (cherry_pick, False),
    "lakefs.mergeIntoBranch": (merge, False),
    "lakefs.findMergeBase": (find_base, False),
    "lakefs.diffBranch": (diff_branch, True),
    "lakefs.diffRefs": (diff, True),
}
"""The operations of this module: their handlers, and whether they are brief."""
