"""Every refusal leaves one line in the audit log, also those that a use case decides on itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

import lochan
from lochan.access.audit import AuditEvent
from lochan.access.enforcement import EnforcedPolicy
from lochan.access.policy import Action, Call
from lochan.base.errors import Denied, Invalid, NotFound
from lochan.model.commits import Delete
from lochan.model.requests import NewReference
from lochan.model.specs import parse_spec
from lochan.service.objects import ObjectExchange
from lochan.service.policy import Access
from lochan.service.quotas import ReferenceQuota
from lochan.service.repository import Repository
from tests.service.access_bench import AccessBench, office
from tests.service.bench import Bench, key
from tests.service.limited import READS, Refusals, allow, caller, deny, enforced
from tests.service.rights_world import MERGES, WHOLE, Write, commit, do, parted

WRITES = ("write", "exchange_objects")


def from_afar(call: Call, key: str | None = None) -> Call:
    """The call as a face makes it."""
    return msgspec.structs.replace(
        call,
        origin="10.1.2.3",
        trace="request-7",
        credential="token:t",
        idempotency_key=key,
        digest=b"d",
    )


# Reads some keys of `side`, and everything of the others.
PARTLY = caller(
    allow(*READS, *WRITES),
    deny("read_content", references=("side",), keys=("ns.b",)),
    deny("read_log", references=("side",)),
)
ACTIONS = {
    "assign": (Action.ASSIGN_REFERENCE, "main"),
    "fast-forward": (Action.ASSIGN_REFERENCE, "main"),
    "force": (Action.ASSIGN_REFERENCE, "main"),
    "rebase": (Action.ASSIGN_REFERENCE, "main"),
    "rebase dry": (Action.ASSIGN_REFERENCE, "main"),
}
KEYED = pytest.mark.parametrize("idempotency_key", [None, "k"], ids=["plain", "keyed"])


def check_line(events: list[AuditEvent], action: Action, reference: str | None) -> None:
    (event,) = events
    assert (event.principal, event.origin, event.trace) == ("ann", "10.1.2.3", "request-7")
    assert (event.credential, event.repository) == ("token:t", "repo")
    assert (event.action, event.reference, event.allowed) == (action, reference, False)
    assert event.reason in ("denied", "content_not_found")


def refuse(server: Bench, write: Write, call: Call) -> None:
    with pytest.raises(Denied):
        do(server, write, call)


@KEYED
@pytest.mark.parametrize("name", WHOLE)
def test_a_move_of_a_whole_branch_that_is_refused_is_recorded(name, idempotency_key):
    audit = Refusals()
    refuse(enforced(parted(), audit), WHOLE[name], from_afar(PARTLY, idempotency_key))
    written, reference = ACTIONS.get(name, (Action.CREATE_REFERENCE, "x"))
    check_line(audit.events, written, "y" if name == "create many" else reference)


@KEYED
@pytest.mark.parametrize("name", [name for name in MERGES if "dry" not in name])
def test_a_merge_that_is_refused_is_recorded_once(name, idempotency_key):
    audit = Refusals()
    hidden = caller(allow(*READS, *WRITES), deny("read_content", keys=("ns.canary1",)))
    refuse(enforced(parted(), audit), MERGES[name], from_afar(hidden, idempotency_key))
    check_line(audit.events, Action.READ_CONTENT, "side")


@KEYED
def test_a_write_that_hidden_keys_prevent_is_recorded(idempotency_key):
    bench, audit = Bench(), Refusals()
    bench.fill("box.hidden")
    call = caller(allow(*READS, *WRITES), deny("read_content", keys=("box.hidden",)))
    write = commit(Delete(key=key("box")))
    refuse(enforced(bench, audit), write, from_afar(call, idempotency_key))
    check_line(audit.events, Action.COMMIT, "main")


@KEYED
def test_quotas_that_refuse_are_recorded(idempotency_key):
    bench, audit = Bench(), Refusals()
    bench.fill("ns.a")
    server = enforced(bench)
    policy = EnforcedPolicy(audit)
    quota = ReferenceQuota(branches_max=1)
    server.repository = Repository(server.repository.context, policy=policy, quota=quota)
    new = NewReference(name="one", source=parse_spec("main"))
    call = from_afar(caller(allow("*")), idempotency_key)
    refuse(server, lambda one, call: one.references.create(call, new), call)
    check_line(audit.events, Action.CREATE_REFERENCE, "one")
    audit.events.clear()
    quota = ReferenceQuota(ttl_us_max=1_000_000)
    server.repository = Repository(server.repository.context, policy=policy, quota=quota)
    with pytest.raises(Invalid, match="lives at most"):
        do(server, lambda one, call: one.references.create(call, new), call)
    (event,) = audit.events
    assert (event.action, event.reference, event.reason) == (
        *(Action.CREATE_REFERENCE, "one", "invalid"),
    )


def test_a_repository_that_looks_absent_is_recorded():
    audit = Refusals()
    with pytest.raises(NotFound):
        enforced(Bench(), audit).references.list(from_afar(caller(deny("*"))))
    (event,) = audit.events
    assert (event.principal, event.reason, event.allowed) == ("ann", "not_found", False)


def test_an_exchange_of_objects_that_is_refused_is_recorded():
    class Careless(EnforcedPolicy):
        def decide(self, call: Any, action: Any, resource: Any) -> None:
            """Lets the use case itself refuse it."""

    audit, bench = Refusals(), Bench()
    exchange = ObjectExchange(bench.repository.context, Access("repo", Careless(audit)))
    with pytest.raises(Denied):
        exchange.get(from_afar(PARTLY), [])
    check_line(audit.events, Action.EXCHANGE_OBJECTS, None)


def test_credentials_that_are_refused_are_recorded():
    bench, _ = office()
    audit = Refusals()
    server = AccessBench(bench.store, EnforcedPolicy(audit), seed=3)
    made = bench.access.create_token(Call("root"), "ada", expires_us=bench.clock.now_us() + 10_000)
    call = msgspec.structs.replace(
        from_afar(caller(allow("*"), name="ada")), credential=f"token:{made.token.id}"
    )
    with pytest.raises(Denied, match="expire no later"):
        server.access.create_token(call, "ada")
    (event,) = audit.events
    assert (event.principal, event.action, event.trace) == (
        *("ada", Action.MANAGE_OWN_TOKENS, "request-7"),
    )


def test_no_other_place_of_the_service_denies():
    """What is made in `claims.py` or recorded where it is raised; a new place has to be one."""
    allowed = {
        "policy.py": 2,
        "write_rights.py": 3,
        "objects.py": 1,
        "access_credentials.py": 2,
        "resets.py": 1,
        "protection.py": 1,
    }
    folder = Path(lochan.__file__).parent / "service"
    found = {
        path.name: len(re.findall(r"\bDenied\((?!\))", path.read_text("utf-8")))
        for path in sorted(folder.glob("*.py"))
    }
    assert {name: count for name, count in found.items() if count} == allowed
