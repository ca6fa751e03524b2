"""What people write about access: resources, files of policies, files for secrets."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from lochan.base.errors import Invalid, LochanError, Unavailable
from lochan.cli.access.policies import protection
from lochan.cli.access.policy_files import read_policy_file
from lochan.cli.access.resources import NamedResource, parse_resource
from lochan.cli.access.secret_files import secret_file
from lochan.model.access import Statement


@pytest.mark.parametrize(
    ("text", "resource"),
    [
        ("main", NamedResource("here", "main")),
        ("feature/one", NamedResource("here", "feature/one")),
        ("main:sales.orders", NamedResource("here", "main", ("sales", "orders"))),
        ('main:sales."v1.orders"', NamedResource("here", "main", ("sales", "v1.orders"))),
        ('main:"a:b"."c//d"', NamedResource("here", "main", ("a:b", "c//d"))),
        ("main:a/b", NamedResource("here", "main", ("a/b",))),
        ("main:/raw/2026/a", NamedResource("here", "main", path="raw/2026/a")),
        ("main:/", NamedResource("here", "main", path="")),
        ("lake//main", NamedResource("lake", "main")),
        ("lake//feature/one:a", NamedResource("lake", "feature/one", ("a",))),
        ("team/lake//main", NamedResource("team/lake", "main")),
        ("lake//", NamedResource("lake")),
        ("*:sales.orders", NamedResource("here", "*", ("sales", "orders"))),
    ],
)
def test_a_text_names_one_resource(text, resource):
    assert parse_resource(text, "here") == resource


@pytest.mark.parametrize("text", ["//main", ":sales", "lake//:sales", "main:", "main:a..b", "//"])
def test_a_text_that_names_no_resource_is_refused(text):
    with pytest.raises(LochanError, match=r"not a (resource|key)"):
        parse_resource(text, "here")


POLICIES = {
    "policy.json": """{"id": "sales", "description": "d",
        "statements": [{"effect": "allow", "actions": ["read"], "keys": ["sales.*"]}]}""",
    "policy.toml": """
        id = "sales"
        description = "d"

        [[statements]]
        effect = "allow"
        actions = ["read"]
        keys = ["sales.*"]
        """,
}


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_is_read_from_json_and_from_toml(name, tmp_path):
    path = tmp_path / name
    path.write_text(POLICIES[name])
    policy = read_policy_file(path)
    assert (policy.id, policy.description) == ("sales", "d")
    assert policy.statements == (Statement(effect="allow", actions=("read",), keys=("sales.*",)),)


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("a.json", '{"id": "a",\n "statements": [}', "line 2 column 17"),
        ("a.json", '{"id": "a", "id": "b", "statements": []}', "'id' twice"),
        (
            "a.json",
            '{"id": "a", "statements": [{"effect": "allow", "effect": "deny", "actions": []}]}',
            "'effect' twice",
        ),
        ("a.json", '{"id": "a", "statements": [{"effect": "allow"}]}', r"\$\.statements\[0\]"),
        ("a.json", '{"id": "a", "statements": [], "more": 1}', "more"),
        ("a.json", '{"statements": []}', "id"),
        ("a.toml", 'id = "a"\nid = "b"\n', "line 2"),
        ("a.toml", 'id = "a"\nstatements = "all"\n', r"\$\.statements"),
        ("a.toml", 'id = "a"\n[[statements]]\neffect = "no"\nactions = []\n', r"\[0\]\.effect"),
        ("a.txt", "nothing = ", "line 1|end of document"),
        ("a.json", "[]", "object"),
        ("a.json", '{"id": "a", "statements": ' + "[" * 100_000, "policy"),
        ("a.json", '{"id": "\udcff"}', "utf-8"),
    ],
)
def test_an_error_in_a_file_names_the_file_and_the_place(name, text, place, tmp_path):
    path = tmp_path / name
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(Invalid, match=place) as refusal:
        read_policy_file(path)
    assert str(path) in refusal.value.message


def test_a_file_that_is_missing_is_named(tmp_path):
    with pytest.raises(Invalid, match="missing"):
        read_policy_file(tmp_path / "missing.json")


def test_a_secret_is_written_for_its_owner_only(tmp_path):
    path = tmp_path / "token"
    mask = os.umask(0)
    try:
        with secret_file(path) as write:
            write("lochan_secret")
    finally:
        os.umask(mask)
    assert path.read_text() == "lochan_secret\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_exists_or_is_a_link_is_not_written_to(tmp_path):
    there, link = tmp_path / "there", tmp_path / "link"
    there.write_text("mine")
    link.symlink_to(tmp_path / "elsewhere")
    for path in (there, link, tmp_path / "no" / "where"):
        with pytest.raises(Invalid, match="cannot be created"), secret_file(path) as write:
            write("secret")
    assert there.read_text() == "mine"
    assert not (tmp_path / "elsewhere").exists()


def test_no_file_is_left_if_there_is_no_secret(tmp_path):
    path = tmp_path / "token"
    with pytest.raises(Unavailable), secret_file(path):
        raise Unavailable("no server")
    assert not path.exists()


def test_without_a_path_nothing_is_written(place: Path):
    with secret_file(None) as write:
        write("secret")
    assert list(place.iterdir()) == []


def test_branches_that_differ_are_protected_by_policies_that_differ():
    hashed = protection("default", "a/b").id.removeprefix("protect-")
    places = [
        ("default", "main"),
        ("other", "main"),
        ("default", "a/b"),
        ("default", "a-b"),
        ("default", "a.b"),
        ("default", "a_b"),
        ("default", hashed),
        ("a", "b-c"),
        ("a-b", "c"),
        ("default", "x" * 200),
        ("default", "x" * 199 + "y"),
    ]
    policies = [protection(*place) for place in places]
    assert policies[0].id == "protect-main"
    assert len({each.id for each in policies}) == len(places)
    for (repository, branch), policy in zip(places, policies, strict=True):
        assert len(policy.id) <= 128
        (statement,) = policy.statements
        assert statement.effect == "deny"
        assert (statement.repositories, statement.references) == ((repository,), (branch,))


@pytest.mark.parametrize("branch", ["-", "*", "dev/*", "main@1234", "", "a b"])
def test_only_a_branch_is_protected(branch):
    with pytest.raises(Invalid):
        protection("default", branch)
