"""Errors: one total table, bodies that clients know, nothing of the inside."""

from __future__ import annotations

import pytest

from lochan.base import errors
from lochan.base.errors import (
    Bug,
    ContentNotFound,
    Corrupt,
    Exhausted,
    InvalidUrl,
    LochanError,
    Unavailable,
    Unknown,
)
from lochan.faces.answers import code_of, problem_of
from lochan.transport.exchange import NO_HEADERS, Request, RequestHeaders
from lochan.wire.problems import ERROR_CODES
from tests.wire.harness import EMPTY, Wire, put

EXPECTED = {
    "AlreadyExists": (409, "REFERENCE_ALREADY_EXISTS"),
    "AuditFailed": (400, "BAD_REQUEST"),
    "BytesDiffer": (400, "BAD_REQUEST"),
    "Bug": (500, "UNKNOWN"),
    "ConditionFailed": (412, "CONDITION_FAILED"),
    "Conflict": (409, "REFERENCE_CONFLICT"),
    "ContentNotFound": (404, "CONTENT_NOT_FOUND"),
    "Corrupt": (500, "UNKNOWN"),
    "Denied": (403, "FORBIDDEN"),
    "Unauthenticated": (401, "UNAUTHORIZED"),
    "TooManyRequests": (429, "TOO_MANY_REQUESTS"),
    "Exhausted": (503, "RETRIES_EXHAUSTED"),
    "HeadConflict": (409, "REFERENCE_CONFLICT"),
    "Invalid": (400, "BAD_REQUEST"),
    "InvalidKey": (400, "BAD_REQUEST"),
    "InvalidUrl": (400, "BAD_REQUEST"),
    "KeyReused": (422, "IDEMPOTENCY_KEY_REUSED"),
    "KeysConflict": (409, "REFERENCE_CONFLICT"),
    "LochanError": (500, "UNKNOWN"),
    "NamespaceExists": (409, "NAMESPACE_ALREADY_EXISTS"),
    "NamespaceNotEmpty": (409, "NAMESPACE_NOT_EMPTY"),
    "NamespaceNotFound": (404, "NAMESPACE_NOT_FOUND"),
    "NewerFormat": (501, "NEWER_FORMAT"),
    "NotABranch": (400, "BAD_REQUEST"),
    "NotFound": (404, "NOT_FOUND"),
    "NothingToCommit": (400, "NOTHING_TO_COMMIT"),
    "PathNotFound": (404, "PATH_NOT_FOUND"),
    "RangeNotSatisfiable": (416, "RANGE_NOT_SATISFIABLE"),
    "ReferenceNotFound": (404, "REFERENCE_NOT_FOUND"),
    "Refusal": (400, "BAD_REQUEST"),
    "RequirementFailed": (409, "REFERENCE_CONFLICT"),
    "StagedWork": (409, "STAGED_WORK"),
    "StoreClosed": (503, "SERVICE_UNAVAILABLE"),
    "StoreForked": (503, "SERVICE_UNAVAILABLE"),
    "StoreLocked": (503, "SERVICE_UNAVAILABLE"),
    "TooLarge": (400, "BAD_REQUEST"),
    "Unavailable": (503, "SERVICE_UNAVAILABLE"),
    "Unknown": (504, "OUTCOME_UNKNOWN"),
    "UploadNotFound": (404, "NOT_FOUND"),
}


def every_kind():
    return [
        each
        for each in vars(errors).values()
        if isinstance(each, type) and issubclass(each, LochanError)
    ]


def bare(kind):
    return kind.__new__(kind)


def test_every_kind_of_error_has_its_code():
    assert {kind.__name__: code_of(bare(kind)) for kind in every_kind()} == EXPECTED


def test_only_the_root_falls_through_to_the_roots_code():
    for kind in every_kind():
        if kind is not LochanError:
            assert any(parent in ERROR_CODES for parent in kind.__mro__[:-3]), kind


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Corrupt("object 7 is gone"), 500),
        (Bug("a secret"), 500),
        (Unavailable("cannot connect to a secret"), 503),
        (Exhausted("a secret is full"), 503),
        (Unknown("a secret did not answer"), 504),
        (InvalidUrl("a secret is no address"), 400),
    ],
)
def test_no_internal_detail_is_in_a_response(error, status):
    request = Request("GET", b"/", b"", NO_HEADERS, b"", "id-of-the-request")
    response = problem_of(request, error)
    assert response.status == status
    assert error.message.encode() not in response.body
    assert b"id-of-the-request" in response.body


def test_only_responses_without_effect_have_retry_after():
    request = Request("GET", b"/")
    retry = (b"retry-after", b"1")
    assert retry in problem_of(request, Unavailable("later")).headers
    assert retry in problem_of(request, Exhausted("busy")).headers
    assert retry not in problem_of(request, Unknown("who knows")).headers
    tried = Exhausted("3 attempts in 5 s at inside", public="3 attempts in 5 s")
    assert b"3 attempts in 5 s" in problem_of(request, tried).body
    assert b"inside" not in problem_of(request, tried).body


@pytest.mark.parametrize(
    ("spec", "has_details"),
    [("2", True), ("2.1.0", True), ("10", True), ("1", False), ("x", False)],
)
def test_details_are_for_clients_of_spec_2(spec, has_details):
    request = Request("GET", b"/", b"", RequestHeaders([(b"nessie-client-spec", spec.encode())]))
    body = problem_of(request, ContentNotFound("no", ("a", "b"))).body
    assert (b'"errorDetails":{"type":"CONTENT_KEY"' in body) is has_details


def test_without_the_header_there_are_no_details():
    wire = Wire()
    answer = wire.v2("GET", "/trees/main/contents/t")
    assert answer.json == {
        "status": 404,
        "reason": "Not Found",
        "message": "Could not find content for key 't' in reference 'main'.",
        "errorCode": "CONTENT_NOT_FOUND",
        "serverStackTrace": None,
    }
    assert answer.headers["content-type"] == "application/json"


def test_a_conflict_has_all_keys_and_all_sides():
    wire = Wire()
    wire.commit("main", put("t"), put("u"))
    wire.branch("dev")
    ids = {key: wire.v2("GET", f"/trees/main/contents/{key}").json["content"] for key in "tu"}
    for branch, snapshot in (("dev", 8), ("main", 9)):
        wire.commit(
            branch, *(put(key, content={**ids[key], "snapshotId": snapshot}) for key in "tu")
        )
    answer = wire.v2(
        "POST",
        f"/trees/main@{wire.head()}/history/merge",
        {"fromRefName": "dev", "fromHash": wire.head("dev")},
        Nessie_Client_Spec="2",
    )
    assert answer.code == (409, "REFERENCE_CONFLICT")
    conflicts = answer.json["errorDetails"]["conflicts"]
    assert [each["key"]["elements"] for each in conflicts] == [["t"], ["u"]]
    sides = [
        [each[side]["snapshotId"] for side in ("base", "source", "target")] for each in conflicts
    ]
    assert sides == [[1, 8, 9], [1, 8, 9]]


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/api/v2"),
        ("GET", "/api/v2/"),
        ("GET", "/api/v2/nothing/here"),
        ("GET", "/api/v2/trees/main/nothing"),
        ("GET", "/api/v2/trees/main/contents/a/b"),
        ("GET", "/api/v2/trees/main/diff/"),
        ("GET", "/api/v1/nothing"),
        ("GET", "/api/v1/trees/not-there"),
        ("HEAD", "/api/v1/trees/not-there"),
        ("PUT", f"/api/v1/trees/twig/main?expectedHash={EMPTY}"),
        ("GET", "/api/v1/diffs/main"),
        ("GET", "/r/nowhere/api/v2/trees"),
    ],
)
def test_unknown_addresses_are_404_with_json(method, target):
    answer = Wire().send(method, target)
    assert answer.status == 404
    assert answer.json["status"] == 404


def test_a_known_path_lists_its_methods():
    answer = Wire().v2("PATCH", "/trees/main")
    assert answer.status == 405
    assert answer.headers["allow"] == "DELETE, GET, PUT"


@pytest.mark.parametrize(
    "target",
    [
        "/trees?fetch=BOGUS",
        "/trees?max-records=abc",
        "/trees?max-records=-1",
        "/trees?max-records=%D9%A3",
        "/trees?page-token=AAAA",
        "/trees/main/entries?content=maybe",
        "/trees/main/entries?min-key=.a*x",
        "/trees/main/entries?filter=%28",
        "/trees/main/history?limit-hash=nothex",
        "/trees/..invalid../entries",
        "/trees/main/recent-changes?scan-commits=x",
        "/trees/main/contents/%FF",
        "/trees/main@12345678",
    ],
)
def test_bad_values_are_400_with_a_message(target):
    answer = Wire().v2("GET", target)
    assert answer.code == (400, "BAD_REQUEST")
    assert answer.message


def test_a_body_that_is_not_json_is_415():
    wire = Wire()
    body = {"commitMeta": {"message": "m"}, "operations": [put("t")]}
    target = f"/trees/main@{EMPTY}/history/commit"
    answer = wire.v2("POST", target, body, Content_Type="text/plain")
    assert answer.code == (415, "UNSUPPORTED_MEDIA_TYPE")
    assert answer.json["reason"] == "Unsupported Media Type"
    for kind in ("application/json", "application/json; charset=utf-8", "application/x+json"):
        fresh = Wire().v2("POST", target, body, Content_Type=kind)
        assert fresh.status == 200


def test_bodies_that_cannot_be_decoded_are_400():
    wire = Wire()
    for body in (b"", b"{", b"[]", b"null", b"\xff", b"[" * 50_000):
        for target in (
            f"/trees/main@{EMPTY}/history/commit",
            f"/trees/main@{EMPTY}/history/merge",
            "/trees/main/contents",
            "/trees/many",
            "/objects/get",
        ):
            assert wire.v2("POST", target, body).code == (400, "BAD_REQUEST")
