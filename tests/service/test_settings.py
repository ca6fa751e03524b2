"""Settings of a repository: checked, replaced whole, and certain after a lost reply."""

from __future__ import annotations

from functools import partial

import pytest

from lochan.base.errors import Corrupt, Exhausted, Invalid, TooLarge, Unavailable, Unknown
from lochan.base.limits.requests import SETTINGS_POLICIES_MAX, SETTINGS_WRITERS_MAX
from lochan.kernel.repository import SETTINGS_KEY
from lochan.kv.store import Kind, partition
from lochan.testing.faults import Fault, FaultKind, FaultyStore, PlannedCall
from tests.kernel.workbench import OnCalls, nth
from tests.service.workbench import CALL, Service

TYPE = "GARBAGE_COLLECTOR"
FIRST = {"type": TYPE, "defaultCutoffPolicy": "P30D", "newFilesGracePeriod": "PT3H"}
SECOND = {"type": TYPE, "defaultCutoffPolicy": "P10D", "expectedFileCountPerContent": 123}
THIRD = {"type": TYPE, "defaultCutoffPolicy": "7"}


def update(service: Service, config: dict) -> dict | None:
    return service.repository.settings.update(CALL, config)


def current(service: Service) -> list[dict]:
    return service.repository.settings.get(CALL, [TYPE])


def test_settings_are_replaced_and_the_previous_returned():
    service = Service()
    assert current(service) == []
    assert update(service, FIRST) is None
    assert current(service) == [FIRST]
    assert update(service, SECOND) == FIRST
    assert current(service) == [SECOND]
    assert current(service.again()) == [SECOND]


def test_only_what_is_asked_for_and_known_is_returned():
    service = Service()
    update(service, FIRST)
    get = partial(service.repository.settings.get, CALL)
    assert get([]) == []
    assert get(["UNKNOWN"]) == []
    assert get([TYPE, "UNKNOWN", TYPE]) == [FIRST]
    with pytest.raises(Invalid, match="No repository config type registered for name UNNAMED"):
        get([TYPE, "UNNAMED"])


def test_an_unknown_type_is_refused_in_nessies_words():
    words = "Repository config type bundle for 'FOO_BAR' is not available on the Nessie server side"
    with pytest.raises(Invalid, match=words):
        update(Service(), {"type": "FOO_BAR", "foo": "bar"})


@pytest.mark.parametrize("config", [{}, {"type": ""}, {"type": None}, {"type": 7}, {"foo": 1}])
def test_settings_without_a_type_are_refused(config):
    with pytest.raises(Invalid, match="has a type"):
        update(Service(), config)


POLICIES = ["NONE", "none", "1", "12345", "P30D", "PT3H", "P1DT2H3M4.5S", "-P1D", "pt0.1s"]
INSTANTS = ["2011-12-03T10:15:30Z", "2024-02-29T00:00:00.123456789+02:00"]


@pytest.mark.parametrize("policy", [*POLICIES, *INSTANTS])
def test_policies_that_can_be_followed_are_taken(policy):
    service = Service()
    rules = [{"referenceNamePattern": "release/.*", "policy": policy}]
    config = {"type": TYPE, "defaultCutoffPolicy": policy, "perRefCutoffPolicies": rules}
    update(service, config)
    assert current(service) == [config]


@pytest.mark.parametrize("policy", ["foo", "", "0", "-1", "P", "PT", "P1DT", "1.5", "2011-12-03"])
def test_policies_that_cannot_be_followed_are_refused(policy):
    service = Service()
    for config in (
        {"type": TYPE, "defaultCutoffPolicy": policy},
        {
            "type": TYPE,
            "perRefCutoffPolicies": [{"referenceNamePattern": ".*", "policy": policy}],
        },
    ):
        with pytest.raises(Invalid, match="Failed to parse default-cutoff-value"):
            update(service, config)
    assert current(service) == []


@pytest.mark.parametrize(
    "config",
    [
        {"newFilesGracePeriod": "3 hours"},
        {"newFilesGracePeriod": 3},
        {"expectedFileCountPerContent": -1},
        {"expectedFileCountPerContent": "many"},
        {"expectedFileCountPerContent": 2**31},
        {"perRefCutoffPolicies": [{"policy": "P1D"}]},
        {"perRefCutoffPolicies": [{"referenceNamePattern": "", "policy": "P1D"}]},
        {"defaultCutoffPolicy": ["P1D"]},
    ],
)
def test_values_of_the_wrong_kind_are_refused(config):
    with pytest.raises(Invalid):
        update(Service(), {"type": TYPE, **config})


def test_what_is_not_set_is_left_out():
    service = Service()
    nothing = {"defaultCutoffPolicy": None, "perRefCutoffPolicies": [], "unknownField": 1}
    update(service, {"type": TYPE, **nothing})
    assert current(service) == [{"type": TYPE}]


def test_there_is_a_bound_on_rules_and_on_bytes():
    def rules(count: int, pattern: str = "a") -> dict:
        rule = {"referenceNamePattern": pattern, "policy": "P1D"}
        return {"type": TYPE, "perRefCutoffPolicies": [rule] * count}

    service = Service()
    update(service, rules(SETTINGS_POLICIES_MAX))
    with pytest.raises(TooLarge):
        update(service, rules(SETTINGS_POLICIES_MAX + 1))
    with pytest.raises(TooLarge):
        update(service, rules(100, "a" * 1_000))


@pytest.mark.parametrize("kind", [FaultKind.LOST_REPLY, FaultKind.LATE])
def test_a_lost_reply_is_resolved(kind):
    service = Service()
    update(service, FIRST)
    fault = Fault(kind, 1 if kind is FaultKind.LATE else 0)
    rival = service.again(FaultyStore(service.store, nth("set_if", 0, fault)))
    assert update(rival, SECOND) == FIRST
    assert current(service) == [SECOND]


def test_one_whose_reply_was_lost_finds_itself_below_later_writers():
    service = Service()
    update(service, FIRST)
    others = []

    def meanwhile(call: PlannedCall) -> FaultKind | None:
        if call.operation != "set_if":
            return None
        if not others:
            others.append("lost")
            return FaultKind.LOST_REPLY
        if others == ["lost"]:
            others.append("written")
            assert update(service, THIRD) == SECOND
        return None

    rival = service.again(FaultyStore(service.store, OnCalls(meanwhile)))
    assert update(rival, SECOND) == FIRST
    assert current(service) == [THIRD]


def test_one_that_was_only_late_writes_again_over_who_came_first():
    service = Service()
    update(service, FIRST)
    seen = []

    def meanwhile(call: PlannedCall) -> FaultKind | None:
        if call.operation == "set_if" and not seen:
            seen.append(call)
            update(service, THIRD)
        return None

    rival = service.again(FaultyStore(service.store, OnCalls(meanwhile)))
    assert update(rival, SECOND) == THIRD
    assert current(service) == [SECOND]


def test_after_too_many_later_writers_the_outcome_is_told_as_unknown():
    service = Service()
    update(service, FIRST)
    seen = []

    def meanwhile(call: PlannedCall) -> FaultKind | None:
        if call.operation != "set_if":
            return None
        seen.append(call)
        if len(seen) == 1:
            return FaultKind.LOST_REPLY
        if len(seen) == 2:
            for _ in range(SETTINGS_WRITERS_MAX):
                update(service, THIRD)
        return None

    rival = service.again(FaultyStore(service.store, OnCalls(meanwhile)))
    with pytest.raises(Unknown, match="read them"):
        update(rival, SECOND)


def test_a_store_that_refuses_says_so_and_one_that_stays_silent_ends_as_unknown():
    service = Service()
    refusing = FaultyStore(service.store, nth("set_if", 0, FaultKind.NOT_APPLIED))
    with pytest.raises(Unavailable):
        update(service.again(refusing), FIRST)
    assert current(service) == []

    def silent(call: PlannedCall) -> FaultKind | None:
        return FaultKind.LOST_REPLY if call.operation == "set_if" else None

    with pytest.raises(Unknown):
        update(service.again(FaultyStore(service.store, OnCalls(silent))), FIRST)
    assert current(service) == [FIRST]


def test_a_writer_that_always_loses_gives_up():
    service = Service()

    def always(call: PlannedCall) -> FaultKind | None:
        if call.operation == "set_if":
            update(service, THIRD)
        return None

    rival = service.again(FaultyStore(service.store, OnCalls(always)))
    with pytest.raises(Exhausted):
        update(rival, SECOND)
    assert current(service) == [THIRD]


def test_damaged_settings_are_told_as_such():
    service = Service()
    place = partition(service.repository.context.instance, Kind.META)
    service.store.put_many([(place, SETTINGS_KEY, b"\x93\x01\x02")])
    with pytest.raises(Corrupt):
        current(service)
    with pytest.raises(Corrupt):
        update(service, FIRST)


def test_lost_settings_are_not_taken_for_settings_that_were_never_made():
    service = Service()
    update(service, FIRST)
    place = partition(service.repository.context.instance, Kind.META)
    service.store.delete(place, SETTINGS_KEY)
    with pytest.raises(Corrupt, match="lost its settings"):
        current(service)
    with pytest.raises(Corrupt, match="lost its settings"):
        update(service, SECOND)


def test_settings_belong_to_their_repository():
    service = Service()
    other = service.repositories.create(CALL, "other")
    update(service, FIRST)
    assert other.settings.get(CALL, [TYPE]) == []
