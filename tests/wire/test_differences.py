"""Where we depart from Nessie, or keep its ways on purpose; `docs/compatibility.md` names these."""

from __future__ import annotations

import pytest

from tests.wire.harness import EMPTY, Wire, delete, namespace, put


@pytest.fixture
def wire():
    return Wire()


def body(*operations, message="m"):
    return {"commitMeta": {"message": message}, "operations": list(operations)}


def test_a_missing_parent_of_a_namespace_is_a_conflict(wire):
    answer = wire.v1("PUT", "/namespaces/namespace/main/a.b", namespace("a", "b"))
    assert answer.code == (409, "REFERENCE_CONFLICT")
    assert answer.message == "Namespace 'a' must exist."


def test_a_stale_delete_of_a_newer_key_reports_that_the_key_was_absent(wire):
    old = wire.commit("main", put("t"))
    wire.commit("main", put("late"))
    answer = wire.v2(
        "POST",
        f"/trees/main@{old}/history/commit",
        body(delete("late")),
        Nessie_Client_Spec="2",
    )
    assert answer.code == (409, "REFERENCE_CONFLICT")
    (conflict,) = answer.json["errorDetails"]["conflicts"]
    assert conflict["conflictType"] == "KEY_DOES_NOT_EXIST"


def test_a_limit_hash_that_is_no_commit_is_404(wire):
    wire.commit("main", put("t"))
    answer = wire.v2("GET", f"/trees/main/history?limit-hash={'ab' * 32}")
    assert answer.code == (404, "REFERENCE_NOT_FOUND")


def test_a_commit_that_only_relies_on_keys_is_made(wire):
    head = wire.commit("main", put("t"))
    relied = {"type": "UNCHANGED", "key": {"elements": ["t"]}}
    answer = wire.v2("POST", f"/trees/main@{head}/history/commit", body(relied))
    assert answer.json["targetBranch"]["hash"] not in (head, EMPTY)


def test_a_commit_without_operations_is_refused(wire):
    answer = wire.v2("POST", f"/trees/main@{EMPTY}/history/commit", body())
    assert answer.code == (400, "BAD_REQUEST")


def test_a_message_may_be_empty_and_an_author_missing(wire):
    answer = wire.v2("POST", f"/trees/main@{EMPTY}/history/commit", body(put("t"), message=""))
    assert answer.status == 200
    meta = wire.v2("GET", "/trees/main/history").json["logEntries"][0]["commitMeta"]
    assert meta["message"] == ""
    assert meta["authors"] == [""]


def test_new_contents_are_returned_in_the_order_of_the_request(wire):
    keys = ["z", "a", "m", "b"]
    answer = wire.v2(
        "POST", f"/trees/main@{EMPTY}/history/commit", body(*(put(key) for key in keys))
    )
    added = [each["key"]["elements"][0] for each in answer.json["addedContents"]]
    assert added == keys


@pytest.mark.parametrize("name", ["-", "a" * 256, "int/x", "a//b"])
def test_names_that_would_be_trouble_are_refused(wire, name):
    source = {"type": "BRANCH", "name": "main", "hash": EMPTY}
    answer = wire.v2("POST", f"/trees?name={name}&type=BRANCH", source)
    assert answer.code == (400, "BAD_REQUEST")


def test_no_records_wanted_is_as_many_as_there_are(wire):
    wire.commit("main", put("t"), put("u"))
    entries = wire.v2("GET", "/trees/main/entries?max-records=0").json["entries"]
    assert len(entries) == 2


def test_a_page_of_a_log_has_at_most_250_commits(wire):
    for _ in range(251):
        wire.commit("main", put(f"t{wire.clock.now_us()}"))
    for parameters in ("", "?max-records=1000"):
        page = wire.v2("GET", f"/trees/main/history{parameters}").json
        assert len(page["logEntries"]) == 250
        assert page["hasMore"] is True


def test_a_token_is_for_the_listing_that_gave_it(wire):
    wire.commit("main", put("t"), put("u"))
    token = wire.v2("GET", "/trees/main/entries?max-records=1").json["token"]
    for target in (
        f"/trees/main/entries?page-token={token}&prefix-key=u",
        f"/trees/main/history?page-token={token}",
        f"/trees/main/entries?page-token={token[:-2]}AA",
    ):
        assert wire.v2("GET", target).code == (400, "BAD_REQUEST")


LISTINGS = {
    "entries": "/trees/{ref}/entries",
    "history": "/trees/{ref}/history",
    "reflog": "/trees/{ref}/reflog",
    "diff": "/trees/{ref}/diff/empty",
    "diff to": "/trees/empty/diff/{ref}",
    "references": "/trees",
}


@pytest.mark.parametrize("given", LISTINGS)
def test_a_token_of_one_reference_is_refused_on_every_other_and_in_every_other_listing(wire, given):
    wire.branch("empty")
    wire.commit("main", put("t"), put("u"))
    wire.commit("main", put("v"), put("w"))
    wire.branch("side")
    target = LISTINGS[given].format(ref="main")
    token = wire.v2("GET", f"{target}?max-records=1").json["token"]
    assert wire.v2("GET", f"{target}?max-records=1&page-token={token}").status == 200
    wire.v2("POST", "/repositories", {"name": "twin"})
    for listing, where in LISTINGS.items():
        for ref in ("main", "side", "main~1"):
            if (listing, ref) == (given, "main") or (listing, given) == ("references", given):
                continue
            answer = wire.v2("GET", f"{where.format(ref=ref)}?max-records=1&page-token={token}")
            assert answer.status == 400, (listing, ref)
            if "~" not in ref or listing != "reflog":
                assert "made for another" in answer.message
    where = f"/r/twin/api/v2{LISTINGS[given].format(ref='main').replace('empty', 'main')}"
    assert "repository" in wire.send("GET", f"{where}?page-token={token}").message


@pytest.mark.parametrize("listing", ["entries", "log"])
def test_a_token_of_version_1_is_for_its_own_reference_too(wire, listing):
    wire.commit("main", put("t"), put("u"))
    wire.commit("main", put("v"), put("w"))
    wire.branch("side")
    token = wire.v1("GET", f"/trees/tree/main/{listing}?maxRecords=1").json["token"]
    assert wire.v1("GET", f"/trees/tree/main/{listing}?pageToken={token}").status == 200
    refused = wire.v1("GET", f"/trees/tree/side/{listing}?pageToken={token}")
    assert refused.code == (400, "BAD_REQUEST")
    assert "another reference" in refused.message


def test_a_page_goes_on_where_the_first_one_was_read(wire):
    wire.commit("main", put("t"), put("u"))
    page = wire.v2("GET", "/trees/main/entries?max-records=1").json
    wire.commit("main", delete("u"), put("v"))
    rest = wire.v2("GET", f"/trees/main/entries?page-token={page['token']}").json
    assert [each["name"]["elements"] for each in rest["entries"]] == [["u"]]
    assert rest["effectiveReference"] == page["effectiveReference"]


def test_filters_see_what_they_name(wire):
    wire.commit("main", put("t"))
    wire.commit("main", put("u"))
    seen = wire.v2("GET", "/trees/main/history?filter=operations.exists(op,op.key%3D%3D't')").json[
        "logEntries"
    ]
    assert len(seen) == 1
    assert seen[0]["operations"] is None
    many = wire.v2("GET", "/trees?filter=refMeta.numTotalCommits%3E1").json["references"]
    assert [each["name"] for each in many] == ["main"]
    wrong = wire.v2("GET", "/trees/main/entries?filter=entry.nothing%3D%3D1")
    assert wrong.code == (400, "BAD_REQUEST")


def test_a_parameter_that_is_given_twice_is_refused(wire):
    answer = wire.v2("GET", "/trees?max-records=1&max-records=2")
    assert answer.code == (400, "BAD_REQUEST")
