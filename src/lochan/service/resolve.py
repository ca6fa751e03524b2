"""From a reference specification to a commit and its reference, authorised for one caller.

A use case gets a commit to read from here only, as a `Resolved`: what was resolved is what the
policy decided on, and what is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

import msgspec

from lochan.base.errors import Invalid, ReferenceNotFound
from lochan.base.ids import EMPTY_ID, ObjId
from lochan.base.names import INTERNAL_PREFIX, RefName
from lochan.catalog.types import ContentTypes
from lochan.codec.rows import ReferenceRow
from lochan.kernel.context import RepositoryContext
from lochan.kernel.history import resolve_steps
from lochan.kernel.references import ReferenceIndex
from lochan.kernel.tags import Tags
from lochan.kernel.tokens import Tokens
from lochan.kernel.views import CommitView
from lochan.model.commits import ContentKey
from lochan.model.references import Annotation, Reference
from lochan.model.specs import ReferenceSpec
from lochan.service.policy import Access, Action, Call

DEFAULT_ALIAS: Final = "-"
_HASH_DIGITS: Final = 64


# Rows that were read for a batch of reads, by the resolver that read them.
_AHEAD: ContextVar[tuple[Resolver, Mapping[RefName, ReferenceRow]] | None] = ContextVar(
    "rows read ahead", default=None
)


class Resolved(msgspec.Struct, frozen=True):
    """A commit that a caller may read; without a row it was named by its hash alone.

    Only the resolver makes one, after the policy has allowed the read.
    """

    view: CommitView
    row: ReferenceRow | None

    @property
    def reference(self) -> Reference:
        """What was read, pinned to the commit."""
        digits = self.view.obj_id.hex()
        if self.row is None:
            return Reference("DETACHED", None, digits)
        return Reference(self.row.kind, self.row.name, digits)


class Resolver:
    """Resolves the specifications of one repository, and has the policy decide on the result."""

    def __init__(self, context: RepositoryContext, names: ReferenceIndex, access: Access) -> None:
        self._context = context
        self._names = names
        self._access = access
        self._tags = Tags(context)

    def read(
        self, call: Call, action: Action, spec: ReferenceSpec, keys: Sequence[ContentKey] = ()
    ) -> Resolved:
        """Returns the commit that a specification names; the name alone is the head."""
        if spec.name is None and spec.hash is None:
            # To take it for the empty commit would empty a branch that is assigned by mistake.
            raise Invalid(f"neither a reference nor a commit is named: {spec.text()[:80]!r}")
        row = None if spec.name is None else self._row(spec.name)
        return self._allowed(call, action, self._view(spec, row), row, keys)

    def read_at(
        self,
        call: Call,
        action: Action,
        start: Resolved,
        commit: ObjId,
        keys: Sequence[ContentKey] = (),
    ) -> Resolved:
        """Returns another commit under the reference of the first: where a listing goes on."""
        return self._allowed(call, action, self._context.views.load(commit), start.row, keys)

    def read_on(self, call: Call, action: Action, start: Resolved, spec: ReferenceSpec) -> Resolved:
        """Returns a commit by its hash, or by steps from the first, under the same reference."""
        if spec.hash is None:
            view = resolve_steps(self._context.views, start.view, spec.steps)
        else:
            view = self._view(spec, start.row)
        return self._allowed(call, action, view, start.row, ())

    def reread(self, spec: ReferenceSpec) -> CommitView:
        """Returns a commit by its hash, for a request whose first try was decided on and done."""
        return self._view(spec, None)

    def read_row(self, call: Call, action: Action, name: str) -> ReferenceRow:
        """Returns the row of a live reference."""
        row = self._row(name)
        self._access.decide(call, action, row.name, row.incarnation, ObjId(row.pointer))
        return row

    def _allowed(
        self,
        call: Call,
        action: Action,
        view: CommitView,
        row: ReferenceRow | None,
        keys: Sequence[ContentKey],
    ) -> Resolved:
        if row is None:
            self._access.decide(call, action, None, None, view.obj_id, keys)
        else:
            self._access.decide(call, action, row.name, row.incarnation, view.obj_id, keys)
        return Resolved(view, row)

    def listed(self, spec: ReferenceSpec, resolved: Resolved) -> str:
        """Returns what a page token is bound to: the specification and the incarnation."""
        name = spec.name if resolved.row is None else resolved.row.name
        incarnation = "" if resolved.row is None else resolved.row.incarnation
        return f"{incarnation} {msgspec.structs.replace(spec, name=name).text()}"

    def name(self, text: str) -> RefName:
        """Returns the name of a reference; internal references cannot be named."""
        if text == DEFAULT_ALIAS:
            return RefName(self._context.description.default_branch)
        if text.startswith(INTERNAL_PREFIX) or not text.isascii():
            # Names are ASCII; half a surrogate pair could not even be encoded.
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

        The policy decides on these rows, and these rows are read. A write reads its row again. A
        row that is missing or deleted is read again by each read.
        """
        names = list({self.name(text) for text in texts if not text.startswith(INTERNAL_PREFIX)})
        found = zip(names, self._context.references.fetch_many(names), strict=True)
        rows = {name: one.row for name, one in found if one is not None and not one.row.deleted}
        token = _AHEAD.set((self, rows))
        try:
            yield
        finally:
            _AHEAD.reset(token)

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
        )

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
            raise ReferenceNotFound(
                f"Could not find commit '{spec.on_reference}' in reference '{branch}'."
            ) from None

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


def _whole_id(digits: str) -> ObjId:
    """Returns the id that a hash spells; no commit has a shorter one."""
    if len(digits) != _HASH_DIGITS:
        raise ReferenceNotFound(f"Commit '{digits}' not found")
    return ObjId(bytes.fromhex(digits))
