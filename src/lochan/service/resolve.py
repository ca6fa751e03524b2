"""From a reference specification to a commit and its reference, authorised for one caller.

A use case gets a commit to read from here only, as a `Resolved`: what was resolved is what the
policy decided on, and what is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Final

import msgspec

from lochan.access.policy import Action, Call, KeyRight
from lochan.base.errors import Denied, Invalid, LochanError, NotFound, ReferenceNotFound
from lochan.base.ids import EMPTY_ID, ObjId
from lochan.base.keys import table_key
from lochan.base.names import INTERNAL_PREFIX, RefName
from lochan.catalog.types import ContentTypes
from lochan.codec.rows import ReferenceRow
from lochan.index.layers import Index
from lochan.index.marks import find_marked, is_mark, mark_key
from lochan.kernel.context import RepositoryContext
from lochan.kernel.history import is_ancestor, resolve_steps
from lochan.kernel.references import ReferenceIndex
from lochan.kernel.tags import Tags
from lochan.kernel.tokens import Tokens
from lochan.kernel.views import CommitView
from lochan.model.commits import ContentKey
from lochan.model.references import Annotation, Reference
from lochan.model.specs import ReferenceSpec, Step
from lochan.service.policy import Access

DEFAULT_ALIAS: Final = "-"
_HASH_DIGITS: Final = 64

# What an answer shows that is decided on by one of these actions: entries may come with contents,
# a log with operations.
_SHOWN: Final[Mapping[Action, Sequence[Action]]] = {
    Action.READ_CONTENT: (Action.READ_CONTENT,),
    Action.READ_ENTRIES: (Action.READ_ENTRIES, Action.READ_CONTENT),
    Action.READ_LOG: (Action.READ_LOG, Action.READ_ENTRIES, Action.READ_CONTENT),
}


# Rows that were read for a batch of reads, by the resolver that read them.
_AHEAD: ContextVar[tuple[Resolver, Mapping[RefName, ReferenceRow]] | None] = ContextVar(
    "rows read ahead", default=None
)


class Resolved(msgspec.Struct, frozen=True):
    """A commit that a caller may read; without a row it was named by its hash alone.

    Only the resolver makes one, after the policy has allowed the read. `keys` are those for which
    the action was allowed, if it is one on keys; None for all.
    """

    view: CommitView
    row: ReferenceRow | None
    keys: KeyRight | None = None

    @property
    def reference(self) -> Reference:
        """What was read, pinned to the commit."""
        digits = self.view.obj_id.hex()
        if self.row is None:
            return Reference("DETACHED", None, digits)
        return Reference(self.row.kind, self.row.name, digits)


class Resolver:
    """Resolves the specifications of one repository, and has the policy decide on the result.

    A right on a reference covers its history by first parents. A commit that is named by a hash or
    by a second parent may be one of another reference. So it has to be proved that it is in that
    history; without the proof it is answered like an unknown one. Only for a caller that may read
    everything of all references there is nothing to prove.
    """

    def __init__(self, context: RepositoryContext, names: ReferenceIndex, access: Access) -> None:
        self._context = context
        self._names = names
        self._access = access
        self._tags = Tags(context)

    def read(self, call: Call, action: Action, spec: ReferenceSpec) -> Resolved:
        """Returns the commit that a specification names; the name alone is the head."""
        if spec.name is None:
            return self._read_by_hash(call, action, spec)
        try:
            row = self._row(spec.name)
            if spec.hash is None and not spec.steps:
                view = self.head(row)
            else:
                view = self._view_on(call, action, spec, row, None)
        except LochanError:
            # An error must not show that a reference exists, nor what its commits are.
            self._access.decide(call, action, self._full_name(spec.name))
            raise
        return self._allowed(call, action, view, row)

    def read_live(self, call: Call, action: Action, row: ReferenceRow) -> Resolved:
        """Returns the head of a branch under a row that was read for its staged files."""
        return self._allowed(call, action, self.head(row), row)

    def read_at(
        self, call: Call, action: Action, spec: ReferenceSpec, start: Resolved, commit: ObjId
    ) -> Resolved:
        """Returns another commit under the reference of the first: where a listing goes on.

        The commit is that of a page token, which is bound to the specification and the incarnation.
        So it is in the history of what the first page has resolved. That is proved again only if
        the specification may lead out of the history of the reference.
        """
        view = self._context.views.load(commit)
        if start.row is not None and commit != start.view.obj_id and _has_other_parent(spec):
            self._prove(call, action, view, start.row, spec.on_reference)
        return self._allowed(call, action, view, start.row)

    def read_on(self, call: Call, action: Action, start: Resolved, spec: ReferenceSpec) -> Resolved:
        """Returns a commit by its hash, or by steps from the first, under the same reference."""
        if start.row is not None:
            view = self._view_on(call, action, spec, start.row, start.view)
        elif spec.hash is not None:
            return self._read_by_hash(call, action, spec)
        else:
            view = resolve_steps(self._context.views, start.view, spec.steps)
        return self._allowed(call, action, view, start.row)

    def reread(self, spec: ReferenceSpec) -> CommitView:
        """Returns a commit by its hash, for a request whose first try was decided on and done."""
        return self._view(spec, None)

    def read_row(self, call: Call, action: Action, name: str) -> ReferenceRow:
        """Returns the row of a live reference."""
        try:
            row = self._row(name)
        except LochanError:
            self._access.decide(call, action, self._full_name(name))
            raise
        self._access.decide(call, action, row.name, row.incarnation, ObjId(row.pointer))
        return row

    def key_right(self, call: Call, action: Action, resolved: Resolved) -> KeyRight | None:
        """Returns the keys for which another action is allowed there; None for all."""
        name = None if resolved.row is None else resolved.row.name
        return self._access.key_right(call, action, name)

    def also(self, call: Call, action: Action, resolved: Resolved) -> KeyRight | None:
        """Decides on another action there; returns the keys for which it is allowed."""
        return self._allowed(call, action, resolved.view, resolved.row).keys

    def record_hidden(
        self, call: Call, action: Action, resolved: Resolved, keys: Sequence[ContentKey | bytes]
    ) -> None:
        """Has the policy refuse the hidden ones of the keys that a request names, for its record.

        The answer does not show the refusal: it treats them as absent.
        """
        right, row = resolved.keys, resolved.row
        if right is None:
            return
        hidden = [key for key in keys if not right.covers(_raw(key))]
        if hidden:
            name, incarnation = (None, None) if row is None else (row.name, row.incarnation)
            with suppress(Denied, NotFound):
                commit = resolved.view.obj_id
                self._access.decide(call, action, name, incarnation, commit, hidden)

    def _read_by_hash(self, call: Call, action: Action, spec: ReferenceSpec) -> Resolved:
        """Reads a commit without a reference.

        The first decision is on what was named, and nothing is read before it: so a caller without
        the right gets the same answer, at the same cost, whether the commit exists or not.
        """
        if spec.hash is None or len(spec.hash) != _HASH_DIGITS:
            self._access.check_seen(call)
        if spec.hash is None:
            # To take it for the empty commit would empty a branch that is assigned by mistake.
            raise Invalid(f"neither a reference nor a commit is named: {spec.text()[:80]!r}")
        named = _whole_id(spec.hash)
        self._access.decide(call, action, None, None, named)
        view = self._view(spec, None)
        if view.obj_id != named:
            self._access.decide(call, action, None, None, view.obj_id)
        return Resolved(view, None, self._keys(call, action, None))

    def _allowed(
        self, call: Call, action: Action, view: CommitView, row: ReferenceRow | None
    ) -> Resolved:
        if row is None:
            self._access.decide(call, action, None, None, view.obj_id)
            return Resolved(view, None, self._keys(call, action, None))
        self._access.decide(call, action, row.name, row.incarnation, view.obj_id)
        return Resolved(view, row, self._keys(call, action, row.name))

    def _keys(self, call: Call, action: Action, reference: str | None) -> KeyRight | None:
        if action is Action.READ_CONTENT or action is Action.READ_ENTRIES:
            return self._access.key_right(call, action, reference)
        return None

    def _view_on(
        self,
        call: Call,
        action: Action,
        spec: ReferenceSpec,
        row: ReferenceRow,
        start: CommitView | None,
    ) -> CommitView:
        """Returns a commit by a hash or from a start, and by steps, in the history of a reference.

        What leads out of that history is proved before the next step is taken.
        """
        if spec.hash is not None:
            view = self._tags.peel_named(_whole_id(spec.hash)).commit
            self._prove(call, action, view, row, spec.hash)
        else:
            view = start or self.head(row)
        for step in spec.steps:
            view = resolve_steps(self._context.views, view, (step,))
            if _is_other_parent(step):
                self._prove(call, action, view, row, spec.on_reference)
        return view

    def _prove(
        self, call: Call, action: Action, view: CommitView, row: ReferenceRow, named: str
    ) -> None:
        """Raises the error for an unknown commit unless the caller may read one under a row."""
        if self._access.reaches_all(call, _SHOWN.get(action, (action,))):
            return
        if not is_ancestor(self._context.views, view, self.head(row)):
            with suppress(Denied, NotFound):
                # For the record of refusals; the answer is that for an unknown commit.
                self._access.decide(call, action, None, None, view.obj_id)
            raise ReferenceNotFound(f"Commit '{named}' not found")

    def listed(self, spec: ReferenceSpec, resolved: Resolved) -> str:
        """Returns what a page token is bound to: the specification and the incarnation."""
        name = spec.name if resolved.row is None else resolved.row.name
        incarnation = "" if resolved.row is None else resolved.row.incarnation
        return f"{incarnation} {msgspec.structs.replace(spec, name=name).text()}"

    def _full_name(self, text: str) -> str:
        """Returns the name by which a policy decides on what cannot be resolved."""
        return self._context.description.default_branch if text == DEFAULT_ALIAS else text

    def name(self, text: str) -> RefName:
        """Returns the name of a reference; internal references cannot be named."""
        if text == DEFAULT_ALIAS:
            return RefName(self._context.description.default_branch)
        if not _is_nameable(text):
            raise ReferenceNotFound(f"Named reference {text!a} not found")
        return RefName(text)

    def _row(self, text: str) -> ReferenceRow:
        name = self.name(text)
        ahead = _AHEAD.get()
        if ahead is not None and ahead[0] is self and name in ahead[1]:
            return ahead[1][name]
        return self._names.get(name).row

    @contextmanager
    def reading(self, texts: Sequence[str]) -> Iterator[None]:
        """Reads the rows of these references by one call, for the reads that are called inside.

        The policy decides on these rows, for each read by itself, and these rows are read. A write
        reads its row again. A row that is missing or deleted is read again by each read.
        """
        token = _AHEAD.set((self, self._rows_of(texts)))
        try:
            yield
        finally:
            _AHEAD.reset(token)

    def _rows_of(self, texts: Sequence[str]) -> Mapping[RefName, ReferenceRow]:
        """Returns the live rows of several references; none if they cannot be read together.

        The reads are those of different callers. An error belongs to the read of one reference, so
        it must neither fail the others nor be shown to them: then each reads its own row.
        """
        names = list({self.name(text) for text in texts if _is_nameable(text)})
        try:
            found = zip(names, self._context.references.fetch_many(names), strict=True)
        except LochanError:
            return {}
        return {name: one.row for name, one in found if one is not None and not one.row.deleted}

    def head(self, row: ReferenceRow) -> CommitView:
        """Returns the commit that a reference leads to."""
        return self._tags.peel(ObjId(row.pointer)).commit

    def reference(self, row: ReferenceRow) -> Reference:
        """Returns a reference as users see it."""
        pointer = ObjId(row.pointer)
        annotation = None
        if row.kind == "TAG":
            peeled = self._tags.peel(pointer)
            pointer = peeled.commit.obj_id
            if peeled.tags:
                tag = peeled.tags[0]
                annotation = Annotation(
                    message=tag.message, properties=tag.headers, signature=tag.signature
                )
        return Reference(
            row.kind,
            row.name,
            pointer.hex(),
            created_us=row.created_us,
            expires_us=row.expires_us,
            annotation=annotation,
            concealed=row.concealed,
        )

    def prove_expected(self, call: Call, branch: RefName, spec: ReferenceSpec | None) -> None:
        """Raises the error for an unknown commit if steps from a commit would show hidden ones.

        Answers show what the steps lead to, so they begin and stay in the history of the branch.
        Without steps nothing is shown but what the caller sent, and nothing is read. If there is no
        such branch, the write fails for that.
        """
        if spec is None or spec.hash is None or not spec.steps or self._reaches_log(call):
            return
        found = self._names.find(branch)
        if found is None:
            return
        try:
            self._view_on(call, Action.READ_LOG, spec, found.row, None)
        except ReferenceNotFound:
            raise _unexpected(branch, spec) from None

    def check_expected(
        self, call: Call, row: ReferenceRow, spec: ReferenceSpec, view: CommitView
    ) -> None:
        """Raises the error for an unknown commit if one that is not the head is a hidden one."""
        if not self._reaches_log(call) and not is_ancestor(
            self._context.views, view, self.head(row)
        ):
            raise _unexpected(row.name, spec)

    def reaches(self, call: Call, actions: Sequence[Action]) -> bool:
        """Returns whether a caller may do all of it to every commit, by its hash."""
        self._access.check_seen(call)
        return self._access.reaches_all(call, actions)

    def _reaches_log(self, call: Call) -> bool:
        return self._access.reaches_all(call, (Action.READ_LOG,))

    def expected_id(self, branch: str, spec: ReferenceSpec | None) -> ObjId | None:
        """Returns the id of the commit that a writer expects; reads nothing without steps."""
        if spec is not None and spec.hash is not None and not spec.steps:
            return _whole_id(spec.hash)
        view = self.expected(branch, spec)
        return None if view is None else view.obj_id

    def expected(self, branch: str, spec: ReferenceSpec | None) -> CommitView | None:
        """Returns the commit that a writer expects in a branch's history."""
        if spec is None:
            return None
        if spec.hash is None:
            raise Invalid("an expected hash starts with a commit, not with a relative part")
        _whole_id(spec.hash)
        try:
            return self._view(spec, None)
        except ReferenceNotFound:
            raise _unexpected(branch, spec) from None

    def _view(self, spec: ReferenceSpec, row: ReferenceRow | None) -> CommitView:
        if spec.hash is not None:
            start = self._tags.peel_named(_whole_id(spec.hash)).commit
        elif row is not None:
            start = self.head(row)
        else:
            start = self._context.views.load(EMPTY_ID)
        return resolve_steps(self._context.views, start, spec.steps) if spec.steps else start


class Reads:
    """What the use cases that read a commit have in common."""

    def __init__(self, context: RepositoryContext, types: ContentTypes, resolver: Resolver) -> None:
        self._context = context
        self._types = types
        self._resolver = resolver
        self._tokens = Tokens(context.description.token_key)

    def _conceal(self, view: CommitView, index: Index, key: bytes) -> bytes:
        """Returns a place for a page token that does not show the key, which may be hidden."""
        secret = self._context.description.token_key
        return mark_key(self._context.nodes, index, key, secret, view.obj_id)

    def _reveal(self, view: CommitView, index: Index, place: bytes) -> bytes:
        """Returns the key of the place in a page token."""
        if not is_mark(place):
            return place
        secret = self._context.description.token_key
        return find_marked(self._context.nodes, index, place, secret, view.obj_id)


def _is_nameable(text: str) -> bool:
    """Returns whether a user may name a reference by a text.

    Names are ASCII; half a surrogate pair could not even be encoded.
    """
    return text.isascii() and not text.startswith(INTERNAL_PREFIX)


def _raw(key: ContentKey | bytes) -> bytes:
    return key if isinstance(key, bytes) else bytes(table_key(key))


def _is_other_parent(step: Step) -> bool:
    """Returns whether a step leaves the line of first parents."""
    return step.mark == "^" and step.number != 1


def _has_other_parent(spec: ReferenceSpec) -> bool:
    return any(_is_other_parent(step) for step in spec.steps)


def _unexpected(branch: str, spec: ReferenceSpec) -> ReferenceNotFound:
    return ReferenceNotFound(
        f"Could not find commit '{spec.on_reference}' in reference '{branch}'."
    )


def _whole_id(digits: str) -> ObjId:
    """Returns the id that a hash spells; no commit has a shorter one."""
    if len(digits) != _HASH_DIGITS:
        raise ReferenceNotFound(f"Commit '{digits}' not found")
    return ObjId(bytes.fromhex(digits))
