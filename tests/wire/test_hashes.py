"""Expected hashes: in the URL, with If-Match, missing, stale, relative."""

from __future__ import annotations

import pytest

from lochan.access.policy import Call
from tests.wire.harness import EMPTY, Wire, delete, put, table


@pytest.fixture
def wire():
    return Wire()


def commit_body(*operations):
    return {"commitMeta": {"message": "m"}, "operations": list(operations)}


def test_answers_with_a_hash_carry_it_as_etag(wire):
    head = wire.commit("main", put("t"))
    quoted = f'"{head}"'
    for target in (
        "/trees/main",
        "/trees/main/entries",
        "/trees/main/history",
        "/trees/main/contents/t",
        "/trees/main/contents?key=t",
        "/trees/main/recent-changes",
    ):
        assert wire.v2("GET", target).etag == quoted
    assert wire.v1("GET", "/trees/tree/main").etag == quoted
    assert wire.v1("GET", "/contents/t").etag == quoted


def test_an_etag_may_be_given_back_with_if_match(wire):
    tag = wire.v2("GET", "/trees/main").etag
    answer = wire.v2("POST", "/trees/main/history/commit", commit_body(put("t")), If_Match=tag)
    assert answer.status == 200
    again = wire.v1(
        "POST", "/trees/branch/main/commit", commit_body(put("u")), If_Match=answer.etag
    )
    assert again.json["hash"] == wire.head()


def test_if_match_and_the_address_must_agree(wire):
    head = wire.commit("main", put("t"))
    target = f"/trees/main@{head}/history/commit"
    refused = wire.v2("POST", target, commit_body(put("u")), If_Match=f'"{EMPTY}"')
    assert refused.code == (400, "BAD_REQUEST")
    assert wire.head() == head
    agreed = wire.v2("POST", target, commit_body(put("u")), If_Match=f'"{head}"')
    assert agreed.status == 200


@pytest.mark.parametrize("text", ["abc", '"xyz"', f'W/"{EMPTY}"', f'"{EMPTY}", "{EMPTY}"', ""])
def test_an_if_match_that_names_no_hash_is_refused(wire, text):
    answer = wire.v2("POST", "/trees/main/history/commit", commit_body(put("t")), If_Match=text)
    assert answer.code == (400, "BAD_REQUEST")


def test_a_stale_if_match_lets_changes_of_other_keys_through(wire):
    old = wire.commit("main", put("t"))
    wire.commit("main", put("u"))
    other = wire.v2(
        "POST", "/trees/main/history/commit", commit_body(put("v")), If_Match=f'"{old}"'
    )
    assert other.status == 200
    same = wire.v2(
        "POST",
        "/trees/main/history/commit",
        commit_body(put("u")),
        If_Match=f'"{old}"',
        Nessie_Client_Spec="2",
    )
    assert same.code == (409, "REFERENCE_CONFLICT")
    (conflict,) = same.json["errorDetails"]["conflicts"]
    assert conflict["conflictType"] == "KEY_EXISTS"
    assert conflict["key"] == {"elements": ["u"]}


def test_if_match_star_takes_any_head_but_finds_what_is_there(wire):
    wire.commit("main", put("t"))
    star = {"If_Match": "*"}
    assert (
        wire.v2("POST", "/trees/main/history/commit", commit_body(put("u")), **star).status == 200
    )
    taken = wire.v2("POST", "/trees/main/history/commit", commit_body(put("t")), **star)
    assert taken.code == (409, "REFERENCE_CONFLICT")


def test_a_write_without_a_hash_is_refused(wire):
    for method, target, body in (
        ("POST", "/trees/main/history/commit", commit_body(put("t"))),
        ("PUT", "/trees/main", {"type": "BRANCH", "name": "main", "hash": EMPTY}),
        ("DELETE", "/trees/dev", None),
    ):
        wire.repository.references.get(Call(), "main")
        if target == "/trees/dev":
            wire.branch("dev")
        answer = wire.v2(method, target, body)
        assert answer.message == "Expected hash must be provided."


def test_a_write_with_a_relative_hash_only_is_refused(wire):
    answer = wire.v2("POST", "/trees/main~1/history/commit", commit_body(put("t")))
    assert answer.message == "Expected hash must contain a starting commit ID."


def test_a_write_may_count_from_a_commit(wire):
    one = wire.commit("main", put("t"))
    two = wire.commit("main", put("u"))
    answer = wire.v2("POST", f"/trees/main@{two}~1/history/commit", commit_body(put("v")))
    assert answer.status == 200
    wire.branch("dev")
    merged = wire.v2(
        "POST",
        f"/trees/dev@{wire.head('dev')}~1/history/merge",
        {"fromRefName": "main", "fromHash": wire.head(), "dryRun": True},
    )
    assert merged.json["expectedHash"] == two
    assert one != two


@pytest.mark.parametrize("purpose", ["commit", "merge", "transplant", "revert"])
def test_a_tag_is_no_branch_whatever_hash_comes_with_it(wire, purpose):
    head = wire.commit("main", put("t"))
    source = {"type": "BRANCH", "name": "main", "hash": head}
    assert wire.v2("POST", "/trees?name=v1&type=TAG", source).status == 200
    body = {
        "commit": commit_body(put("u")),
        "merge": {"fromRefName": "main", "fromHash": head},
        "transplant": {"fromRefName": "main", "hashesToTransplant": [head]},
        "revert": {"hashes": [head]},
    }[purpose]
    for ref in ("v1", f"v1@{head}", "v1~1", f"@{head}"):
        answer = wire.v2("POST", f"/trees/{ref}/history/{purpose}", body)
        assert answer.status == 400
        assert answer.message.endswith("must be a branch.")


def test_all_relative_steps_of_a_path_count(wire):
    wire.commit("main", put("t"))
    wire.commit("main", put("u"))
    wire.commit("main", put("v"))
    entries = wire.v2("GET", "/trees/main~1^1/entries").json["entries"]
    assert [each["name"]["elements"] for each in entries] == [["t"]]


def test_a_detached_read_names_a_commit(wire):
    head = wire.commit("main", put("t"))
    reference = wire.v2("GET", f"/trees/@{head}/entries").json["effectiveReference"]
    assert reference == {"type": "DETACHED", "hash": head}
    for target in ("/trees/@~1/entries", "/trees/@~1/contents/t"):
        refused = wire.v2("GET", target)
        assert refused.message == "Expected hash must contain a starting commit ID."
    assert wire.v2("GET", "/trees/@~1/history").message == (
        "Youngest hash must contain a starting commit ID."
    )
    assert wire.v2("GET", f"/trees/@{head}/history?limit-hash=~1").message == (
        "Oldest hash must contain a starting commit ID."
    )
    assert wire.v2("GET", "/trees/main/diff/@~1").message == (
        '"To" hash must contain a starting commit ID.'
    )


def test_a_short_hash_names_no_commit(wire):
    answer = wire.v2("GET", "/trees/main@cafebabe/entries")
    assert answer.code == (404, "REFERENCE_NOT_FOUND")
    assert answer.message == "Commit 'cafebabe' not found"


def test_a_stale_hash_stops_moves_and_deletes(wire):
    wire.branch("dev")
    wire.commit("dev", put("t"))
    body = {"type": "BRANCH", "name": "main", "hash": EMPTY}
    for method, more in (("PUT", body), ("DELETE", None)):
        answer = wire.v2(method, f"/trees/dev@{EMPTY}", more, Nessie_Client_Spec="2.1.0")
        assert answer.code == (409, "REFERENCE_CONFLICT")
        (conflict,) = answer.json["errorDetails"]["conflicts"]
        assert conflict["conflictType"] == "UNEXPECTED_HASH"
        assert "Named-reference 'dev' is not at expected hash" in answer.message


def test_an_expected_content_replaces_the_expected_hash(wire):
    head = wire.commit("main", put("t"))
    entry = wire.v2("GET", "/trees/main/contents/t").json["content"]
    changed = table(id=entry["id"], snapshotId=2)
    wrong = put("t", content=changed, expectedContent={**entry, "snapshotId": 9})
    answer = wire.v2("POST", f"/trees/main@{head}/history/commit", commit_body(wrong))
    assert answer.code == (409, "REFERENCE_CONFLICT")
    right = put("t", content=changed, expectedContent=entry)
    star = wire.v2("POST", "/trees/main/history/commit", commit_body(right), If_Match="*")
    assert star.status == 200


def test_a_delete_of_nothing_is_a_conflict(wire):
    answer = wire.v2("POST", f"/trees/main@{EMPTY}/history/commit", commit_body(delete("nothing")))
    assert answer.code == (409, "REFERENCE_CONFLICT")
    assert answer.message == "Key 'nothing' does not exist."
