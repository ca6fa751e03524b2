"""Every operation of the API declares what its caller needs."""

from __future__ import annotations

import pytest

from lochan.access.policy import Action
from lochan.wire.operations_access import OPERATIONS_ACCESS
from lochan.wire.operations_events import OPERATIONS_EVENTS
from lochan.wire.operations_files import OPERATIONS_FILES
from lochan.wire.operations_store import OPERATIONS_STORE
from lochan.wire.operations_v1 import OPERATIONS_V1
from lochan.wire.operations_v2 import OPERATIONS_V2

ALL = (
    *OPERATIONS_V1,
    *OPERATIONS_V2,
    *OPERATIONS_ACCESS,
    *OPERATIONS_FILES,
    *OPERATIONS_EVENTS,
    *OPERATIONS_STORE,
)
OPERATIONS = {each.id: each for each in ALL}


def test_no_two_operations_have_one_name():
    assert len(OPERATIONS) == len(ALL)


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_names_its_action_or_states_that_it_needs_none(name):
    operation = OPERATIONS[name]
    assert (operation.action is not None) == (operation.needs == "action")


def test_only_these_operations_are_served_without_credentials():
    served = {name for name, each in OPERATIONS.items() if each.needs == "nothing"}
    assert served == {"getAccessStatus", "setUpAccess", "login"}


def test_only_these_operations_need_no_right():
    served = {name for name, each in OPERATIONS.items() if each.needs == "credentials"}
    assert served == {"getIdentity"}


def test_writes_need_a_right_to_write():
    reads = {
        Action.VIEW_REFERENCE,
        Action.READ_ENTRIES,
        Action.READ_CONTENT,
        Action.READ_LOG,
        Action.READ_SETTINGS,
        Action.READ_ACCESS,
        Action.LIST_REPOSITORIES,
    }
    # These read what their bodies name.
    questions = {"getMultipleContentsV1", "getMultipleContentsV2", "explain"}
    wrong = {
        name
        for name, each in OPERATIONS.items()
        if each.action in reads and each.method != "GET" and name not in questions
    }
    assert wrong == set()
