"""The decisions of one repository, and those on what one call writes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

import msgspec

from lochan.access.policy import KEYED_ACTIONS, Action, Call, KeyRight, Policy, Resource
from lochan.base.errors import Denied, LochanError, NotFound
from lochan.base.ids import ObjId
from lochan.base.keys import table_key
from lochan.base.names import RefName
from lochan.codec.rows import ReferenceRow
from lochan.kernel.build import Head
from lochan.kernel.provenance import SYSTEM_PREFIX, Initiator, recorded_roles
from lochan.model.commits import ContentKey, Delete, Operation, Unchanged

# Keys that a denial names for the audit log.
_DENIED_KEYS_MAX: Final = 5


class Access:
    """The policy of one repository."""

    def __init__(self, repository: str, policy: Policy) -> None:
        self.repository = repository
        self.policy = policy

    def decide(
        self,
        call: Call,
        action: Action,
        reference: str | None = None,
        incarnation: int | None = None,
        commit: ObjId | None = None,
        keys: Sequence[ContentKey | bytes] = (),
    ) -> None:
        """Returns if the caller may do it; raises Denied otherwise."""
        resource = Resource(self.repository, reference, incarnation, commit, keys)
        self.policy.decide(call, action, resource)

    def allows(
        self,
        call: Call,
        action: Action,
        reference: str | None = None,
        incarnation: int | None = None,
        commit: ObjId | None = None,
    ) -> bool:
        """Returns whether the caller may do it; for what is left out instead of refused."""
        resource = Resource(self.repository, reference, incarnation, commit)
        return self.policy.allows(call, action, resource)

    def reaches_all(self, call: Call, actions: Sequence[Action]) -> bool:
        """Returns whether the caller may do all of it to every key of every commit, by its hash."""
        return all(
            self.allows(call, action)
            and (action not in KEYED_ACTIONS or self.key_right(call, action, None) is None)
            for action in actions
        )

    def check_seen(self, call: Call) -> None:
        """Raises NotFound if the repository looks absent, because nothing in it is allowed."""
        if not self.policy.sees(call, self.repository):
            absent = NotFound(f"there is no repository {self.repository!r}")
            raise self.refused(call, Action.VIEW_REFERENCE, None, absent)

    def key_right(self, call: Call, action: Action, reference: str | None) -> KeyRight | None:
        """Returns the keys for which the caller may do something in a reference; None for all."""
        return self.policy.key_right(call, action, self.repository, reference)

    def refused(
        self, call: Call, action: Action, reference: str | None, error: LochanError
    ) -> LochanError:
        """Returns an error by which a use case itself refuses a request, after recording it."""
        self.policy.record_refusal(call, action, Resource(self.repository, reference), error)
        return error

    def refuse_keys(
        self, call: Call, action: Action, reference: str | None, keys: Sequence[bytes]
    ) -> LochanError:
        """Returns the refusal of keys that a right does not cover, as the policy has it.

        The policy decides on the keys by name, so that its audit log has them; so may its error.
        """
        if keys:
            named = keys[:_DENIED_KEYS_MAX]
            try:
                self.policy.decide(call, action, Resource(self.repository, reference, keys=named))
            except (Denied, NotFound) as refusal:
                return refusal
        error = Denied(f"you may not do this to some of the keys: {action.value}")
        return self.refused(call, action, reference, error)


class WriteTarget(msgspec.Struct, frozen=True):
    """What one call writes, and the decisions on it.

    `operations` are those of a commit, as far as their keys and their kind are known. `created` are
    names that do not exist yet; they are decided on instead of the reference that lists them.
    `source` is the name of the source, for the claim. `protected` raises Denied if the reference
    takes no commits (`service/protection.py`); it is asked on each head, from memory mostly.
    """

    access: Access
    call: Call
    action: Action
    name: RefName
    operations: Sequence[Operation] = ()
    source: str = ""
    created: Sequence[str] = ()
    protected: Callable[[Call, str], None] | None = None

    @property
    def keys(self) -> list[ContentKey]:
        """The keys that the request names, in its order."""
        return [operation.key for operation in self.operations]

    def check(self, incarnation: int | None = None) -> None:
        """Raises Denied unless the caller may write it by its name, or an incarnation of it."""
        self._check(incarnation, None)

    def check_early(self) -> None:
        """Raises Denied before the store is read, if the decision on the row would do so too.

        Nothing is learned then from what is read before that decision, such as that a hidden
        reference is a tag. A later decision is the one that counts, so this one is not recorded.
        """
        if not self.access.allows(self.call, self.action, self.name):
            self.check()

    def check_row(self, row: ReferenceRow) -> None:
        """Raises Denied unless the caller may write this row."""
        self._check(row.incarnation, ObjId(row.pointer))

    def check_head(self, head: Head) -> None:
        """Raises Denied unless the caller may commit on this head."""
        decide, row = self.access.decide, head.row
        decide(self.call, self.action, self.name, row.incarnation, head.view.obj_id, self.keys)
        if self.protected is not None:
            self.protected(self.call, self.name)

    def check_commit(
        self,
        head: Head,
        puts: Collection[bytes],
        deletes: Collection[bytes],
        relied: Collection[bytes],
    ) -> None:
        """Raises Denied unless the caller may commit on this head, and do this to these keys."""
        self.check_head(head)
        if puts:
            self._check_keys(Action.WRITE_CONTENT, puts)
        if deletes:
            self._check_keys(Action.DELETE_CONTENT, deletes)
        if relied:
            self._check_keys(Action.READ_CONTENT, relied)

    def record(self, error: Denied) -> None:
        """Has the policy record a denial, if it is not one of its own."""
        name = self.created[0] if self.created else self.name
        self.access.refused(self.call, self.action, name, error)

    def readable(self) -> Callable[[bytes], bool] | None:
        """Returns which keys of the target the caller may read; None for all."""
        right = self.access.key_right(self.call, Action.READ_CONTENT, self.name)
        return None if right is None else right.covers

    def _check(self, incarnation: int | None, commit: ObjId | None) -> None:
        decide, call = self.access.decide, self.call
        for name in self.created:
            decide(call, self.action, name)
        if self.created:
            return
        decide(call, self.action, self.name, incarnation, commit, self.keys)
        for operation in self.operations:
            self._check_keys(_action_on_key(operation), [bytes(table_key(operation.key))])

    def _check_keys(self, action: Action, keys: Collection[bytes]) -> None:
        right = self.access.key_right(self.call, action, self.name)
        if right is None:
            return
        covers = right.covers
        denied = [key for key in keys if not covers(key)]
        if denied:
            raise self.access.refuse_keys(self.call, action, self.name, denied)


def _action_on_key(operation: Operation) -> Action:
    """Returns what an operation does to its key; a record of a job belongs to what is put."""
    if isinstance(operation, Delete):
        return Action.DELETE_CONTENT
    return Action.READ_CONTENT if isinstance(operation, Unchanged) else Action.WRITE_CONTENT


def initiator_of(call: Call) -> Initiator:
    """Returns who causes a write, as it is recorded; Denied for a name of the system itself."""
    name = call.principal
    if name.startswith(SYSTEM_PREFIX):
        raise Denied(f"no caller has a name that begins with {SYSTEM_PREFIX!r}")
    return Initiator(name, recorded_roles(call.roles) if call.roles else ())
