"""The use cases of access: set-up, users, groups, policies, tokens, access keys, logins."""

from __future__ import annotations

import pytest

from lochan.access.policy import Call
from lochan.access.records import ACCESS_PARTITION
from lochan.access.secrets import KeyRing
from lochan.access.tokens import digest_of, parse_token
from lochan.base.errors import (
    AlreadyExists,
    Conflict,
    Denied,
    Invalid,
    NotFound,
    TooLarge,
    Unauthenticated,
    Unavailable,
)
from lochan.base.limits.access import SCOPES_PER_TOKEN_MAX
from lochan.model.access import AccessPolicy, AccessStatus, Statement
from lochan.persist.rows import scan_all
from lochan.service.access_credentials import check_server_key
from tests.service.access_bench import ADMIN, NEW_KEY, OLD_KEY, READ, AccessBench, office

CHOSEN = "lochan_" + "a" * 16 + "_" + "b" * 52


@pytest.fixture
def bench() -> AccessBench:
    return office()[0]


def stored(bench: AccessBench) -> bytes:
    return b"\n".join(entry.value for entry in scan_all(bench.store, ACCESS_PARTITION))


def test_set_up_returns_a_token_of_the_first_user_which_is_stored_as_a_hash():
    bench, first = office()
    assert bench.access.status(Call()) == AccessStatus(True)
    parsed = parse_token(first.secret)
    assert parsed is not None
    assert (first.token.id, first.token.user, first.token.scopes) == (parsed[0], "root", ())
    row = bench.directory.find_token(first.token.id)
    assert row is not None
    assert row.digest == digest_of(*parsed)
    assert parsed[1].encode() not in stored(bench)


def test_set_up_happens_once():
    bench, _ = office()
    before = stored(bench)
    for user in ("root", "mallory"):
        with pytest.raises(AlreadyExists):
            bench.again().access.set_up(Call(), user)
    assert stored(bench) == before


def test_a_caller_that_chooses_the_token_can_repeat_set_up():
    bench = AccessBench()
    assert bench.access.set_up(Call(), "root", CHOSEN).secret == CHOSEN
    assert bench.again().access.set_up(Call(), "root", CHOSEN).token.user == "root"
    with pytest.raises(AlreadyExists):
        bench.access.set_up(Call(), "root", CHOSEN[:-1] + "c")
    bench.access.delete_token(ADMIN, "a" * 16)
    with pytest.raises(AlreadyExists, match="deleted"):
        bench.access.set_up(Call(), "root", CHOSEN)


@pytest.mark.parametrize("token", ["", "secret", CHOSEN[:-1], CHOSEN + "b", CHOSEN.upper()])
def test_a_chosen_token_has_the_form_of_one(token):
    bench = AccessBench()
    with pytest.raises(Invalid, match="lochan_ID_SECRET"):
        bench.access.set_up(Call(), "root", token)
    assert not bench.access.status(Call()).is_set_up


def test_nothing_is_managed_before_set_up():
    """What was created before would be there when requests begin to need credentials."""
    bench = AccessBench()
    for call in (
        lambda: bench.access.create_user(Call(), "mallory"),
        lambda: bench.access.create_token(Call(), "mallory"),
        lambda: bench.access.put_policy(Call(), AccessPolicy("p", (READ,))),
        lambda: bench.access.list_users(Call()),
        lambda: bench.access.rotate_key(Call()),
    ):
        with pytest.raises(Conflict, match="lochan access setup"):
            call()
    assert stored(bench) == b""
    with pytest.raises(Unauthenticated):
        bench.access.login(Call(), "LOCH" + "A" * 16, "b" * 52)


def test_who_calls_is_returned(bench):
    found = bench.access.whoami(ADMIN)
    assert (found.name, found.roles, found.credential) == (
        "root",
        ("admins", "everyone"),
        "oidc",
    )


def test_a_token_has_scopes_and_an_expiry_and_is_listed_without_its_secret(bench):
    later = bench.clock.now_us() + 1
    made = bench.access.create_token(ADMIN, "ada", "nightly", ["sales", "reader"], later)
    assert (made.token.scopes, made.token.expires_us) == (("sales", "reader"), later)
    assert bench.access.list_tokens(ADMIN, "ada").items == (made.token,)
    bench.access.delete_token(ADMIN, made.token.id)
    assert bench.access.list_tokens(ADMIN, "ada").items == ()
    for call in (
        lambda: bench.access.create_token(ADMIN, "bob"),
        lambda: bench.access.create_token(ADMIN, "ada", scopes=["none"]),
        lambda: bench.access.delete_token(ADMIN, made.token.id),
        lambda: bench.access.delete_access_key(ADMIN, "LOCH" + "A" * 16),
        lambda: bench.access.groups_of(ADMIN, "bob"),
    ):
        with pytest.raises(NotFound):
            call()
    with pytest.raises(Invalid, match="future"):
        bench.access.create_token(ADMIN, "ada", expires_us=bench.clock.now_us())
    with pytest.raises(TooLarge):
        bench.access.create_token(ADMIN, "ada", scopes=["sales"] * (SCOPES_PER_TOKEN_MAX + 1))
    with pytest.raises(TooLarge):
        bench.access.create_token(ADMIN, "ada", "x" * 1_001)
    with pytest.raises(Invalid):
        bench.access.create_access_key(ADMIN, "ada", "half \ud800")


def test_a_token_that_is_limited_creates_no_credentials(bench):
    limited = bench.access.create_token(ADMIN, "ada", scopes=["writer"]).token
    whole = bench.access.create_token(ADMIN, "ada").token
    call = Call("ada", credential=f"token:{limited.id}")
    for create in (bench.access.create_token, bench.access.create_access_key):
        with pytest.raises(Denied, match="limited"):
            create(call, "ada")
        create(Call("ada", credential=f"token:{whole.id}"), "ada")
        create(Call("ada", credential="login:key"), "ada")
        with pytest.raises(Denied):
            create(Call("ada", credential="token:gone"), "ada")


def test_what_a_token_creates_does_not_outlast_it(bench):
    """A token for an hour made itself one for ever."""
    later = bench.clock.now_us() + 1_000
    brief = bench.access.create_token(ADMIN, "ada", expires_us=later).token
    call = Call("ada", credential=f"token:{brief.id}")
    for expires_us in (None, later + 1):
        with pytest.raises(Denied, match="no later"):
            bench.access.create_token(call, "ada", expires_us=expires_us)
    with pytest.raises(Denied, match="no later"):
        bench.access.create_access_key(call, "ada")
    assert bench.access.create_token(call, "ada", expires_us=later).token.expires_us == later


def test_roles_of_an_issuer_are_not_shed_by_a_token(bench):
    """What the policies of such a role deny would be allowed to the token."""
    bench.access.create_user(ADMIN, "oidc:eve")
    bench.access.add_member(ADMIN, "oidc:eve", "writers")
    stated = Call("oidc:eve", roles=("writers", "contractors", "everyone"), credential="oidc")
    for create in (bench.access.create_token, bench.access.create_access_key):
        with pytest.raises(Denied, match="issuer"):
            create(stated, "oidc:eve")
        create(Call("oidc:eve", roles=("writers", "everyone"), credential="oidc"), "oidc:eve")
        create(ADMIN, "oidc:eve")


def test_an_access_key_is_sealed_and_exchanged_for_a_login(bench):
    made = bench.access.create_access_key(ADMIN, "ada", "pipeline")
    assert made.secret.encode() not in stored(bench)
    assert bench.access.list_access_keys(ADMIN, "ada").items == (made.key,)
    login = bench.access.login(Call(), made.key.id, made.secret)
    assert bench.logins is not None
    claims = bench.logins.read(login.secret)
    row = bench.directory.find_user_row("ada")
    assert claims is not None
    assert row is not None
    assert (claims.user, claims.user_incarnation) == ("ada", row.incarnation)
    assert claims.credential_id == made.key.id


def test_a_login_needs_the_right_secret_and_says_nothing_about_what_is_wrong(bench):
    made = bench.access.create_access_key(ADMIN, "ada")
    texts = set()
    wrong = [
        (made.key.id, "b" * 52),
        ("LOCH" + "A" * 16, made.secret),
        (made.key.id, ""),
        ("", ""),
        ("users/ada", made.secret),
        (made.key.id, "\ud800"),
        (made.key.id.lower(), made.secret),
    ]
    for key, secret in wrong:
        with pytest.raises(Unauthenticated) as caught:
            bench.access.login(Call(), key, secret)
        texts.add(caught.value.public_message)
    bench.access.delete_access_key(ADMIN, made.key.id)
    with pytest.raises(Unauthenticated) as caught:
        bench.access.login(Call(), made.key.id, made.secret)
    assert len(texts | {caught.value.public_message}) == 1


def test_a_server_without_a_key_has_no_access_keys(bench):
    other = bench.again(keys=())
    for call in (
        lambda: other.access.create_access_key(ADMIN, "ada"),
        lambda: other.access.login(Call(), "LOCH" + "A" * 16, "b" * 52),
        lambda: other.access.rotate_key(ADMIN),
    ):
        with pytest.raises(Invalid, match="no secret key"):
            call()
    other.access.create_token(ADMIN, "ada")


def test_the_key_of_the_servers_is_rotated(bench):
    first = bench.access.create_access_key(ADMIN, "ada")
    both = bench.again(keys=(NEW_KEY, OLD_KEY))
    second = both.access.create_access_key(ADMIN, "root")
    alone = bench.again(keys=(NEW_KEY,), seed=3)
    with pytest.raises(Unavailable):
        alone.access.login(Call(), first.key.id, first.secret)
    setup = bench.directory.find_setup()
    assert setup is not None
    with pytest.raises(Invalid, match="does not have"):
        check_server_key(setup, KeyRing([NEW_KEY]))
    assert both.access.rotate_key(ADMIN) == 2
    assert both.access.rotate_key(ADMIN) == 0
    for one in (both, alone):
        for made in (first, second):
            one.access.login(Call(), made.key.id, made.secret)
    setup = bench.again().directory.find_setup()
    assert setup is not None
    check_server_key(setup, KeyRing([NEW_KEY]))
    with pytest.raises(Unavailable):
        bench.access.login(Call(), first.key.id, first.secret)


def test_users_groups_and_policies_are_managed(bench):
    access = bench.access
    assert access.get_user(ADMIN, "ada").description == "analyst"
    assert [one.id for one in access.list_users(ADMIN, 1).items] == ["ada"]
    assert [one.id for one in access.list_users(ADMIN, 1, "ada").items] == ["root"]
    access.create_group(ADMIN, "analysts", "all of them")
    assert access.get_group(ADMIN, "analysts").description == "all of them"
    access.add_member(ADMIN, "ada", "analysts")
    assert access.groups_of(ADMIN, "ada") == ("analysts", "writers")
    assert [one.id for one in access.list_members(ADMIN, "analysts").items] == ["ada"]
    access.remove_member(ADMIN, "ada", "analysts")
    access.delete_group(ADMIN, "analysts")
    assert [one.id for one in access.list_groups(ADMIN, None, "admins").items] == [
        "readers",
        "writers",
    ]
    made = access.put_policy(ADMIN, AccessPolicy("sales", (READ, READ)), 1)
    assert access.get_policy(ADMIN, "sales") == made
    assert access.attached_to(ADMIN, "user", "ada") == (made,)
    access.detach(ADMIN, "user", "ada", "sales")
    access.delete_policy(ADMIN, "sales")
    assert [one.id for one in access.list_policies(ADMIN).items] == ["admin", "reader", "writer"]
    access.delete_user(ADMIN, "ada")
    with pytest.raises(NotFound):
        access.get_user(ADMIN, "ada")
    with pytest.raises(Invalid):
        access.put_policy(ADMIN, AccessPolicy("p", (Statement(effect="allow", actions=("fly",)),)))


def test_decisions_are_explained(bench):
    access = bench.access
    deny = Statement(effect="deny", actions=("commit",), references=("main",))
    access.put_policy(ADMIN, AccessPolicy("protected", (deny,)))
    access.attach(ADMIN, "group", "everyone", "protected")
    denied = access.explain(ADMIN, "ada", "commit", "repo", "main")
    assert (denied.allowed, denied.policy, denied.via) == (False, "protected", "group:everyone")
    allowed = access.explain(ADMIN, "ada", "commit", "repo", "dev")
    assert (allowed.allowed, allowed.policy, allowed.via) == (True, "writer", "group:writers")
    # Of several actions, one that is denied is explained.
    assert access.explain(ADMIN, "ada", "write", "repo", "main") == denied
    assert access.explain(ADMIN, "root", "manage_access").allowed
    assert not access.explain(ADMIN, "ada", "manage_access").allowed
    assert access.explain(ADMIN, "ada", "write_content", "r", "dev", ("a", "b")).allowed
    assert access.explain(ADMIN, "ada", "write_content", "r", "dev", None, "a/b").allowed
    assert not access.explain(ADMIN, "oidc:eve", "commit", "repo", "dev").allowed
    with pytest.raises(NotFound):
        access.explain(ADMIN, "eve", "commit", "repo", "dev")
    with pytest.raises(Invalid):
        access.explain(ADMIN, "ada", "fly")
    with pytest.raises(Invalid):
        access.explain(ADMIN, "ada", "write_content", "r", "dev", ("a",), "a")
