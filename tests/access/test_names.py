"""Ids of users, groups and policies: a text that is none becomes part of no key."""

from __future__ import annotations

import pytest

from lochan.base.errors import Invalid
from tests.access.bench import DirectoryBench, policy


@pytest.fixture
def bench() -> DirectoryBench:
    return DirectoryBench()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-a",
        ".a",
        "a/b",
        "a b",
        "a!b",
        "a\0",
        "a\n",
        "ä",
        "a\ud800",
        "x" * 129,
        "oidc:",
        "oidc:-a",
        "other:a",
        "oidc:oidc:a",
        "oidc:" + "x" * 129,
        "users/a",
    ],
)
def test_a_text_that_is_no_id_is_refused_everywhere(bench, text):
    one = bench.directory
    before = bench.entries()
    for call in (
        lambda: one.create_user(text),
        lambda: one.get_user(text),
        lambda: one.delete_user(text),
        lambda: one.create_group(text),
        lambda: one.delete_group(text),
        lambda: one.put_policy(policy(text)),
        lambda: one.get_policy(text),
        lambda: one.delete_policy(text),
        lambda: one.add_member(text, "g"),
        lambda: one.add_member("u", text),
        lambda: one.remove_member("u", text),
        lambda: one.attach("user", text, "p"),
        lambda: one.attach("group", text, "p"),
        lambda: one.attach("user", "u", text),
        lambda: one.attached_to("group", text),
        lambda: one.list_tokens(text),
        lambda: one.delete_token(text),
        lambda: one.delete_credential(text),
        lambda: one.list_members(text),
    ):
        with pytest.raises(Invalid):
            call()
    if text:
        for listing in (one.list_users, one.list_groups, one.list_policies):
            with pytest.raises(Invalid):
                listing(None, text)
    assert one.find_user_row(text) is None
    assert one.find_token(text) is None
    assert one.find_credential(text) is None
    assert one.groups_of(text) == ()
    assert one.policies_for(text, [text]) == ()
    assert bench.entries() == before


def test_ids_at_their_limits_are_taken(bench):
    one = bench.directory
    for name in ("x" * 128, "oidc:" + "y" * 128, "a@b.example", "0", "oidc:Z@-._"):
        one.create_user(name)
        assert one.get_user(name).id == name
    with pytest.raises(Invalid):
        one.create_group("a@b")
    with pytest.raises(Invalid):
        one.create_group("oidc:g")
    with pytest.raises(Invalid):
        one.attach("team", "u", "p")
    with pytest.raises(Invalid):
        one.create_user("u", "half \ud800")
    with pytest.raises(Invalid):
        one.list_users(0)
