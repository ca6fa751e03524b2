"""Names of actions in policies: every action has its names, and unknown names are refused."""

from __future__ import annotations

import pytest

from lochan.access.actions import CHECKS, GROUPS, LAKEFS, NESSIE, READING, WRITING, actions_of
from lochan.access.policy import KEYED_ACTIONS, REFERENCE_ACTIONS, Action
from lochan.access.rights import AttachedPolicy, compile_rights
from lochan.base.errors import Invalid
from lochan.model.access import AccessPolicy, Statement

NESSIE_CHECKS = {
    *("VIEW_REFERENCE", "CREATE_REFERENCE", "ASSIGN_REFERENCE_TO_HASH", "DELETE_REFERENCE"),
    *("READ_ENTRIES", "READ_CONTENT_KEY", "LIST_COMMIT_LOG", "COMMIT_CHANGE_AGAINST_REFERENCE"),
    *("READ_ENTITY_VALUE", "CREATE_ENTITY", "UPDATE_ENTITY", "DELETE_ENTITY"),
    *("READ_REPOSITORY_CONFIG", "UPDATE_REPOSITORY_CONFIG"),
}
LAKEFS_ACTIONS = (
    *("ReadObject", "WriteObject", "DeleteObject", "ListObjects", "CreateCommit", "ReadCommit"),
    *("CreateBranch", "DeleteBranch", "RevertBranch", "ListBranches", "ReadBranch", "CreateTag"),
    *("DeleteTag", "ListTags", "ReadTag", "ReadRepository", "ListRepositories"),
    "CreateRepository",
)


@pytest.mark.parametrize("action", list(Action))
def test_every_action_is_named_by_its_value_and_checked_by_a_name(action):
    assert actions_of(action.value) == {action}
    assert action in actions_of("admin")
    assert action in actions_of("*")
    assert CHECKS[action]


def test_every_action_is_read_or_written_or_left_to_administrators():
    assert actions_of("read") == READING
    assert actions_of("write") == WRITING
    assert not READING & WRITING
    assert set(Action) - READING - WRITING == {
        Action.IMPORT_FILES,
        Action.WRITE_SETTINGS,
        Action.EXCHANGE_OBJECTS,
        Action.CREATE_REPOSITORY,
        Action.DELETE_REPOSITORY,
        Action.READ_ACCESS,
        Action.MANAGE_ACCESS,
        Action.MANAGE_OWN_TOKENS,
        Action.READ_METRICS,
    }
    assert KEYED_ACTIONS < REFERENCE_ACTIONS < READING | WRITING | {Action.IMPORT_FILES}


def test_the_check_types_of_nessie_are_known():
    assert set(NESSIE) == set(NESSIE_CHECKS)
    for name in NESSIE_CHECKS:
        for action in actions_of(name):
            assert name in CHECKS[action]


def test_checks_of_conditions_are_those_of_nessie_where_there_are_any():
    assert CHECKS[Action.WRITE_CONTENT] == ("CREATE_ENTITY", "UPDATE_ENTITY")
    assert CHECKS[Action.READ_ENTRIES] == ("READ_ENTRIES", "READ_CONTENT_KEY")
    assert CHECKS[Action.MERGE] == CHECKS[Action.COMMIT] == ("COMMIT_CHANGE_AGAINST_REFERENCE",)
    assert CHECKS[Action.MANAGE_ACCESS] == ("MANAGE_ACCESS",)
    assert {name for names in CHECKS.values() for name in names} >= set(NESSIE_CHECKS)


@pytest.mark.parametrize("name", LAKEFS_ACTIONS)
def test_the_actions_of_lakefs_are_known(name):
    assert actions_of(f"fs:{name}") == LAKEFS[f"fs:{name}"]


def test_names_of_lakefs_for_tags_and_for_branches_mean_the_same():
    """A right is on the name of a reference; docs/security.md states it."""
    for verb in ("Create", "Delete", "Read"):
        assert actions_of(f"fs:{verb}Tag") == actions_of(f"fs:{verb}Branch")
    assert actions_of("fs:ListTags") == actions_of("fs:ListBranches")
    allow = Statement(effect="allow", actions=("fs:CreateTag",), references=("tags/*",))
    policy = AttachedPolicy(AccessPolicy("p", (allow,)), "user:ada")
    rights = compile_rights([policy], "ada", ())
    assert rights.allows(Action.CREATE_REFERENCE, "r", "tags/one")
    assert not rights.allows(Action.CREATE_REFERENCE, "r", "one")


def test_a_beginning_of_lakefs_names_means_all_of_them():
    assert actions_of("fs:Read*") == {
        *(Action.READ_CONTENT, Action.READ_LOG, Action.VIEW_REFERENCE, Action.READ_SETTINGS)
    }
    assert actions_of("auth:*") == {
        *(Action.READ_ACCESS, Action.MANAGE_ACCESS, Action.MANAGE_OWN_TOKENS)
    }
    assert Action.MANAGE_ACCESS not in actions_of("fs:*")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "commits",
        "COMMIT",
        "fs:",
        "fs",
        "f*",
        "fs:Nothing*",
        "rea*",
        "**",
        "fs:*Object",
        "read ",
    ],
)
def test_an_unknown_name_is_refused_with_the_known_ones(name):
    with pytest.raises(Invalid, match="there is no action") as caught:
        actions_of(name)
    assert "merge" in caught.value.message
    assert all(group in caught.value.message for group in GROUPS)
