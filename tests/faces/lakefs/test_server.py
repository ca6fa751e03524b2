"""The lakeFS API: set-up, logins, users and what is refused without credentials."""

from __future__ import annotations

import pytest

from lochan.wire.operations_lakefs import UNSUPPORTED
from tests.faces.lakefs.lakefs_bench import KEY, SECRET, SETUP


def test_set_up_is_done_once_and_only_its_own_request_may_be_repeated(fresh):
    assert fresh.anonymous.get("/setup_lakefs").json()["state"] == "not_initialized"
    made = fresh.anonymous.post("/setup_lakefs", json=SETUP)
    assert made.status_code == 200
    assert made.json()["access_key_id"] == KEY
    assert made.json()["secret_access_key"] == SECRET
    assert made.headers["cache-control"] == "no-store"
    assert fresh.anonymous.get("/setup_lakefs").json()["state"] == "initialized"
    for body in (SETUP, {"username": "bob"}, {**SETUP, "username": "bob"}):
        assert fresh.anonymous.post("/setup_lakefs", json=body).status_code == 409
    assert fresh.http.get("/user").json()["user"]["id"] == "ada"


def test_set_up_makes_an_access_key_if_none_is_chosen(fresh):
    made = fresh.anonymous.post("/setup_lakefs", json={"username": "ada"}).json()
    pair = made["access_key_id"], made["secret_access_key"]
    assert fresh.anonymous.get("/repositories", auth=pair).status_code == 200


@pytest.mark.parametrize(
    "key",
    [("short", SECRET), (KEY, "short"), (KEY.lower(), SECRET), (KEY, SECRET + "\n"), ("", "")],
)
def test_a_key_of_another_form_is_refused_and_nothing_is_set_up(fresh, key):
    body = {"username": "ada", "key": {"access_key_id": key[0], "secret_access_key": key[1]}}
    assert fresh.anonymous.post("/setup_lakefs", json=body).status_code == 400
    assert fresh.anonymous.get("/setup_lakefs").json()["state"] == "not_initialized"


@pytest.mark.parametrize("header", ["origin", "sec-fetch-site", "x-forwarded-for"])
def test_set_up_is_refused_to_browsers_and_through_proxies(fresh, header):
    value = fresh.url if header == "origin" else "same-origin"
    refused = fresh.anonymous.post("/setup_lakefs", json=SETUP, headers={header: value})
    assert refused.status_code == 403
    assert fresh.anonymous.get("/setup_lakefs").json()["state"] == "not_initialized"


def test_an_access_key_is_exchanged_for_a_token(shared):
    pair = {"access_key_id": KEY, "secret_access_key": SECRET}
    made = shared.anonymous.post("/auth/login", json=pair).json()
    bearer = {"authorization": f"Bearer {made['token']}"}
    assert shared.anonymous.get("/user", headers=bearer).json()["user"]["id"] == "ada"
    for wrong in ({**pair, "secret_access_key": SECRET[:-1] + "Z"}, {**pair, "access_key_id": "A"}):
        refused = shared.anonymous.post("/auth/login", json=wrong)
        assert refused.status_code == 401
        assert set(refused.json()) == {"message"}


def test_only_a_few_addresses_need_no_credentials(shared):
    assert shared.anonymous.get("/healthcheck").status_code == 204
    for path in ("/config", "/repositories", "/repositories/default", "/auth/users", "/user"):
        refused = shared.anonymous.get(path)
        assert (refused.status_code, set(refused.json())) == (401, {"message"})
        wrong = shared.anonymous.get(path, auth=(KEY, SECRET[::-1]))
        assert wrong.status_code == 401


def test_users_and_their_access_keys_are_managed(shared):
    made = shared.http.post("/auth/users", json={"id": "eve"})
    assert (made.status_code, made.json()["id"]) == (201, "eve")
    assert shared.http.post("/auth/users", json={"id": "eve"}).status_code == 409
    users = shared.http.get("/auth/users").json()["results"]
    assert {"ada", "eve"} <= {user["id"] for user in users}
    key = shared.http.post("/auth/users/eve/credentials").json()
    pair = key["access_key_id"], key["secret_access_key"]
    assert shared.anonymous.get("/user", auth=pair).json()["user"]["id"] == "eve"
    # A user without policies sees no repository.
    assert shared.anonymous.get("/repositories/default", auth=pair).status_code == 404
    listed = shared.http.get("/auth/users/eve/credentials").json()["results"]
    assert [one["access_key_id"] for one in listed] == [pair[0]]
    assert "secret_access_key" not in listed[0]
    assert shared.http.get(f"/auth/users/ada/credentials/{pair[0]}").status_code == 404
    assert shared.http.delete(f"/auth/users/ada/credentials/{pair[0]}").status_code == 404
    assert shared.http.delete(f"/auth/users/eve/credentials/{pair[0]}").status_code == 204
    assert shared.anonymous.get("/user", auth=pair).status_code == 401
    assert shared.http.delete("/auth/users/eve").status_code == 204
    assert shared.http.get("/auth/users/eve").status_code == 404


@pytest.mark.parametrize(("name", "method", "path"), UNSUPPORTED)
def test_what_is_not_implemented_is_answered_so_to_users_only(shared, name, method, path):
    path = path.replace("{repository}", "default").replace("{branch}", "main")
    for part in ("ref", "group", "user", "policy", "upload", "part", "range"):
        path = path.replace("{" + part + "}", "main")
    assert shared.anonymous.request(method, path).status_code == 401
    refused = shared.http.request(method, path)
    assert (refused.status_code, refused.json()) == (501, {"message": "feature not implemented"})


def test_unknown_addresses_and_methods_are_refused_in_the_same_form(shared):
    for method, path, status in (
        ("GET", "/nothing", 404),
        ("PATCH", "/repositories", 405),
        ("GET", "/repositories/default/refs/main/objects", 400),
        ("GET", "/repositories/absent/branches", 404),
    ):
        refused = shared.http.request(method, path)
        assert (refused.status_code, set(refused.json())) == (status, {"message"})
