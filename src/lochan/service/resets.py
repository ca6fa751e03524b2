"""Use cases that drop staged changes, and that move a branch together with them.

To reset a path needs the right to write and to delete that file. To reset a prefix or a whole
branch needs the right to move the branch, and the right to write and to delete every file that is
staged there: if one of them is missing, nothing is dropped.
"""

from __future__ import annotations

from functools import partial

from lochan.access.policy import Action, Call
from lochan.base.errors import Denied, HeadConflict, Invalid
from lochan.base.keys import file_key
from lochan.base.limits.requests import PAGE_ENTRIES_MAX
from lochan.base.names import RefName
from lochan.codec.rows import ReferenceRow
from lochan.kernel.references import MovedReference
from lochan.model.references import Reference
from lochan.model.specs import ReferenceSpec
from lochan.service.claims import ClaimMove
from lochan.service.file_base import FileUseCases
from lochan.service.file_claims import staged_write
from lochan.service.file_pages import PathSelection
from lochan.service.policy import WriteTarget, initiator_of
from lochan.service.readable_keys import join_rights
from lochan.service.write_rights import MovedKeys

_WRITES = (Action.WRITE_CONTENT, Action.DELETE_CONTENT)


class BranchResets(FileUseCases):
    """Drops staged changes of one repository."""

    def reset(
        self, call: Call, branch: str, prefix: str | None = None, path: str | None = None
    ) -> None:
        """Drops the staged changes of a branch, below a prefix, or of one path."""
        if prefix is not None and path is not None:
            raise Invalid("a reset is of a prefix or of a path, not of both")
        resets = self._staging.resets
        if path is not None:
            key = file_key(path)
            row = self._decide(call, branch, [key], *_WRITES)
            name, action = RefName(row.name), Action.WRITE_CONTENT
        else:
            row = self._decide(call, branch, [], Action.ASSIGN_REFERENCE)
            name, action = RefName(row.name), Action.ASSIGN_REFERENCE

        def reset(_: bytes) -> bool:
            if path is not None:
                return resets.reset_key(name, key)
            if prefix:
                return resets.reset_prefix(name, prefix) > 0
            resets.reset_branch(name)
            return True

        write = staged_write(self._context, self._claims, call, action, row, bool)
        if write.find_earlier() is None:
            if path is None:
                self._check_staged(call, row, prefix or "")
            write.do(reset)

    def hard_reset(
        self,
        call: Call,
        branch: str,
        target: ReferenceSpec,
        expected: ReferenceSpec | None = None,
        *,
        discard_staged: bool = False,
    ) -> Reference:
        """Moves a branch to a commit; StagedWork if files are staged, unless they may be dropped.

        The old head stays in the ref-log.
        """
        name, source = self._resolver.name(branch), target.name or ""
        moved = WriteTarget(self._access, call, Action.ASSIGN_REFERENCE, name, source=source)
        rights = MovedKeys(moved, self._resolver.name(source) if source else None)

        def work(claim: ClaimMove) -> Reference:
            resolved = self._resolver.read(call, Action.READ_CONTENT, target)
            rights.check_source()
            self._resolver.prove_expected(call, name, expected)
            wanted = self._resolver.expected(name, expected)
            row = self._staging.rows.fetch(name)
            rights.check_row(row)
            before = self._resolver.head(row)
            if expected is not None and wanted is not None and before.obj_id != wanted.obj_id:
                self._resolver.check_expected(call, row, expected, wanted)
                raise HeadConflict(
                    f"Named-reference '{name}' is not at expected hash "
                    f"'{wanted.obj_id.hex()}', but at '{before.obj_id.hex()}'."
                )
            rights.check_change(self._context.nodes, before, resolved.view)
            if discard_staged:
                self._check_staged(call, row, "")
            reset = partial(self._staging.resets.hard_reset, name, resolved.view.obj_id)
            who = initiator_of(call)
            return self._resolver.reference(reset(who, discard_staged=discard_staged, once=claim()))

        def earlier(made: MovedReference) -> Reference:
            rights.check_made(self._context, made)
            return self._resolver.reference(made.row)

        return self._claims.move(moved, work, earlier)

    def _check_staged(self, call: Call, row: ReferenceRow, prefix: str) -> None:
        """Raises Denied unless the caller may write and delete all that is staged."""
        rights = [self._access.key_right(call, action, row.name) for action in _WRITES]
        right = join_rights(*rights)
        if right is None:
            return
        within = PathSelection(prefix=prefix).range()
        at: bytes | None = within.start
        while at is not None:
            found, at = self._sources.staged(row, at, within.end, PAGE_ENTRIES_MAX)
            if not all(right.covers(key) for key, _ in found):
                refusal = Denied(
                    "nothing was dropped: among the staged changes are files that you may not "
                    "write or not delete"
                )
                raise self._access.refused(call, Action.WRITE_CONTENT, row.name, refusal)
