"""Reading history in pages: whole commits, ids only, commits that touched a key; ahead and behind.

All of them follow first parents, newest first. A token names the commit where the next page starts;
what lies below a commit never changes, so pages fit together whatever happens to the branch. A page
does bounded work: one that filters may come back with few commits, or none, and a token.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

import msgspec

from lochan.base.errors import Invalid
from lochan.base.ids import EMPTY_ID, ObjId
from lochan.base.keys import prefix_end
from lochan.base.limits import LOG_SCANNED_MAX, PAGE_ENTRIES_MAX
from lochan.index.read import read_page
from lochan.kernel.changes import diff_commits
from lochan.kernel.context import RepositoryContext
from lochan.kernel.history import iterate_log, merge_base, shared_sequence
from lochan.kernel.tokens import PageToken, Tokens
from lochan.kernel.views import CommitView

_LOG: Final = "log"
_IDS: Final = "id-log"
_PATHS: Final = "path-log"


class LogPage(msgspec.Struct, frozen=True):
    """Some commits, newest first; `token` asks for the next page, None at the end of history."""

    commits: tuple[CommitView, ...]
    token: PageToken | None


class IdPage(msgspec.Struct, frozen=True):
    """Some ids of commits, newest first."""

    ids: tuple[ObjId, ...]
    token: PageToken | None


class KeyRange(msgspec.Struct, frozen=True, gc=False):
    """The keys of [start, end), with their universe byte; no end is the end of all keys."""

    start: bytes
    end: bytes | None

    def filter(self) -> str:
        """Returns the range as text, for a page token."""
        return f"{self.start.hex()}-{'' if self.end is None else self.end.hex()}"


class AheadBehind(msgspec.Struct, frozen=True):
    """How two heads differ: the first-parent commits that only one of them has."""

    base: ObjId
    ahead: int
    behind: int


def only_key(key: bytes) -> KeyRange:
    """Returns the range of one key."""
    return KeyRange(key, key + b"\0")


def key_prefix(prefix: bytes) -> KeyRange:
    """Returns the range of all keys that start so; the prefix begins with a universe byte."""
    return KeyRange(prefix, prefix_end(prefix))


class Logs:
    """The logs of one repository."""

    def __init__(self, context: RepositoryContext) -> None:
        self._context = context
        self._tokens = Tokens(context.description.token_key)

    def page(self, head: ObjId, limit: int, token: PageToken | None = None) -> LogPage:
        """Returns commits from a head down; with a token from where the last page ended."""
        _check_limit(limit)
        start = self._start(head, token, _LOG, "")
        commits: list[CommitView] = []
        for view in iterate_log(self._context.views, start):
            commits.append(view)
            if len(commits) == limit:
                break
        further = commits[-1].parent if commits else EMPTY_ID
        return LogPage(tuple(commits), self._token(_LOG, further, ""))

    def ids(self, head: ObjId, limit: int, token: PageToken | None = None) -> IdPage:
        """Returns ids of commits; reads only every twentieth of them, for its tail."""
        _check_limit(limit)
        start = self._start(head, token, _IDS, "")
        found = [] if start == EMPTY_ID else [start]
        # One more than asked for is the start of the next page.
        while 0 < len(found) <= limit:
            body = self._context.views.load(found[-1]).body
            if body is None or not body.tail:
                break
            found += [ObjId(raw) for raw in body.tail]
        further = found[limit] if len(found) > limit else EMPTY_ID
        return IdPage(tuple(found[:limit]), self._token(_IDS, further, ""))

    def touching(
        self, head: ObjId, keys: KeyRange, limit: int, token: PageToken | None = None
    ) -> LogPage:
        """Returns the commits that put or removed a key of the range.

        Commits tell by the keys that they list; those that list none by what differs from their
        parent in the range alone.
        """
        _check_limit(limit)
        wanted = keys.filter()
        further = self._start(head, token, _PATHS, wanted)
        commits: list[CommitView] = []
        for scanned, view in enumerate(iterate_log(self._context.views, further), 1):
            if self._touches(view, keys):
                commits.append(view)
            further = view.parent
            if len(commits) == limit or scanned == LOG_SCANNED_MAX:
                break
        return LogPage(tuple(commits), self._token(_PATHS, further, wanted))

    def ahead_behind(self, left: CommitView, right: CommitView) -> AheadBehind:
        """Counts what each of two heads has on its line of first parents and the other has not."""
        views = self._context.views
        base = merge_base(views, left, right)
        return AheadBehind(
            EMPTY_ID if base is None else base.obj_id,
            left.sequence - shared_sequence(views, left, right),
            right.sequence - shared_sequence(views, right, left),
        )

    def _touches(self, view: CommitView, keys: KeyRange) -> bool:
        body = view.body
        if body is not None and body.own is not None:
            at = bisect_left(body.own, keys.start)
            return at < len(body.own) and (keys.end is None or body.own[at] < keys.end)
        parent = self._context.views.load(view.parent)
        nodes = self._context.nodes
        if next(diff_commits(nodes, parent, view, keys.start, keys.end), None) is not None:
            return True
        # What was put again as it was.
        root = None if body is None or body.unchanged_root is None else ObjId(body.unchanged_root)
        return bool(read_page(nodes, root, keys.start, keys.end, 1))

    def _start(self, head: ObjId, token: PageToken | None, kind: str, wanted: str) -> ObjId:
        if token is None:
            return head
        start, _ = self._tokens.read(token, kind, wanted)
        return start

    def _token(self, kind: str, further: ObjId, wanted: str) -> PageToken | None:
        if further == EMPTY_ID:
            return None
        return self._tokens.make(kind, further, b"", wanted)


def _check_limit(limit: int) -> None:
    if not 0 < limit <= PAGE_ENTRIES_MAX:
        raise Invalid(f"a page has 1 to {PAGE_ENTRIES_MAX} entries, not {limit}")
