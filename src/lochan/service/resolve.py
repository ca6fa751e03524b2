"""From what a user writes (`main@hash~2`) to a commit and the reference it was reached by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

import msgspec

from lochan.base.errors import Invalid, ReferenceNotFound
from lochan.base.ids import EMPTY_ID, ObjId
from lochan.base.names import INTERNAL_PREFIX, RefName
from lochan.codec.rows import ReferenceRow
from lochan.kernel.context import RepositoryContext
from lochan.kernel.references import ReferenceIndex
from lochan.kernel.specs import resolve_steps
from lochan.kernel.tags import Tags
from lochan.kernel.views import CommitView
from lochan.model.references import Annotation, Reference
from lochan.model.specs import ReferenceSpec
from lochan.persist.references import StampedRow

DEFAULT_ALIAS: Final = "-"
_HASH_DIGITS: Final = 64


# Rows that were read for a batch of reads, by the resolver that read them.
_AHEAD: ContextVar[tuple[Resolver, Mapping[RefName, ReferenceRow]] | None] = ContextVar(
    "rows read ahead", default=None
)


class Resolved(msgspec.Struct, frozen=True):
    """A commit, and by which reference it was reached; without a row it was named by hash alone."""

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
    """Resolves the specs of one repository."""

    def __init__(self, context: RepositoryContext, names: ReferenceIndex) -> None:
        self._context = context
        self._names = names
        self._tags = Tags(context, names)

    def resolve(self, spec: ReferenceSpec) -> Resolved:
        """Returns the commit that a specification names; the name alone is the head."""
        if spec.name is None and spec.hash is None:
            # To take it for the empty commit would empty a branch that is assigned by mistake.
            raise Invalid(f"neither a reference nor a commit is named: {spec.text()[:80]!r}")
        row = None if spec.name is None else self.row(spec.name)
        return Resolved(self._view(spec, row), row)

    def view(self, spec: ReferenceSpec) -> CommitView:
        """Returns the commit of a specification."""
        return self.resolve(spec).view

    def plain(self, spec: ReferenceSpec) -> str:
        """Returns the text of a specification with the default branch in place of its alias."""
        if spec.name == DEFAULT_ALIAS:
            spec = msgspec.structs.replace(spec, name=self._context.description.default_branch)
        return spec.text()

    def name(self, text: str) -> RefName:
        """Returns the name that is meant; internal ones are nobody's."""
        if text == DEFAULT_ALIAS:
            return RefName(self._context.description.default_branch)
        if text.startswith(INTERNAL_PREFIX) or not text.isascii():
            # No name has other characters; half a surrogate pair could not even be looked for.
            raise ReferenceNotFound(f"Named reference {text!a} not found")
        return RefName(text)

    def find(self, name: RefName) -> StampedRow | None:
        """Returns a live reference, or None; finishes what was left half done."""
        return self._names.find(name)

    def row(self, text: str) -> ReferenceRow:
        """Returns the row of a live reference."""
        name = self.name(text)
        ahead = _AHEAD.get()
        if ahead is not None and ahead[0] is self and name in ahead[1]:
            return ahead[1][name]
        return self._names.get(name).row

    @contextmanager
    def reading(self, texts: Sequence[str]) -> Iterator[None]:
        """Lets what is called inside find the rows of these references read, by one call.

        For reads that came before; what changes a row reads it for itself. Rows that are missing or
        deleted are left to be found out one by one.
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


def _whole_id(digits: str) -> ObjId:
    """Returns the id that a hash spells; no commit has a shorter one."""
    if len(digits) != _HASH_DIGITS:
        raise ReferenceNotFound(f"Commit '{digits}' not found")
    return ObjId(bytes.fromhex(digits))
