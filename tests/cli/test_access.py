"""`lochan access` does what its help promises, on a server and on a store."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lochan.client import Client
from tests.cli.shell import Shell
from tests.client.serving import serving

POLICY = {"id": "read-sales", "statements": [{"effect": "allow", "actions": ["read"]}]}


@pytest.fixture(params=["server", "store"])
def admin(
    request: pytest.FixtureRequest, place: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Shell]:
    """Commands of the first user on a server, or of the operator on a store."""
    if request.param == "store":
        shell = Shell("--store", f"rocksdb:{place / 'store'}")
        shell.run("access", "setup")
        yield shell
        return
    with serving("memory:", "other") as url:
        with Client(url) as client:
            secret = client.access.set_up("admin").secret
        monkeypatch.setenv("LOCHAN_TOKEN", secret)
        monkeypatch.setenv("LOCHAN_TOKEN_URI", url)
        yield Shell("--url", url)


def policy_file(place: Path, **changed: Any) -> str:
    path = place / "policy.json"
    path.write_text(json.dumps({**POLICY, **changed}))
    return str(path)


def test_set_up_shows_the_token_once_and_the_next_steps(shell):
    assert "need no credentials" in shell.out("access", "status")
    assert shell.one("access", "status") == {"isSetUp": False, "acceptsOidc": False}
    assert "no name" in shell.out("access", "whoami")
    printed = shell.out("access", "setup", "--user", "root")
    assert printed.count("lochan_") == 1
    assert "lochan login" in printed
    assert "only this once" in printed
    assert "requests need credentials" in shell.out("access", "status")
    again = shell.run("access", "setup", code=2)
    assert "set-up was done before" in again.stderr


def test_set_up_writes_the_token_to_a_file_and_does_not_print_it(shell, place, monkeypatch):
    printed = shell.run("access", "setup", "--token-file", "admin.token").output
    assert "lochan_" not in printed
    assert "admin.token" in printed
    file = place / "admin.token"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    monkeypatch.setenv("LOCHAN_TOKEN_FILE", str(file))
    monkeypatch.setenv("LOCHAN_TOKEN_URI", shell.always[1])
    shown = shell.one("access", "whoami")
    assert shown["name"] == "admin"
    assert "admin" in shell.out("access", "whoami")
    shell.run("access", "setup", "--token-file", "admin.token", code=2)
    assert file.read_text().startswith("lochan_")


def test_a_file_that_exists_prevents_set_up(shell, place):
    (place / "there").write_text("mine")
    printed = shell.run("access", "setup", "--token-file", "there", code=2).stderr
    assert "there cannot be created" in printed
    assert shell.one("access", "status")["isSetUp"] is False


def test_set_up_prints_json_for_programs(shell):
    document = shell.one("access", "setup")
    assert document["token"]["user"] == "admin"
    assert document["secret"].startswith(f"lochan_{document['token']['id']}_")


def test_without_credentials_the_hint_is_to_log_in(shell):
    shell.run("access", "setup")
    refused = shell.run("access", "user", code=10)
    assert "log in with `lochan login" in refused.stderr
    document = json.loads(shell.run("branch", "--json", code=10).stderr)
    assert (document["error"], document["exitCode"]) == ("unauthenticated", 10)


def test_what_is_not_allowed_is_seven_with_a_hint(shell, monkeypatch):
    monkeypatch.setenv("LOCHAN_TOKEN_URI", shell.always[1])
    monkeypatch.setenv("LOCHAN_TOKEN", shell.one("access", "setup")["secret"])
    shell.run("access", "user", "create", "ada")
    hers = shell.one("access", "token", "create", "--user", "ada")["secret"]
    monkeypatch.setenv("LOCHAN_TOKEN", hers)
    assert shell.one("access", "whoami")["name"] == "ada"
    refused = shell.run("access", "user", "create", "eve", code=7)
    assert "lochan access explain" in refused.stderr


def test_users_are_created_listed_shown_and_deleted(admin):
    assert "created the user ada" in admin.out(
        "access", "user", "create", "ada", "--description", "she"
    )
    admin.run("access", "user", "create", "ada", code=3)
    assert [one["id"] for one in admin.lines("access", "user")] == ["ada", "admin"]
    assert "she" in admin.out("access", "user", "list")
    assert "she" in admin.out("access", "user", "show", "ada")
    shown = admin.one("access", "user", "show", "ada")
    assert (shown["user"]["id"], shown["groups"], shown["policies"]) == ("ada", [], [])
    assert "deleted the user ada" in admin.out("access", "user", "delete", "ada")
    admin.run("access", "user", "show", "ada", code=4)
    admin.run("access", "user", "create", "a b", code=2)


def test_groups_have_members(admin):
    admin.run("access", "user", "create", "ada")
    admin.run("access", "group", "create", "analysts")
    assert "ada is now a member" in admin.out("access", "group", "add", "analysts", "ada")
    assert [one["id"] for one in admin.lines("access", "group", "members", "analysts")] == ["ada"]
    assert "analysts" in admin.out("access", "user", "show", "ada")
    assert "analysts" in [one["id"] for one in admin.lines("access", "group")]
    admin.run("access", "group", "remove", "analysts", "ada")
    assert "no members" in admin.out("access", "group", "members", "analysts")
    admin.run("access", "group", "remove", "analysts", "ada", code=4)
    admin.run("access", "group", "delete", "analysts")
    admin.run("access", "group", "members", "analysts", code=4)


def test_policies_are_set_shown_attached_and_deleted(admin, place):
    admin.run("access", "user", "create", "ada")
    printed = admin.out("access", "policy", "set", policy_file(place))
    assert "set the policy read-sales: 1 statement" in printed
    shown = admin.out("access", "policy", "show", "read-sales")
    (place / "shown.json").write_text(shown)
    admin.run("access", "policy", "set", "shown.json")
    assert admin.one("access", "policy", "show", "read-sales")["version"] == 2
    assert "applies to the user ada" in admin.out(
        "access", "policy", "attach", "read-sales", "--user", "ada"
    )
    listed = admin.lines("access", "policy", "list", "--user", "ada")
    assert [one["id"] for one in listed] == ["read-sales"]
    assert "read-sales" in admin.out("access", "user", "show", "ada")
    admin.run("access", "policy", "detach", "read-sales", "--user", "ada")
    assert admin.lines("access", "policy", "list", "--user", "ada") == []
    admin.run("access", "policy", "attach", "read-sales", code=2)
    admin.run("access", "policy", "attach", "read-sales", "--user", "a", "--group", "b", code=2)
    admin.run("access", "policy", "delete", "read-sales")
    admin.run("access", "policy", "show", "read-sales", code=4)


def test_a_policy_is_read_from_standard_input(admin):
    admin.run("access", "policy", "set", "-", stdin=json.dumps(POLICY))
    toml = 'id = "other"\n[[statements]]\neffect = "deny"\nactions = ["commit"]\n'
    admin.run("access", "policy", "set", "-", stdin=toml)
    assert {"other", "read-sales"} <= {one["id"] for one in admin.lines("access", "policy")}


@pytest.mark.parametrize(
    ("changed", "place_of_error"),
    [
        ({"statements": [{"effect": "allow", "actions": ["fly"]}]}, "statement 1"),
        ({"statements": [{"effect": "allow", "actions": "read"}]}, "$.statements[0].actions"),
        ({"statements": [{"effect": "allow", "actions": ["read"], "ref": []}]}, "ref"),
        ({"statement": []}, "statement"),
        ({"id": "a b"}, "a b"),
    ],
)
def test_an_error_in_a_policy_names_its_place(admin, place, changed, place_of_error):
    printed = admin.run("access", "policy", "set", policy_file(place, **changed), code=2).stderr
    assert place_of_error in printed


def test_tokens_are_created_listed_and_deleted(admin, place):
    admin.run("access", "policy", "set", policy_file(place))
    words = ("access", "token", "create", "--user", "admin", "--expires", "30d")
    made = admin.one(*words, "--scope", "read-sales", "--description", "ci")
    token = made["token"]
    assert token["scopes"] == ["read-sales"]
    assert token["expiresAt"] is not None
    assert made["secret"].startswith("lochan_")
    listed = admin.lines("access", "token", "list", "--user", "admin")
    assert token in listed
    assert "secret" not in json.dumps(listed)
    table = admin.out("access", "token", "list", "--user", "admin")
    assert "read-sales" in table
    printed = admin.out(*words, "--token-file", "ci.token")
    assert "lochan_" not in printed
    assert (place / "ci.token").read_text().startswith("lochan_")
    document = admin.one(*words, "--token-file", "other.token")
    assert document["tokenFile"] == "other.token"
    assert "secret" not in document
    whole = admin.run("access", "token", "delete", made["secret"], code=2)
    assert token["id"] in whole.stderr
    assert made["secret"] not in whole.output
    admin.run("access", "token", "delete", token["id"])
    admin.run("access", "token", "delete", token["id"], code=4)
    admin.run(*words[:-1], "soon", code=2)
    admin.run("access", "token", "create", "--user", "nobody", "--token-file", "no", code=4)
    assert not (place / "no").exists()


def test_access_keys_are_created_listed_and_deleted(admin, place):
    made = admin.one("access", "key", "create", "--user", "admin", "--description", "laptop")
    key = made["accessKey"]
    assert key in admin.lines("access", "key", "list", "--user", "admin")
    assert made["secret"] not in admin.out("access", "key", "list", "--user", "admin")
    printed = admin.out("access", "key", "create", "--user", "admin")
    assert "only this once" in printed
    words = ("access", "key", "create", "--user", "admin", "--secret-file", "key.secret")
    assert (place / "key.secret").exists() is False
    printed = admin.out(*words)
    assert (place / "key.secret").read_text().strip() not in printed
    admin.run("access", "key", "delete", key["id"])
    admin.run("access", "key", "delete", key["id"], code=4)


def test_a_command_without_a_user_is_about_the_caller(shell, monkeypatch):
    monkeypatch.setenv("LOCHAN_TOKEN_URI", shell.always[1])
    monkeypatch.setenv("LOCHAN_TOKEN", shell.one("access", "setup")["secret"])
    assert [one["user"] for one in shell.lines("access", "token")] == ["admin"]
    assert shell.one("access", "token", "create")["token"]["user"] == "admin"


def test_on_a_store_there_is_no_caller(local):
    local.run("access", "setup")
    printed = local.run("access", "token", "list", code=2).stderr
    assert "--user" in printed
    assert len(local.lines("access", "token", "list", "--user", "admin")) == 1


def test_a_lost_administrator_gets_a_new_token_from_the_store(local):
    local.run("access", "setup")
    (token,) = local.lines("access", "token", "list", "--user", "admin")
    local.run("access", "token", "delete", token["id"])
    local.run("access", "token", "create", "--user", "admin")


def test_a_decision_is_explained(admin, place):
    admin.run("access", "user", "create", "ada")
    sales = {"effect": "allow", "actions": ["read"], "keys": ["sales.*"]}
    admin.run("access", "policy", "set", policy_file(place, statements=[sales]))
    admin.run("access", "policy", "attach", "read-sales", "--user", "ada")
    explain = ("access", "explain", "ada", "read_content")
    printed = admin.out(*explain, "main:sales.orders")
    assert printed.startswith("allowed")
    assert "the policy read-sales, statement 1 (user:ada)" in printed
    assert admin.one(*explain, "other//main:sales.orders")["allowed"] is True
    assert admin.out(*explain, "main:hr.pay").startswith("denied")
    admin.run(*explain, "main:hr.pay", "--exit-code", code=7)
    admin.run(*explain, "main:sales.orders", "--exit-code", code=0)
    assert admin.one("access", "explain", "admin", "manage_access")["allowed"] is True
    assert admin.one("access", "explain", "ada", "manage_access")["allowed"] is False
    admin.run("access", "explain", "ada", "fly", code=2)
    admin.run("access", "explain", "ada", "read", ":sales", code=2)
    admin.run("access", "explain", "nobody", "read", "main", code=4)


def test_a_protected_branch_is_changed_by_merges_only(admin, place):
    admin.run("access", "user", "create", "ada")
    writes = {"effect": "allow", "actions": ["read", "write"]}
    admin.run("access", "policy", "set", policy_file(place, statements=[writes]))
    admin.run("access", "policy", "attach", "read-sales", "--user", "ada")
    assert admin.one("access", "explain", "ada", "commit", "main")["allowed"] is True
    assert "protect-main" in admin.out("access", "protect", "main")
    admin.run("access", "protect", "main")
    for action in ("commit", "assign_reference", "delete_reference"):
        shown = admin.one("access", "explain", "ada", action, "main")
        assert (shown["allowed"], shown["policy"]) == (False, "protect-main")
        assert admin.one("access", "explain", "admin", action, "main")["allowed"] is False
        assert admin.one("access", "explain", "ada", action, "dev")["allowed"] is True
        assert admin.one("access", "explain", "ada", action, "other//main")["allowed"] is True
    assert admin.one("access", "explain", "ada", "merge", "main")["allowed"] is True
    assert "no longer protected" in admin.out("access", "unprotect", "main")
    assert admin.one("access", "explain", "ada", "commit", "main")["allowed"] is True
    admin.run("access", "unprotect", "main", code=4)
    admin.run("access", "protect", "-", code=2)


def test_a_policy_of_another_content_is_not_replaced_by_protection(admin, place):
    admin.run("access", "policy", "set", policy_file(place, id="protect-main"))
    printed = admin.run("access", "protect", "main", code=3).stderr
    assert "protect-main" in printed


def test_the_key_is_rotated(admin):
    assert admin.one("access", "rotate-key") == {"resealed": 0}
    assert "sealed 0 secrets" in admin.out("access", "rotate-key")


def test_a_protected_branch_refuses_commits_over_http(shell, monkeypatch):
    shell.put("orders", "s3://1")
    monkeypatch.setenv("LOCHAN_TOKEN_URI", shell.always[1])
    monkeypatch.setenv("LOCHAN_TOKEN", shell.one("access", "setup")["secret"])
    shell.run("branch", "create", "dev")
    shell.run("access", "protect", "main")
    refused = shell.run("content", "put", "orders", "--location", "s3://2", code=7)
    assert "hint" in refused.stderr
    shell.put("orders", "s3://2", "dev")
    shell.run("merge", "dev")
    assert shell.location("orders") == "s3://2"
    shell.run("branch", "assign", "main", "main~1", code=7)
