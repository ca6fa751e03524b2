"""From what a user writes (`main@hash~2`) to a commit and the reference it was reached by."""

from __future__ import annotations

import re
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
from lochan.kernel.specs import Spec, parse_spec, resolve_steps
from lochan.kernel.tags import Tags
from lochan.kernel.views import CommitView
from lochan.model.references import Annotation, Reference
from lochan.persist.references import StampedRow

DEFAULT_ALIAS: Final = "-"
_WHOLE_HASH: Final = re.compile(r"[0-9a-f]{64}\Z")


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
        self._tags = Tags(context)

    def resolve(self, text: str) -> Resolved:
        """Returns the commit that a spec names; the name alone is the head."""
        spec = parse_spec(text)
        if spec.name is None and spec.hash is None:
            # To take it for the empty commit would empty a branch that is assigned by mistake.
            raise Invalid(f"neither a reference nor a commit is named: {text[:80]!r}")
        row = None if spec.name is None else self.row(spec.name)
        return Resolved(self._view(spec, row), row)

    def view(self, text: str) -> CommitView:
        """Returns the commit of a spec."""
        return self.resolve(text).view

    def plain(self, text: str) -> str:
        """Returns a spec with the name of the default branch in place of its alias."""
        if text[:1] == DEFAULT_ALIAS:
            return f"{self._context.description.default_branch}{text[1:]}"
        return text

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

    def expected_id(self, branch: str, text: str | None) -> ObjId | None:
        """Returns the id of the commit that a writer expects; touches nothing for a plain hash."""
        if text is not None and _WHOLE_HASH.match(text):
            return ObjId(bytes.fromhex(text))
        view = self.expected(branch, text)
        return None if view is None else view.obj_id

    def expected(self, branch: str, text: str | None) -> CommitView | None:
        """Returns the commit that a writer expects in a branch's history."""
        if text is None:
            return None
        if not text or text[0] in "~^*":
            raise Invalid("an expected hash starts with a commit, not with a relative part")
        spec = parse_spec(text)
        if spec.name is not None:
            raise Invalid(f"not a commit hash: {text[:80]!r}")
        try:
            return self._view(spec, None)
        except ReferenceNotFound:
            raise ReferenceNotFound(
                f"Could not find commit '{text}' in reference '{branch}'."
            ) from None

    def _view(self, spec: Spec, row: ReferenceRow | None) -> CommitView:
        if spec.hash is not None:
            start = self._tags.peel_named(spec.hash).commit
        elif row is not None:
            start = self.head(row)
        else:
            start = self._context.views.load(EMPTY_ID)
        return resolve_steps(self._context.views, start, spec.steps) if spec.steps else start
