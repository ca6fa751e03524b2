"""A server decides by the rights of a call; what may not be seen looks absent."""

from __future__ import annotations

from typing import Any

import pytest

from lochan.access.audit import AuditEvent
from lochan.access.enforcement import EnforcedPolicy, raw_key
from lochan.access.policy import Action, Call, Policy, Resource
from lochan.access.rights import OPEN_RIGHTS
from lochan.base.errors import (
    ContentNotFound,
    Denied,
    InvalidKey,
    LochanError,
    NotFound,
    ReferenceNotFound,
    Unauthenticated,
)
from lochan.base.ids import ObjId
from lochan.base.keys import file_key, table_key
from lochan.base.limits.policies import AUDIT_KEYS_MAX
from lochan.kernel.repository import Ports, create_repository, open_repository
from lochan.model.access import Statement
from lochan.stores.memory.store import MemoryStore
from lochan.testing.ports import ManualClock, RecordedWaiting, SeededRandom
from tests.access.test_rights import READ, WRITE, allow, deny, rights

A = Action
R = "default"
COMMIT = ObjId(bytes(range(32)))


def call(*statements: Statement, **more: Any) -> Call:
    return Call("alice", rights=rights(*statements), **more)


def refusal(of: Call, action: Action, resource: Resource) -> LochanError:
    with pytest.raises(LochanError) as caught:
        EnforcedPolicy().decide(of, action, resource)
    return caught.value


def test_what_is_allowed_returns():
    policy: Policy = EnforcedPolicy()
    policy.decide(call(WRITE), A.COMMIT, Resource(R, "main", keys=[("a", "b")]))
    policy.decide(Call(rights=OPEN_RIGHTS), A.MANAGE_ACCESS, Resource(""))
    assert policy.key_right(call(READ), A.READ_CONTENT, R, "main") is None


def test_a_call_without_rights_needs_credentials():
    error = refusal(Call(), A.VIEW_REFERENCE, Resource(R, "main"))
    assert type(error) is Unauthenticated
    with pytest.raises(Unauthenticated):
        EnforcedPolicy().key_right(Call("alice"), A.READ_CONTENT, R, "main")


@pytest.mark.parametrize(
    "action", [action for action in Action if action is not A.CREATE_REPOSITORY]
)
def test_a_repository_without_any_right_looks_absent(action):
    mine = call(allow("*", repositories=("other",)))
    store, ports = MemoryStore(), Ports(ManualClock(), SeededRandom(1), RecordedWaiting())
    create_repository(store, ports, "other", "main")
    with pytest.raises(NotFound) as absent:
        open_repository(store, ports, R)
    error = refusal(mine, action, Resource(R, "main", keys=[("a",)]))
    assert (type(error), error.message) == (type(absent.value), absent.value.message)


def test_creating_a_repository_is_denied_whether_there_is_one_or_not():
    error = refusal(call(READ), A.CREATE_REPOSITORY, Resource(R))
    assert type(error) is Denied


def test_a_reference_that_may_not_be_viewed_looks_absent():
    mine = call(allow("*", references=("dev/*",)))
    for action in (A.VIEW_REFERENCE, A.COMMIT, A.READ_CONTENT, A.DELETE_REFERENCE, A.READ_LOG):
        error = refusal(mine, action, Resource(R, "main", 1, COMMIT))
        assert type(error) is ReferenceNotFound
        assert error.message == "Named reference 'main' not found"


def test_a_commit_by_hash_looks_absent_without_rights_on_all_references():
    mine = call(allow("*", references=("dev/*",)))
    error = refusal(mine, A.READ_CONTENT, Resource(R, None, None, COMMIT))
    assert type(error) is ReferenceNotFound
    assert error.message == f"Commit '{COMMIT.hex()}' not found"


def test_what_may_be_seen_and_not_be_changed_is_denied():
    error = refusal(call(READ), A.COMMIT, Resource(R, "main"))
    assert type(error) is Denied
    assert error.message.startswith(
        "alice may not commit on reference 'main' of repository 'default'; "
    )
    assert type(refusal(call(READ), A.CREATE_REFERENCE, Resource(R, "new"))) is Denied
    assert type(refusal(call(READ), A.MANAGE_ACCESS, Resource(""))) is Denied
    by_hash = Resource(R, None, None, COMMIT)
    assert type(refusal(call(allow("view_reference")), A.READ_LOG, by_hash)) is Denied


def test_creating_a_reference_is_denied_whether_it_may_be_viewed_or_not():
    mine = call(allow("read", references=("dev/*",)))
    for name in ("dev/x", "main"):
        assert type(refusal(mine, A.CREATE_REFERENCE, Resource(R, name))) is Denied


def test_every_key_of_a_request_is_decided_on():
    mine = call(READ, allow("write", keys=("a.*",)))
    decide = EnforcedPolicy().decide
    decide(mine, A.WRITE_CONTENT, Resource(R, "main", keys=[("a", "b"), ("a", "c")]))
    keys = [("a", "b"), ("a", "c"), ("b",)]
    error = refusal(mine, A.WRITE_CONTENT, Resource(R, "main", keys=keys))
    assert type(error) is Denied
    assert "key 'b'" in error.message
    assert type(refusal(mine, A.WRITE_CONTENT, Resource(R, "main", keys=[file_key("a")]))) is Denied


def test_a_key_that_may_not_be_read_looks_absent():
    mine = call(allow("read", keys=("a.*",)))
    error = refusal(mine, A.READ_CONTENT, Resource(R, "main", keys=[("a", "b"), ("b", "c")]))
    assert isinstance(error, ContentNotFound)
    assert error.message == "Could not find content for key 'b.c' in reference 'main'."
    assert error.key == ("b", "c")
    nothing = call(allow("view_reference"))
    assert type(refusal(nothing, A.READ_CONTENT, Resource(R, "main", keys=[("a",)]))) is Denied


def test_keys_of_an_action_that_is_not_on_keys_do_not_matter():
    EnforcedPolicy().decide(
        call(READ, allow("commit", keys=("a.*",))), A.COMMIT, Resource(R, "main", keys=[("b",)])
    )


@pytest.mark.parametrize(
    "key",
    [("a",), ("a", "b"), ("a.b", "c"), ("ä", "日本"), ("a", "\U0001f600")],
)
def test_keys_are_looked_up_as_the_index_stores_them(key):
    assert raw_key(key) == bytes(table_key(key))
    assert raw_key(bytes(file_key("x"))) == file_key("x")


@pytest.mark.parametrize("key", [(), ("a\x01b",), ("\x01",), ("a", "b\x01c"), ("\ud800",)])
def test_a_key_that_could_be_another_is_refused(key):
    with pytest.raises(InvalidKey):
        raw_key(key)
    mine = call(READ, allow("write", keys=("a.*",)))
    with pytest.raises(InvalidKey):
        EnforcedPolicy().decide(mine, A.WRITE_CONTENT, Resource(R, "main", keys=[key]))


class Recorded:
    """An audit log in memory."""

    def __init__(self, *wanted: bool) -> None:
        self.wanted = wanted
        self.events: list[AuditEvent] = []

    def wants(self, action: Action, allowed: bool) -> bool:
        return allowed in self.wanted

    def record(self, event: AuditEvent) -> None:
        self.events.append(event)


def test_decisions_are_recorded_with_who_and_what():
    audit = Recorded(True, False)
    policy = EnforcedPolicy(audit)
    mine = call(READ, roles=("staff",), trace="t-1", credential="token-1", origin="10.0.0.7")
    keys = [("k", str(number)) for number in range(AUDIT_KEYS_MAX + 3)]
    policy.decide(mine, A.READ_CONTENT, Resource(R, "main", keys=keys))
    with pytest.raises(Denied):
        policy.decide(mine, A.COMMIT, Resource(R, "main", keys=[bytes(file_key("x/y"))]))
    with pytest.raises(Unauthenticated):
        policy.decide(Call(origin="10.0.0.8"), A.COMMIT, Resource(R))
    allowed, denied, unknown = audit.events
    assert allowed == AuditEvent(
        principal="alice",
        roles=("staff",),
        credential="token-1",
        origin="10.0.0.7",
        trace="t-1",
        action=A.READ_CONTENT,
        repository=R,
        reference="main",
        keys=tuple(f"k.{number}" for number in range(AUDIT_KEYS_MAX)),
        key_count=AUDIT_KEYS_MAX + 3,
        allowed=True,
    )
    assert (denied.allowed, denied.reason, denied.keys) == (False, "denied", ("x/y",))
    assert (unknown.allowed, unknown.reason, unknown.origin) == (
        False,
        "unauthenticated",
        "10.0.0.8",
    )


def test_only_what_the_log_wants_is_recorded():
    for wanted, expected in (((), 0), ((True,), 1), ((False,), 1)):
        audit = Recorded(*wanted)
        policy = EnforcedPolicy(audit)
        policy.decide(call(READ), A.READ_CONTENT, Resource(R, "main"))
        with pytest.raises(Denied):
            policy.decide(call(READ), A.COMMIT, Resource(R, "main"))
        assert len(audit.events) == expected


def test_a_denied_key_is_not_confused_with_a_hidden_reference():
    mine = call(WRITE, deny("write_content", keys=("b",)))
    error = refusal(mine, A.WRITE_CONTENT, Resource(R, "main", keys=[("b",)]))
    assert type(error) is Denied
