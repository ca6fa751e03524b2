"""What policies allow: deny wins, scopes limit, keys and conditions, and what is not understood."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lochan.access.policy import Action, Rights
from lochan.access.rights import (
    OPEN_RIGHTS,
    AttachedPolicy,
    check_policy,
    compile_rights,
    explain,
)
from lochan.base.errors import Invalid, TooLarge
from lochan.base.keys import file_key, table_key
from lochan.base.limits.policies import (
    POLICY_BYTES_MAX,
    POLICY_STATEMENTS_MAX,
    RIGHTS_PLANS_MAX,
    RIGHTS_REFERENCES_MAX,
    STATEMENT_ITEMS_MAX,
)
from lochan.model.access import AccessPolicy, Statement
from tests.access.plain_model import policy

A = Action
R = "default"


def allow(*actions: str, **more: Any) -> Statement:
    return Statement(effect="allow", actions=actions, **more)


def deny(*actions: str, **more: Any) -> Statement:
    return Statement(effect="deny", actions=actions, **more)


def rights(*statements: Statement, scopes: list[Statement] | None = None, **more: Any) -> Rights:
    found = [AttachedPolicy(policy(list(statements)), "user:alice")] if statements else []
    limits = None if scopes is None else [policy(scopes)] if scopes else []
    return compile_rights(found, more.get("name", "alice"), more.get("roles", ()), limits)


def key(text: str) -> bytes:
    return bytes(table_key(text.split(".")))


READ = allow("read")
WRITE = allow("read", "write")


def test_without_a_statement_nothing_is_allowed():
    mine = rights()
    assert not any(mine.allows(action, R, "main") for action in Action)
    assert not any(mine.allows(action, R) for action in Action)
    assert not mine.sees(R)


def test_open_rights_allow_everything():
    assert all(OPEN_RIGHTS.allows(action, R, "main", [key("a")]) for action in Action)
    assert OPEN_RIGHTS.key_right(A.READ_CONTENT, R, None) is None
    assert OPEN_RIGHTS.sees("anything")


def test_denying_wins_whatever_the_order():
    for mine in (
        rights(WRITE, deny("commit", references=("main",))),
        rights(deny("commit", references=("main",)), WRITE),
    ):
        assert not mine.allows(A.COMMIT, R, "main")
        assert mine.allows(A.COMMIT, R, "main2")


def test_a_protected_branch_takes_merges_only():
    protection = deny("commit", "assign_reference", "delete_reference", references=("main",))
    mine = rights(allow("*"), protection)
    assert mine.allows(A.MERGE, R, "main")
    for action in (A.COMMIT, A.ASSIGN_REFERENCE, A.DELETE_REFERENCE):
        assert not mine.allows(action, R, "main")
        assert mine.allows(action, R, "dev")


def test_prefixes_of_references_end_at_a_separator():
    mine = rights(allow("read", references=("dev/*",)))
    assert mine.allows(A.VIEW_REFERENCE, R, "dev/x")
    assert not mine.allows(A.VIEW_REFERENCE, R, "dev2/x")
    assert not mine.allows(A.VIEW_REFERENCE, R, "dev")


def test_an_action_in_a_reference_needs_the_right_to_view_it():
    mine = rights(allow("read_content", "commit", "create_reference"))
    assert not mine.allows(A.READ_CONTENT, R, "main")
    assert not mine.allows(A.COMMIT, R, "main")
    assert mine.allows(A.CREATE_REFERENCE, R, "main")


def test_rights_on_keys_are_sets_of_keys():
    mine = rights(allow("read", keys=("sales.*", "top")), deny("read", keys=("sales.hr.*",)))
    right = mine.key_right(A.READ_CONTENT, R, "main")
    assert right is not None
    assert [right.covers(key(text)) for text in ("sales.a", "top", "sales.hr")] == [True] * 3
    assert [right.covers(key(text)) for text in ("sales.hr.x", "sales", "sales2.a")] == [False] * 3
    assert not right.covers(bytes(file_key("sales.a")))
    assert mine.allows(A.READ_CONTENT, R, "main", [key("top"), key("sales.a")])
    assert not mine.allows(A.READ_CONTENT, R, "main", [key("top"), key("sales.hr.x")])


def test_an_action_on_keys_without_any_is_allowed_for_some_key():
    assert rights(allow("read", keys=("a.*",))).allows(A.READ_CONTENT, R, "main")
    mine = rights(allow("read", keys=("a.*",)), deny("read_content", keys=("a.*", "b")))
    assert not mine.allows(A.READ_CONTENT, R, "main")
    assert mine.allows(A.READ_ENTRIES, R, "main")


def test_rights_that_cover_the_same_keys_compare_equal():
    mine = rights(
        allow("read", references=("main",), keys=("a.*", "b")),
        allow("read", references=("dev",), keys=("b",)),
        allow("read", references=("dev",), keys=("a.b.*", "a.*")),
        allow("read", references=("x",), keys=("a.*",)),
        allow("read", references=("y",)),
        deny("read", references=("y",), keys=("c",)),
    )
    rights_of = {name: mine.key_right(A.READ_CONTENT, R, name) for name in ("main", "dev", "x")}
    assert rights_of["main"] == rights_of["dev"]
    assert hash(rights_of["main"]) == hash(rights_of["dev"])
    assert rights_of["main"] != rights_of["x"]
    assert mine.key_right(A.READ_CONTENT, R, "y") is not None
    assert mine.key_right(A.READ_CONTENT, R, "none") == mine.key_right(A.READ_LOG, R, "none")


def test_conditions_on_keys_compare_equal_if_they_are_the_same():
    rule = "path.startsWith('a.')"
    mine = rights(
        allow("read", references=("main", "dev"), rule=rule),
        allow("read", references=("x",), rule=f"{rule} && ref == 'x'"),
        allow("read", references=("y",), rule=f"{rule} && ref == 'x'"),
        allow("view_reference"),
    )
    assert mine.key_right(A.READ_CONTENT, R, "main") == mine.key_right(A.READ_CONTENT, R, "dev")
    by_name = [mine.key_right(A.READ_CONTENT, R, name) for name in ("x", "y")]
    assert by_name[0] != by_name[1]
    assert hash(by_name[0]) == hash(mine.key_right(A.READ_CONTENT, R, "x"))


def test_a_statement_for_some_keys_gives_no_right_over_a_whole_reference_or_server():
    mine = rights(allow("*", keys=("sales.*",)))
    for action in (A.VIEW_REFERENCE, A.COMMIT, A.MERGE, A.READ_LOG, A.CREATE_REFERENCE):
        assert mine.allows(action, R, "main")
    assert not mine.allows(A.DELETE_REFERENCE, R, "main")
    assert mine.allows(A.LIST_REPOSITORIES, "")
    for action in (A.EXCHANGE_OBJECTS, A.WRITE_SETTINGS, A.READ_SETTINGS, A.CREATE_REPOSITORY):
        assert not mine.allows(action, R)
    for action in (A.READ_ACCESS, A.MANAGE_ACCESS, A.MANAGE_OWN_TOKENS):
        assert not mine.allows(action, "")


def test_denied_keys_do_not_deny_commits_but_deletions_of_their_reference():
    mine = rights(allow("*"), deny("write", keys=("sales.hr.*",)))
    assert mine.allows(A.COMMIT, R, "main")
    assert not mine.allows(A.DELETE_REFERENCE, R, "main")


def test_denying_a_reference_does_not_deny_the_management_of_access():
    mine = rights(allow("*"), deny("*", references=("secret/*",)))
    assert mine.allows(A.MANAGE_ACCESS, "")
    assert mine.allows(A.WRITE_SETTINGS, R)
    assert not mine.allows(A.EXCHANGE_OBJECTS, R), "objects of secret references are among them"
    assert not rights(allow("*"), deny("*")).allows(A.MANAGE_ACCESS, "")


def test_a_repository_gives_no_right_over_the_server():
    mine = rights(allow("*", repositories=(R,)))
    assert mine.allows(A.WRITE_SETTINGS, R)
    assert not mine.allows(A.MANAGE_ACCESS, "")
    assert not mine.allows(A.WRITE_SETTINGS, f"{R}2")
    assert mine.allows(A.LIST_REPOSITORIES, ""), "of which those are listed that are seen"
    assert not rights(mine_denied := deny("read"), READ).allows(A.LIST_REPOSITORIES, ""), (
        mine_denied
    )


def test_by_hash_only_rights_on_all_references_count():
    assert rights(READ).allows(A.READ_CONTENT, R, None)
    mine = rights(allow("read", references=("main", "dev/*")))
    assert mine.allows(A.READ_CONTENT, R, "main")
    assert not mine.allows(A.READ_CONTENT, R, None)


def test_what_is_denied_in_one_reference_is_denied_by_hash():
    mine = rights(READ, deny("read_content", references=("secret/*",), keys=("hr.*",)))
    right = mine.key_right(A.READ_CONTENT, R, None)
    assert right is not None
    assert right.covers(key("sales.a"))
    assert not right.covers(key("hr.a"))
    assert mine.key_right(A.READ_CONTENT, R, "main") is None
    hidden = rights(READ, deny("view_reference", references=("secret/*",)))
    assert not hidden.allows(A.READ_CONTENT, R, None)
    assert not hidden.allows(A.READ_LOG, R, None)


def test_conditions_on_the_reference_neither_allow_by_hash_nor_stop_denying():
    assert not rights(allow("read", rule="ref != 'x'")).allows(A.READ_CONTENT, R, None)
    mine = rights(READ, deny("read", rule="ref == 'secret'"))
    assert mine.allows(A.READ_CONTENT, R, "main")
    assert not mine.allows(A.READ_CONTENT, R, "secret")
    assert not mine.allows(A.READ_CONTENT, R, None)


def test_objects_are_exchanged_only_by_callers_that_may_read_everything():
    assert rights(allow("*")).allows(A.EXCHANGE_OBJECTS, R)
    assert rights(READ, allow("exchange_objects")).allows(A.EXCHANGE_OBJECTS, R)
    assert not rights(allow("exchange_objects")).allows(A.EXCHANGE_OBJECTS, R)
    mine = rights(allow("*"), deny("read_content", keys=("hr.*",), references=("main",)))
    assert not mine.allows(A.EXCHANGE_OBJECTS, R)


def test_scopes_limit_and_never_add():
    mine = rights(WRITE, scopes=[allow("read", references=("main",), keys=("a.*",))])
    assert mine.allows(A.READ_CONTENT, R, "main", [key("a.b")])
    assert not mine.allows(A.READ_CONTENT, R, "main", [key("b")])
    assert not mine.allows(A.READ_CONTENT, R, "dev")
    assert not mine.allows(A.COMMIT, R, "main")
    assert not rights(READ, scopes=[allow("*")]).allows(A.COMMIT, R, "main")
    denied = rights(READ, scopes=[READ, deny("read_content", keys=("a.*",))])
    assert not denied.allows(A.READ_CONTENT, R, "main", [key("a.b")])


def test_a_token_whose_scopes_are_gone_allows_nothing():
    assert not rights(allow("*"), scopes=[]).allows(A.VIEW_REFERENCE, R, "main")


def test_a_condition_is_on_the_names_of_the_caller():
    mine = allow("read", rule="role == 'alice' || 'staff' in roles")
    assert rights(mine).allows(A.READ_CONTENT, R, "main")
    assert not rights(mine, name="bob").allows(A.READ_CONTENT, R, "main")
    assert rights(mine, name="bob", roles=("staff",)).allows(A.READ_CONTENT, R, "main")


def test_a_condition_that_fails_does_not_allow_and_does_deny():
    fails = "roles[7] == 'x'"
    assert not rights(allow("read", rule=fails)).allows(A.READ_CONTENT, R, "main")
    assert not rights(READ, deny("read", rule=fails)).allows(A.READ_CONTENT, R, "main")
    on_keys = "int(path) > 5"
    assert not rights(allow("view_reference"), allow("read_content", rule=on_keys)).allows(
        A.READ_CONTENT, R, "main", [key("a")]
    )
    mine = rights(READ, deny("read_content", rule=on_keys))
    assert not mine.allows(A.READ_CONTENT, R, "main", [key("a")])
    assert mine.allows(A.READ_CONTENT, R, "main", [key("3")])


def test_every_check_of_nessie_that_an_action_stands_for_has_to_be_allowed():
    view = allow("view_reference")
    creating = allow("write_content", rule="op == 'CREATE_ENTITY'")
    updating = allow("write_content", rule="op == 'UPDATE_ENTITY'")
    assert not rights(view, creating).allows(A.WRITE_CONTENT, R, "main")
    assert rights(view, creating, updating).allows(A.WRITE_CONTENT, R, "main")
    mine = rights(view, allow("write_content"), deny("write", rule="op == 'CREATE_ENTITY'"))
    assert not mine.allows(A.WRITE_CONTENT, R, "main")


def test_a_repository_is_seen_by_any_right_in_it():
    mine = rights(
        allow("read", repositories=("a", "team/*"), references=("dev/*",)),
        deny("*", repositories=("team/x",)),
        allow("manage_own_tokens"),
        allow("create_repository", repositories=("new/*",)),
    )
    assert [mine.sees(name) for name in ("a", "team/y")] == [True, True]
    assert [mine.sees(name) for name in ("b", "team/x", "team", "new/x")] == [False] * 4
    assert not rights(READ, deny("view_reference", "read_settings", "list_repositories")).sees(R)
    by_condition = rights(allow("view_reference", rule="ref == 'main'", repositories=("a",)))
    assert [by_condition.sees(name) for name in ("a", "b")] == [True, False]


def test_names_with_marks_of_patterns_are_only_names():
    mine = rights(allow("read", references=("main",), repositories=(R,)))
    for name in (
        "*",
        "main*",
        "main\0",
        "main\0x",
        "main/*",
        "",
        "\ud800",
        "m",
        "maim",
        "main\x01",
    ):
        assert not mine.allows(A.VIEW_REFERENCE, R, name)
        assert not mine.allows(A.VIEW_REFERENCE, name, "main")
    everywhere = rights(allow("read", rule="ref == 'x'"))
    assert not everywhere.allows(A.VIEW_REFERENCE, R, "\ud800")
    assert not everywhere.allows(A.VIEW_REFERENCE, R, "' || true || '")


def test_what_is_kept_in_memory_has_bounds_and_stays_right():
    mine = rights(
        allow("read", references=("dev/*",)), allow("view_reference", rule="ref == 'main'")
    )
    for number in range(RIGHTS_REFERENCES_MAX + RIGHTS_PLANS_MAX + 10):
        assert mine.allows(A.VIEW_REFERENCE, R, f"dev/{number}")
        assert not mine.allows(A.VIEW_REFERENCE, R, f"x/{number}")
        assert mine.sees(f"repository-{number}")
        assert mine.allows(A.READ_CONTENT, f"repository-{number}", "dev/x")
    plans = mine._plans  # type: ignore[attr-defined]
    assert len(plans) <= RIGHTS_PLANS_MAX
    assert all(len(plan.by_name or ()) <= RIGHTS_REFERENCES_MAX for plan in plans.values())
    assert len(mine._seen) <= RIGHTS_PLANS_MAX  # type: ignore[attr-defined]


def test_decisions_are_computed_once_for_references_that_no_pattern_distinguishes():
    mine = rights(allow("read", references=("dev/*", "main")))
    for number in range(50):
        mine.allows(A.READ_CONTENT, R, f"dev/{number}")
        mine.allows(A.READ_CONTENT, R, f"other/{number}")
    assert mine.computed <= 6  # type: ignore[attr-defined]


def test_threads_share_rights():
    statements = [
        allow("read", references=(f"dev/{number}/*",), rule=f"path.startsWith('t{number % 3}')")
        for number in range(20)
    ]
    places = [(f"dev/{number % 25}/x", key(f"t{number % 4}.a")) for number in range(100)]
    alone = rights(*statements, allow("view_reference"))
    expected = [alone.allows(A.READ_CONTENT, R, name, [raw]) for name, raw in places]
    shared = rights(*statements, allow("view_reference"))

    def run(_: int) -> list[bool]:
        return [shared.allows(A.READ_CONTENT, R, name, [raw]) for name, raw in places]

    with ThreadPoolExecutor(4) as pool:
        assert all(found == expected for found in pool.map(run, range(8)))


@pytest.mark.parametrize(
    "bad",
    [
        {"actions": ("new_action",)},
        {"keys": ("a*b",)},
        {"references": ("x*",)},
        {"repositories": ()},
        {"rule": "contentType == 'x'"},
        {"actions": ()},
        {"keys": (), "paths": ()},
    ],
    ids=str,
)
def test_a_stored_statement_that_is_not_understood_allows_nothing_and_denies_all(bad):
    fields = {"actions": ("*",), **bad}
    assert not rights(Statement(effect="allow", **fields)).allows(A.VIEW_REFERENCE, R, "main")
    mine = rights(allow("*"), Statement(effect="deny", **fields))
    assert not any(mine.allows(action, R, "main") for action in Action)
    assert not mine.sees(R)
    with pytest.raises(Invalid, match="statement 2 of the policy"):
        check_policy(policy([READ, Statement(effect="allow", **fields)]))


def test_a_policy_that_is_understood_passes_its_check():
    check_policy(
        policy([allow("fs:Read*", "READ_ENTRIES", "write", keys=("a.*",), rule="role == 'x'")])
    )


@pytest.mark.parametrize(
    ("statements", "error"),
    [
        ([], Invalid),
        ([READ] * (POLICY_STATEMENTS_MAX + 1), Invalid),
        ([allow(*["read"] * (STATEMENT_ITEMS_MAX + 1))], Invalid),
        ([allow("read", paths=("x" * 1_000,) * 66)], TooLarge),
        ([Statement(effect="permit", actions=("read",))], Invalid),  # type: ignore[arg-type]
    ],
)
def test_a_policy_over_a_limit_is_refused(statements, error):
    with pytest.raises(error):
        check_policy(policy(statements))
    assert POLICY_BYTES_MAX < 66_000


def explained(statements: list[Statement], *place: Any) -> tuple[bool, str, int | None, str]:
    policies = [
        AttachedPolicy(AccessPolicy("first", tuple(statements)), "user:alice"),
        AttachedPolicy(policy([deny("commit", references=("main",))], "protect"), "group:everyone"),
    ]
    found = explain(policies, "alice", ("everyone",), *place)
    return found.allowed, found.policy, found.statement, found.via


def test_an_explanation_names_the_policy_and_how_it_is_attached():
    mine = [READ, allow("write", keys=("sales.*",))]
    assert explained(mine, A.READ_CONTENT, R, "main", key("a")) == (True, "first", 1, "user:alice")
    assert explained(mine, A.WRITE_CONTENT, R, "x", key("sales.a"))[:3] == (True, "first", 2)
    assert explained(mine, A.WRITE_CONTENT, R, "x", key("b")) == (False, "", None, "")
    assert explained(mine, A.COMMIT, R, "main", None) == (False, "protect", 1, "group:everyone")
    assert explained(mine, A.MANAGE_ACCESS, "", None, None)[0] is False


def test_an_explanation_names_the_right_that_is_missing():
    mine = [AttachedPolicy(policy([allow("commit"), deny("view_reference")]), "user:alice")]
    found = explain(mine, "alice", (), A.COMMIT, R, "main", None)
    assert found.reason == "it needs view_reference: statement 2 of policy 'p' denies it"
    found = explain([], "alice", (), A.EXCHANGE_OBJECTS, R, None, None)
    assert found.reason == "it needs view_reference: no statement allows it"
    some = [AttachedPolicy(policy([allow("*"), deny("read_log")]), "user:alice")]
    found = explain(some, "alice", (), A.EXCHANGE_OBJECTS, R, None, None)
    assert found.reason == "it needs read_log: statement 2 of policy 'p' denies it"
