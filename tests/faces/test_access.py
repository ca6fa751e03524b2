"""The API of access: every route, every refusal, and secrets only where they are made."""

from __future__ import annotations

import json

import pytest

from lochan.access.policy import ANYONE
from lochan.transport.exchange import Request
from lochan.transport.routes import Authentication, Match
from lochan.wire.operations_access import OPERATIONS_ACCESS
from tests.faces.access_bench import OPERATOR, PREFIX, AccessBench

STATEMENT = {"effect": "allow", "actions": ["read"], "keys": ["sales.*"]}

OTHER = {"effect": "deny", "actions": ["commit"], "references": ["main"]}


@pytest.fixture
def bench() -> AccessBench:
    return AccessBench()


@pytest.fixture
def filled(bench: AccessBench) -> AccessBench:
    """A user with a group, a policy, a token and an access key."""
    bench.make("POST", "/users", {"id": "ada", "description": "she"})
    bench.make("POST", "/groups", {"id": "analysts"})
    bench.make("PUT", "/policies/sales", {"statements": [STATEMENT]})
    bench.make("PUT", "/groups/analysts/members/ada")
    bench.make("PUT", "/groups/analysts/policies/sales")
    bench.secrets.append(bench.make("POST", "/users/ada/tokens", {"description": "ci"})["secret"])
    bench.secrets.append(bench.make("POST", "/users/ada/access-keys")["secret"])
    return bench


def test_set_up_happens_once_and_without_credentials():
    bench = AccessBench(set_up=False)
    assert bench.send("GET", "/status", caller=ANYONE).json == {
        "isSetUp": False,
        "acceptsOidc": False,
    }
    assert bench.send("GET", "/users", caller=OPERATOR).code == (409, "CONFLICT")
    made = bench.send("POST", "/setup", {"user": "root"}, caller=ANYONE)
    assert made.status == 200
    assert made.json["secret"].startswith("lochan_")
    assert made.json["token"]["user"] == "root"
    assert bench.send("GET", "/status", caller=ANYONE).json["isSetUp"] is True
    again = bench.send("POST", "/setup", {"user": "root"}, caller=ANYONE)
    assert again.code == (409, "ALREADY_EXISTS")
    assert bench.send("POST", "/setup", caller="root").code == (409, "ALREADY_EXISTS")


def test_set_up_with_a_chosen_token_may_be_sent_again():
    bench = AccessBench(set_up=False)
    body = {"user": "root", "token": f"lochan_{'a' * 16}_{'b' * 52}"}
    first = bench.send("POST", "/setup", body, caller=ANYONE)
    assert first.json["secret"] == body["token"]
    assert bench.send("POST", "/setup", body, caller=ANYONE).json == first.json
    other = {**body, "token": f"lochan_{'c' * 16}_{'b' * 52}"}
    assert bench.send("POST", "/setup", other, caller=ANYONE).code == (409, "ALREADY_EXISTS")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("origin", "http://localhost:3000"),
        ("sec-fetch-site", "same-site"),
        ("x-forwarded-for", "203.0.113.9"),
        ("forwarded", "for=203.0.113.9"),
        ("via", "1.1 proxy"),
    ],
)
def test_set_up_is_refused_to_pages_and_through_proxies(name, value):
    """A page of another program on this machine could set up, by a request without a body."""
    bench = AccessBench(set_up=False)
    answer = bench.send("POST", "/setup", caller=ANYONE, headers={name: value})
    assert answer.status == 403
    assert bench.send("GET", "/status", caller=ANYONE).json["isSetUp"] is False


def test_a_caller_reads_who_it_is(bench):
    shown = bench.send("GET", "/me", caller=bench.caller("admin", "token:x")).json
    assert shown == {"name": "admin", "roles": ["admins", "everyone"], "credential": "token:x"}


def test_users_are_created_read_listed_and_deleted(bench):
    made = bench.make("POST", "/users", {"id": "ada", "description": "she"})
    assert (made["id"], made["description"]) == ("ada", "she")
    assert made["created"].endswith("Z")
    assert bench.make("GET", "/users/ada") == made
    assert [each["id"] for each in bench.make("GET", "/users")["users"]] == ["ada", "admin"]
    assert bench.send("POST", "/users", {"id": "ada"}).code == (409, "ALREADY_EXISTS")
    assert bench.send("DELETE", "/users/ada").status == 204
    assert bench.send("GET", "/users/ada").code == (404, "NOT_FOUND")
    assert bench.send("DELETE", "/users/ada").code == (404, "NOT_FOUND")


def test_a_user_of_an_issuer_has_a_colon_in_its_id(bench):
    bench.make("POST", "/users", {"id": "oidc:ada@example.org"})
    assert bench.make("GET", "/users/oidc%3Aada%40example.org")["id"] == "oidc:ada@example.org"
    assert bench.make("GET", "/users/oidc:ada@example.org")["id"] == "oidc:ada@example.org"


def test_groups_have_members(filled):
    assert filled.make("GET", "/groups/analysts")["id"] == "analysts"
    assert filled.make("GET", "/users/ada/groups") == {"groups": ["analysts"]}
    members = filled.make("GET", "/groups/analysts/members")["members"]
    assert [each["id"] for each in members] == ["ada"]
    assert "analysts" in [each["id"] for each in filled.make("GET", "/groups")["groups"]]
    filled.make("DELETE", "/groups/analysts/members/ada")
    assert filled.make("GET", "/groups/analysts/members")["members"] == []
    assert filled.send("DELETE", "/groups/analysts/members/ada").status == 404
    assert filled.send("PUT", "/groups/none/members/ada").status == 404
    filled.make("DELETE", "/groups/analysts")
    assert filled.send("GET", "/groups/analysts").status == 404


def test_policies_are_put_read_attached_and_deleted(filled):
    shown = filled.make("GET", "/policies/sales")
    assert shown["statements"] == [STATEMENT]
    assert shown["version"] == 1
    changed = filled.make("PUT", "/policies/sales", {"statements": [OTHER], "expectedVersion": 1})
    assert changed["version"] == 2
    stale = {"statements": [STATEMENT], "expectedVersion": 1}
    assert filled.send("PUT", "/policies/sales", stale).code == (409, "CONFLICT")
    assert "sales" in [each["id"] for each in filled.make("GET", "/policies")["policies"]]
    filled.make("PUT", "/users/ada/policies/sales")
    for subject in ("users/ada", "groups/analysts"):
        listed = filled.make("GET", f"/{subject}/policies")["policies"]
        assert [each["id"] for each in listed] == ["sales"]
        filled.make("DELETE", f"/{subject}/policies/sales")
        assert filled.make("GET", f"/{subject}/policies") == {"policies": []}
        assert filled.send("DELETE", f"/{subject}/policies/sales").status == 404
    filled.make("PUT", "/groups/everyone/policies/sales")
    filled.make("DELETE", "/policies/sales")
    assert filled.make("GET", "/groups/everyone/policies") == {"policies": []}


def test_a_policy_that_cannot_be_compiled_is_refused_with_the_place(bench):
    statements = [STATEMENT, {"effect": "deny", "actions": ["fly"]}]
    answered = bench.send("PUT", "/policies/sales", {"statements": statements})
    assert answered.code == (400, "BAD_REQUEST")
    assert "fly" in answered.message
    assert "statement 2" in answered.message
    assert bench.send("GET", "/policies/sales").status == 404


def test_tokens_are_limited_and_deleted(filled):
    body = {"scopes": ["sales"], "expiresAt": "2999-01-01T00:00:00Z"}
    made = filled.make("POST", "/users/ada/tokens", body)["token"]
    assert made["scopes"] == ["sales"]
    assert made["expiresAt"] == "2999-01-01T00:00:00Z"
    listed = filled.make("GET", "/users/ada/tokens")["tokens"]
    assert made in listed
    assert len(listed) == 2
    filled.make("DELETE", f"/tokens/{made['id']}")
    assert filled.send("DELETE", f"/tokens/{made['id']}").status == 404
    past = {"expiresAt": "1999-01-01T00:00:00Z"}
    assert filled.send("POST", "/users/ada/tokens", past).status == 400
    assert filled.send("POST", "/users/ada/tokens", {"scopes": ["none"]}).status == 404


def test_an_access_key_is_exchanged_for_a_login(filled):
    made = filled.make("POST", "/users/ada/access-keys", {"description": "laptop"})
    key_id = made["accessKey"]["id"]
    body = {"accessKeyId": key_id, "secret": made["secret"]}
    login = filled.send("POST", "/login", body, caller=ANYONE)
    assert login.status == 200
    assert login.json["secret"].count(".") == 2
    assert login.json["expiresAt"].endswith("Z")
    wrong = filled.send("POST", "/login", {**body, "secret": "x"}, caller=ANYONE)
    unknown = filled.send("POST", "/login", {**body, "accessKeyId": "x"}, caller=ANYONE)
    assert wrong.code == unknown.code == (401, "UNAUTHORIZED")
    assert wrong.message == unknown.message
    assert made["accessKey"] in filled.make("GET", "/users/ada/access-keys")["accessKeys"]
    filled.make("DELETE", f"/access-keys/{key_id}")
    assert filled.send("POST", "/login", body, caller=ANYONE).code == (401, "UNAUTHORIZED")


def test_a_question_names_the_rule_that_decides(filled):
    question = {
        "user": "ada",
        "action": "read_content",
        "repository": "default",
        "reference": "main",
        "key": ["sales", "orders"],
    }
    shown = filled.make("POST", "/explain", question)
    assert shown["allowed"] is True
    assert (shown["policy"], shown["statement"]) == ("sales", 1)
    assert "analysts" in shown["via"]
    denied = filled.make("POST", "/explain", {**question, "key": ["hr", "pay"]})
    assert denied["allowed"] is False
    assert filled.send("POST", "/explain", {**question, "action": "fly"}).status == 400
    assert filled.send("POST", "/explain", {**question, "user": "eve"}).status == 404
    both = {**question, "path": "raw/x"}
    assert filled.send("POST", "/explain", both).status == 400


def test_the_key_is_rotated(filled):
    assert filled.make("POST", "/rotate-key") == {"resealed": 0}


def test_listings_are_paged(bench):
    for number in range(5):
        bench.make("POST", "/users", {"id": f"u{number}"})
    first = bench.make("GET", "/users?max-records=2")
    assert [each["id"] for each in first["users"]] == ["admin", "u0"]
    assert first["hasMore"] is True
    rest = bench.make("GET", f"/users?max-records=10&page-token={first['token']}")
    assert [each["id"] for each in rest["users"]] == ["u1", "u2", "u3", "u4"]
    assert (rest["hasMore"], rest["token"]) == (False, None)
    for bad in ("max-records=x", "max-records=-1", "page-token=%20", "page-token=a%2Fb"):
        assert bench.send("GET", f"/users?{bad}").code == (400, "BAD_REQUEST"), bad


BODIES = [each for each in OPERATIONS_ACCESS if each.request is not None]


def place(path: str) -> str:
    return path.replace("{id}", "ada").replace("{user}", "ada").replace("{policy}", "sales")


@pytest.mark.parametrize("operation", BODIES, ids=lambda each: each.id)
def test_a_body_with_a_repeated_or_unknown_field_changes_nothing(filled, operation):
    before = filled.store.epoch()
    for body in (b'{"description":"a","description":"b"}', b'{"nothing":1,"nothing":1}'):
        answered = filled.send(operation.method, place(operation.path), body)
        assert answered.code == (400, "BAD_REQUEST")
    assert filled.send(operation.method, place(operation.path), {"nothing": 1}).status == 400
    for body in (b"{", b"[]", b"null", b'"x"', b"\xff", b"[" * 50_000):
        assert filled.send(operation.method, place(operation.path), body).status == 400
    wrong = filled.send(
        operation.method, place(operation.path), {}, headers={"Content-Type": "text/plain"}
    )
    assert wrong.code == (415, "UNSUPPORTED_MEDIA_TYPE")
    assert filled.store.epoch() == before


def test_a_repeated_effect_is_refused_and_the_policy_stays(filled):
    body = b'{"statements":[{"effect":"deny","effect":"allow","actions":["*"]}]}'
    assert "twice" in filled.send("PUT", "/policies/sales", body).message
    assert filled.make("GET", "/policies/sales")["statements"] == [STATEMENT]


SECRET = ("setUpAccess", "login", "createToken", "createAccessKey")


@pytest.mark.parametrize("operation", OPERATIONS_ACCESS, ids=lambda each: each.id)
def test_secrets_are_only_in_the_answers_that_make_them(filled, operation):
    keys = filled.make("GET", "/users/ada/access-keys")["accessKeys"]
    bodies = {
        "setUpAccess": {"user": "x"},
        "login": {"accessKeyId": keys[0]["id"], "secret": filled.secrets[-1]},
        "createUser": {"id": "new"},
        "createGroup": {"id": "new"},
        "putPolicy": {"statements": [STATEMENT]},
        "explain": {"user": "ada", "action": "commit"},
    }
    path = place(operation.path)
    if path.startswith("/groups/ada"):
        path = path.replace("/groups/ada", "/groups/analysts")
    if path.startswith("/policies/ada"):
        path = "/policies/sales"
    if operation.id == "attachPolicyToUser":
        filled.make("DELETE", "/groups/analysts/policies/sales")
    if operation.id == "detachPolicyFromUser":
        filled.make("PUT", "/users/ada/policies/sales")
    if operation.id == "deleteToken":
        path = f"/tokens/{filled.make('GET', '/users/ada/tokens')['tokens'][0]['id']}"
    if operation.id == "deleteAccessKey":
        path = f"/access-keys/{keys[0]['id']}"
    body = bodies.get(operation.id)
    answered = filled.send(operation.method, path, body)
    expected = 409 if operation.id == "setUpAccess" else 204 if not operation.response else 200
    assert answered.status == expected, answered.body
    for secret in filled.secrets:
        assert secret.encode() not in answered.body
        # The part that is secret, without the id that is not.
        assert secret.rpartition("_")[2].encode() not in answered.body
    if operation.id in SECRET and answered.status == 200:
        assert answered.headers["cache-control"] == "no-store"
        assert answered.json["secret"]
    elif answered.status == 200:
        assert "secret" not in json.dumps(answered.json)


@pytest.mark.parametrize("operation", OPERATIONS_ACCESS, ids=lambda each: each.id)
def test_a_user_without_rights_is_refused_and_nothing_is_written(filled, operation):
    filled.make("POST", "/users", {"id": "eve"})
    before = filled.store.epoch()
    caller = filled.caller("eve")
    body = None if operation.request is None else _minimal(operation.id)
    answered = filled.send(operation.method, place(operation.path), body, caller=caller)
    if operation.needs == "action":
        assert answered.code == (403, "FORBIDDEN")
    nameless = filled.send(operation.method, place(operation.path), body, caller=ANYONE)
    if operation.needs == "action":
        assert nameless.code == (401, "UNAUTHORIZED")
    assert filled.store.epoch() == before


def _minimal(name: str) -> dict[str, object]:
    if name in ("createUser", "createGroup"):
        return {"id": "new"}
    if name == "putPolicy":
        return {"statements": [STATEMENT]}
    if name == "login":
        return {"accessKeyId": "k", "secret": "s"}
    return {"user": "ada", "action": "commit"} if name == "explain" else {}


def test_users_manage_their_own_credentials_and_no_others(filled):
    own = {"statements": [{"effect": "allow", "actions": ["manage_own_tokens"]}]}
    filled.make("PUT", "/policies/own", own)
    filled.make("PUT", "/users/ada/policies/own")
    made = filled.send("POST", "/users/ada/tokens", {}, caller="ada")
    assert made.status == 200
    assert filled.send("GET", "/users/ada/tokens", caller="ada").status == 200
    assert filled.send("POST", "/users/ada/access-keys", caller="ada").status == 200
    token = made.json["token"]["id"]
    assert filled.send("DELETE", f"/tokens/{token}", caller="ada").status == 204
    for method in ("GET", "POST"):
        for kind in ("tokens", "access-keys"):
            assert filled.send(method, f"/users/admin/{kind}", caller="ada").status == 403
    first = filled.token["id"]
    assert filled.send("DELETE", f"/tokens/{first}", caller="ada").status == 403
    assert filled.send("DELETE", "/tokens/aaaaaaaaaaaaaaaa", caller="ada").status == 403


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "", 404),
        ("GET", "/", 404),
        ("GET", "/nothing", 404),
        ("GET", "/users/", 404),
        ("GET", "/users/ada/", 404),
        ("GET", "/users//tokens", 404),
        ("GET", "/users/ada/nothing", 404),
        ("GET", "/users/ada/tokens/x", 404),
        ("PATCH", "/users/ada", 405),
        ("POST", "/status", 405),
        ("GET", "/setup", 405),
        ("GET", "/users/..", 400),
        ("GET", "/users/%2e%2e/tokens", 400),
        ("GET", "/users/a%00b", 400),
        ("GET", "/users/%ff", 400),
        ("GET", "/users/%zz", 400),
        ("GET", "/users/a%2Fb", 400),
        ("GET", "/users/a%20b", 400),
        ("GET", "/users/" + "a" * 200, 400),
        ("HEAD", "/users/ada", 200),
    ],
)
def test_addresses_are_known_or_refused(filled, method, path, status):
    answered = filled.send(method, path)
    assert answered.status == status, answered.body
    if status == 405:
        assert "allow" in answered.headers


def test_only_paths_of_access_are_owned():
    face = AccessBench(set_up=False).face
    assert face.owns(Request("GET", b"/access/v1/users"))
    assert face.owns(Request("GET", b"/access/v1"))
    for path in (b"/access/v10", b"/access", b"/r/x/access/v1/users", b"/api/v2/trees", b"/"):
        assert not face.owns(Request("GET", path))


def test_open_routes_are_those_that_need_nothing():
    bench = AccessBench(set_up=False)
    for operation in OPERATIONS_ACCESS:
        raw = (PREFIX + place(operation.path)).encode()
        match = bench.face.match(Request(operation.method, raw))
        assert isinstance(match, Match)
        assert match.route.name == operation.id
        assert match.route.is_open == (operation.needs == "nothing")
        assert match.repository is None


def test_a_face_has_the_authentication_that_it_was_made_with():
    bench = AccessBench(set_up=False)
    authentication = Authentication(lambda request, match: ANYONE)
    assert type(bench.face)(bench.control, authentication).authentication is authentication
    assert bench.face.authentication is None
