"""What every catalog promises about access, embedded or over HTTP, blocking or awaited."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from lochan.base.errors import (
    AlreadyExists,
    Conflict,
    Denied,
    Invalid,
    LochanError,
    NotFound,
    Unauthenticated,
    Unavailable,
    Unknown,
)
from lochan.client import Client
from lochan.client.flows import access as flows
from lochan.embedded import open_repository
from lochan.model.access import Statement
from lochan.model.access_requests import DetachPolicyRequest, LoginRequest, SetUpRequest
from tests.client.serving import StepByStep, serving
from tests.client.test_same_answers import differ

READ_SALES = Statement(effect="allow", actions=("read",), keys=("sales.*",))
OWN_TOKENS = Statement(effect="allow", actions=("manage_own_tokens",))


@pytest.fixture(params=["memory", "rocksdb", "client", "async client"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """A store that was set up, used by its first user or by its operator."""
    kind = request.param
    if kind in ("memory", "rocksdb"):
        with open_repository(f"{kind}:{tmp_path / 'store' if kind == 'rocksdb' else ''}") as one:
            one.access.set_up("root")
            yield one
        return
    with serving("memory:", "other") as url:
        with Client(url) as first:
            secret = first.access.set_up("root").secret
        if kind == "client":
            # The address of a repository leads to the same users.
            with Client(url, "other", token=secret) as client:
                yield client
        else:
            step_by_step = StepByStep(url, token=secret)
            try:
                yield step_by_step
            finally:
                step_by_step.close()


def test_set_up_can_be_done_once(catalog):
    assert catalog.access.status().is_set_up
    with pytest.raises(AlreadyExists):
        catalog.access.set_up("root")
    with pytest.raises(AlreadyExists):
        catalog.access.set_up("other")


def test_users_and_groups_are_created_listed_and_deleted(catalog):
    access = catalog.access
    ada = access.create_user("ada", "she")
    assert (ada.id, ada.description) == ("ada", "she")
    assert access.get_user("ada") == ada
    with pytest.raises(AlreadyExists):
        access.create_user("ada")
    access.create_user("oidc:eve@example.org")
    assert [each.id for each in access.iterate_users()] == ["ada", "oidc:eve@example.org", "root"]
    page = access.list_users(1)
    assert [each.id for each in page.items] == ["ada"]
    assert [each.id for each in access.list_users(1, page.token).items] == ["oidc:eve@example.org"]
    analysts = access.create_group("analysts", "they")
    assert access.get_group("analysts") == analysts
    for user in ("ada", "oidc:eve@example.org", "ada"):
        access.add_member(user, "analysts")
    assert access.groups_of("ada") == ("analysts",)
    members = [each.id for each in access.iterate_members("analysts")]
    assert members == ["ada", "oidc:eve@example.org"]
    assert [each.id for each in access.list_members("analysts", 1).items] == ["ada"]
    access.remove_member("ada", "analysts")
    with pytest.raises(NotFound):
        access.remove_member("ada", "analysts")
    assert "analysts" in [each.id for each in access.iterate_groups()]
    assert "analysts" in [each.id for each in access.list_groups().items]
    access.delete_group("analysts")
    access.delete_user("ada")
    for absent in (access.get_user, access.delete_user, access.groups_of):
        with pytest.raises(NotFound):
            absent("ada")
    with pytest.raises(NotFound):
        access.get_group("analysts")


def test_policies_are_put_attached_and_explained(catalog):
    access = catalog.access
    access.create_user("ada")
    access.create_group("analysts")
    access.add_member("ada", "analysts")
    made = access.put_policy("read-sales", [READ_SALES], "sales only", expected=0)
    assert (made.id, made.statements, made.version) == ("read-sales", (READ_SALES,), 1)
    with pytest.raises(Conflict):
        access.put_policy("read-sales", [OWN_TOKENS], expected=0)
    assert access.put_policy("read-sales", [READ_SALES], "again").version == 2
    assert access.get_policy("read-sales").description == "again"
    assert "read-sales" in [each.id for each in access.iterate_policies()]
    assert access.list_policies(1).token is not None
    orders = {"repository": "default", "reference": "main", "key": ("sales", "orders")}
    assert not access.explain("ada", "read_content", **orders).allowed
    access.attach("read-sales", group="analysts")
    found = access.explain("ada", "read_content", **orders)
    assert (found.allowed, found.policy, found.statement) == (True, "read-sales", 1)
    assert found.via == "group:analysts"
    assert not access.explain("ada", "commit", repository="default", reference="main").allowed
    access.attach("read-sales", user="ada")
    assert [each.id for each in access.attached(user="ada")] == ["read-sales"]
    assert [each.id for each in access.attached(group="analysts")] == ["read-sales"]
    access.detach("read-sales", user="ada")
    assert access.attached(user="ada") == ()
    with pytest.raises(NotFound):
        access.detach("read-sales", user="ada")
    access.delete_policy("read-sales")
    assert access.attached(group="analysts") == ()
    with pytest.raises(Invalid, match="fly"):
        access.put_policy("no", [Statement(effect="allow", actions=("fly",))])


def test_tokens_and_access_keys_are_created_listed_and_deleted(catalog):
    access = catalog.access
    access.create_user("ada")
    access.put_policy("read-sales", [READ_SALES])
    later_us = 4_000_000_000_000_000
    new = access.create_token("ada", "ci", scopes=["read-sales"], expires_us=later_us)
    assert new.secret.startswith(f"lochan_{new.token.id}_")
    assert (new.token.user, new.token.scopes) == ("ada", ("read-sales",))
    assert new.token.expires_us == later_us
    assert list(access.iterate_tokens("ada")) == [new.token]
    assert access.list_tokens("ada").items == (new.token,)
    access.delete_token(new.token.id)
    assert list(access.iterate_tokens("ada")) == []
    with pytest.raises(NotFound):
        access.delete_token(new.token.id)
    key = access.create_access_key("ada", "laptop")
    assert list(access.iterate_access_keys("ada")) == [key.key]
    assert access.list_access_keys("ada").items == (key.key,)
    login = access.login(key.key.id, key.secret)
    assert login.secret.count(".") == 2
    with pytest.raises(Unauthenticated):
        access.login(key.key.id, "wrong")
    assert access.rotate_key() == 0
    access.delete_access_key(key.key.id)
    with pytest.raises(Unauthenticated):
        access.login(key.key.id, key.secret)
    with pytest.raises(NotFound):
        access.delete_access_key(key.key.id)


def test_the_caller_is_known():
    with open_repository("memory:", who="operator") as one:
        assert one.access.whoami().name == "operator"
    with serving() as url:
        with Client(url) as first:
            assert first.access.whoami().name == ""
            secret = first.access.set_up("root").secret
        with Client(url, token=secret) as client:
            found = client.access.whoami()
        assert found.name == "root"
        assert "everyone" in found.roles
        assert found.credential


def test_after_set_up_a_request_without_credentials_is_refused():
    with serving() as url, Client(url) as client:
        client.config()
        with pytest.raises(Conflict, match="lochan access setup"):
            client.access.create_user("ada")
        secret = client.access.set_up("root").secret
        assert client.access.status().is_set_up
        for refused in (client.config, client.access.whoami, client.access.list_users):
            with pytest.raises(Unauthenticated):
                refused()
        with Client(url, token=secret) as root:
            root.config()
            root.access.create_user("ada")
            root.access.put_policy("own", [OWN_TOKENS])
            root.access.attach("own", user="ada")
            hers = root.access.create_token("ada").secret
        with Client(url, token=hers) as ada:
            assert ada.access.whoami().name == "ada"
            assert len(ada.access.list_tokens("ada").items) == 1
            for denied in (ada.access.list_users, lambda: ada.access.create_token("root")):
                with pytest.raises(Denied):
                    denied()


TEXTS = ["", ".", "..", "ada", "a/b", "a b", "é", "a\0b", "x\udc80", "x" * 129, "everyone", "-a"]

METHODS: dict[str, Callable[[Any, str], Any]] = {
    "create user": lambda one, text: one.create_user(text).id,
    "get user": lambda one, text: one.get_user(text).id,
    "groups of": lambda one, text: one.groups_of(text),
    "create group": lambda one, text: one.create_group(text).id,
    "get group": lambda one, text: one.get_group(text).id,
    "members": lambda one, text: [each.id for each in one.list_members(text).items],
    "add member": lambda one, text: one.add_member("root", text),
    "remove member": lambda one, text: one.remove_member(text, "analysts"),
    "put policy": lambda one, text: one.put_policy(text, [READ_SALES]).id,
    "get policy": lambda one, text: one.get_policy(text).id,
    "attach": lambda one, text: one.attach("kept", user=text),
    "detach user": lambda one, text: one.detach("kept", user=text),
    "detach group": lambda one, text: one.detach("kept", group=text),
    "attached": lambda one, text: one.attached(group=text),
    "tokens": lambda one, text: {each.user for each in one.list_tokens(text).items},
    "create token": lambda one, text: one.create_token(text).token.user,
    "scope": lambda one, text: one.create_token("root", scopes=[text]).token.scopes,
    "description": lambda one, text: one.create_token("root", text).token.description,
    "delete token": lambda one, text: one.delete_token(text),
    "keys": lambda one, text: {each.user for each in one.list_access_keys(text).items},
    "delete key": lambda one, text: one.delete_access_key(text),
    "login": lambda one, text: one.login(text, text),
    "page of users": lambda one, text: one.list_users(1, text).items[0].id,
    "explain user": lambda one, text: one.explain(text, "commit").allowed,
    "explain action": lambda one, text: one.explain("root", text).allowed,
    "explain reference": lambda one, text: (
        one.explain("root", "commit", repository="default", reference=text).allowed
    ),
    "explain key": lambda one, text: (
        one.explain(
            "root", "read_content", repository="default", reference="main", key=(text,)
        ).allowed
    ),
    "explain path": lambda one, text: (
        one.explain(
            "root", "read_content", repository="default", reference="main", path=text
        ).allowed
    ),
    "delete user": lambda one, text: one.delete_user(text),
    "delete group": lambda one, text: one.delete_group(text),
}


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Any, Any]]:
    with serving() as url, Client(url) as first, open_repository("memory:") as embedded:
        secret = first.access.set_up("root").secret
        embedded.access.set_up("root")
        with Client(url, token=secret) as client:
            for one in (client.access, embedded.access):
                one.create_group("analysts")
                one.put_policy("kept", [READ_SALES])
            yield client.access, embedded.access


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except LochanError as error:
        return type(error)


@pytest.mark.parametrize("method", METHODS)
def test_a_text_means_the_same_to_both(both: tuple[Any, Any], method: str) -> None:
    different = {}
    for text in TEXTS:
        results = [outcome(partial(METHODS[method], one, text)) for one in both]
        if differ(*results):
            different[text] = results
    assert different == {}
    for one in both:
        assert one.get_policy("kept").statements == (READ_SALES,)
        assert one.get_user("root").id == "root"


def test_a_policy_is_attached_to_one_subject(both):
    for one in both:
        for method in (one.attach, one.detach):
            with pytest.raises(Invalid, match="name one"):
                method("kept")
            with pytest.raises(Invalid, match="name one"):
                method("kept", user="root", group="analysts")


class Losing(httpx.HTTPTransport):
    """Loses the replies to all requests but reads, after the server has answered them."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[str] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.sent.append(f"{request.method} {request.url.path}")
        response = super().handle_request(request)
        if request.method == "GET":
            return response
        response.read()
        raise httpx.ReadError("lost", request=request)


def test_a_change_whose_reply_is_lost_is_unknown_and_is_not_sent_again():
    with serving() as url:
        with Client(url) as first:
            secret = first.access.set_up("root").secret
        losing = Losing()
        with Client(url, token=secret, transport=losing, sleep=lambda _: None) as client:
            for call in (
                lambda: client.access.create_user("ada"),
                lambda: client.access.create_token("root"),
                lambda: client.access.put_policy("p", [READ_SALES]),
                lambda: client.access.attach("p", user="root"),
                lambda: client.access.delete_policy("p"),
            ):
                with pytest.raises(Unknown):
                    call()
            assert len(losing.sent) == 5
            assert client.access.get_user("ada").id == "ada"


def test_set_up_with_a_chosen_token_is_sent_again_and_happens_once():
    chosen = f"lochan_{'a' * 16}_{'b' * 52}"
    lost = [True, True, False]

    class LosingTwice(httpx.HTTPTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            response = super().handle_request(request)
            if lost.pop(0):
                response.read()
                raise httpx.ReadError("lost", request=request)
            return response

    with serving() as url:
        with Client(url, transport=LosingTwice(), sleep=lambda _: None) as client:
            assert client.access.set_up("root", token=chosen).secret == chosen
        with Client(url, token=chosen) as client:
            assert client.access.whoami().name == "root"
            assert len(list(client.access.iterate_users())) == 1
            assert len(list(client.access.iterate_tokens("root"))) == 1


def test_a_question_is_sent_again():
    losing = Losing()
    with (
        serving() as url,
        Client(url, transport=losing, sleep=lambda _: None) as client,
        pytest.raises(Unavailable),
    ):
        client.access.login("LOCHAAAAAAAAAAAAAAAA", "b" * 52)
    assert len(losing.sent) == 5


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_no_id_leads_to_another_address(name):
    with pytest.raises(Invalid, match="not the id"):
        next(flows.detach(DetachPolicyRequest(kind="group", subject=name, policy="p")))


def test_requests_do_not_show_their_secrets():
    login = LoginRequest(access_key_id="id", secret="canary")
    set_up = SetUpRequest(user="root", token="canary")
    assert "canary" not in repr(login) + repr(set_up) + str(login) + str(set_up)


def test_keys_are_made_beside_an_embedded_store_when_they_are_needed(tmp_path):
    address, key = f"rocksdb:{tmp_path / 'store'}", tmp_path / "access.key"
    with open_repository(address) as one:
        assert not one.access.status().is_set_up
        one.access.whoami()
        assert not key.exists()
        one.access.set_up("root")
        made = one.access.create_access_key("root")
    assert key.stat().st_mode & 0o777 == 0o600
    with open_repository(address) as one:
        one.access.login(made.key.id, made.secret)
    key.unlink()
    with open_repository(address) as one:
        assert one.access.get_user("root").id == "root"
        with pytest.raises(Invalid, match="missing"):
            one.access.create_access_key("root")


def test_keys_of_the_environment_are_those_of_the_servers(tmp_path, monkeypatch):
    address = f"rocksdb:{tmp_path / 'store'}"
    first, second = "A" * 43 + "=", "B" * 42 + "A="
    monkeypatch.setenv("LOCHAN_SECRET_KEY", first)
    with open_repository(address) as one:
        one.access.set_up("root")
        made = one.access.create_access_key("root")
    monkeypatch.setenv("LOCHAN_SECRET_KEY", second)
    with open_repository(address) as one, pytest.raises(Invalid, match="does not have"):
        one.access.create_access_key("root")
    monkeypatch.setenv("LOCHAN_SECRET_KEY", f"{second},{first}")
    with open_repository(address) as one:
        assert one.access.rotate_key() == 2
        assert one.access.rotate_key() == 0
    monkeypatch.setenv("LOCHAN_SECRET_KEY", second)
    with open_repository(address) as one:
        one.access.login(made.key.id, made.secret)
    assert not (tmp_path / "access.key").exists()
