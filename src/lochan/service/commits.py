"""The use case of committing: validated outside the lane as far as possible, planned inside."""

from __future__ import annotations

from collections.abc import Sequence

from lochan.base.errors import Invalid, LochanError
from lochan.base.keys import Key, Universe, table_elements
from lochan.base.limits import COMMIT_OPERATIONS_MAX
from lochan.catalog.commit import CatalogCommit, CommitText
from lochan.catalog.contents import load_content_ids
from lochan.catalog.meta import headers_of
from lochan.catalog.types import ContentTypes
from lochan.kernel.changes import own_changes
from lochan.kernel.parts import Parts
from lochan.kernel.provenance import Provenance
from lochan.kernel.publish import Settled
from lochan.kernel.views import CommitView
from lochan.model.commits import AddedContent, CommitMeta, Committed, Operation
from lochan.service.calls import Call, Gate, Right
from lochan.service.claims import once
from lochan.service.lanes import OnLane
from lochan.service.resolve import Resolver


class Commits:
    """Commits to the branches of one repository."""

    def __init__(self, parts: Parts, types: ContentTypes, resolver: Resolver, gate: Gate) -> None:
        self._parts = parts
        self._types = types
        self._resolver = resolver
        self._gate = gate

    def commit(
        self,
        call: Call,
        branch: str,
        expected: str | None,
        meta: CommitMeta,
        operations: Sequence[Operation],
    ) -> OnLane[Committed]:
        """Prepares a commit; what it expects is as of the expected hash, an ancestor of the head.

        Changes of other keys since then do not matter.
        """
        name = self._resolver.name(branch)
        self._gate.check(call, Right.COMMIT, name)
        if not 0 < len(operations) <= COMMIT_OPERATIONS_MAX:
            raise Invalid(f"a commit has 1 to {COMMIT_OPERATIONS_MAX} operations")
        said = Provenance(who=call.who, operation=self._parts.chance.random_bytes(16).hex())
        text = CommitText(meta.message, headers_of(meta, call.who), said.headers())
        base = self._resolver.expected_id(name, expected)
        member = CatalogCommit(self._parts, self._types, base, operations, text)
        tried = once(self._parts, self._resolver.find, call, name, member, dry_run=False)

        def finish(settled: Settled) -> Committed:
            if isinstance(settled, LochanError):
                raise settled
            if tried.done is not None:
                return Committed(name, tried.done.obj_id.hex(), self._added_by(tried.done))
            return Committed(name, settled.head.obj_id.hex(), member.added)

        return OnLane(name, tried.member, finish, operations=len(operations))

    def _added_by(self, commit: CommitView) -> tuple[AddedContent, ...]:
        """Finds out what an earlier try has added: ids that no key of it held before."""
        changes = own_changes(self._parts.views, self._parts.nodes, commit)
        changes = [change for change in changes if change.key[0] == Universe.TABLES]
        before = [change.left for change in changes if change.left is not None]
        after = {change.key: change.right for change in changes if change.right is not None}
        ids = load_content_ids(self._parts, self._types, [*before, *after.values()])
        known = {ids[element] for element in before}
        return tuple(
            AddedContent(table_elements(Key(key)), ids[element])
            for key, element in after.items()
            if ids[element] not in known
        )
