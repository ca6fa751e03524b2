"""Version 2: addresses, parameters, headers, dry runs; and what Lochan adds."""

from __future__ import annotations

import base64

import pytest

from lochan.faces.nessie.v2_extensions import RAW_OBJECTS, read_raw, write_raw
from tests.wire.harness import EMPTY, Wire, delete, namespace, put, table


@pytest.fixture
def wire():
    return Wire()


@pytest.mark.parametrize(
    "address", ["a/b@", "a%2Fb", "a/b%40", "a%2Fb@", "a/entries@", "history/commit@"]
)
def test_names_with_slashes_are_found_plainly_and_encoded(wire, address):
    name = address.replace("%2F", "/").replace("%40", "").rstrip("@")
    wire.branch(name)
    assert wire.v2("GET", f"/trees/{address}").json["reference"]["name"] == name
    entries = wire.v2("GET", f"/trees/{address}/entries")
    assert entries.json["effectiveReference"]["name"] == name
    assert wire.v2("GET", f"/trees/main/diff/{address}").status == 200
    assert wire.v2("GET", f"/trees/{address}/diff/{address}").json["diffs"] == []


def test_a_branch_may_be_called_as_an_address_of_ours(wire):
    wire.branch("many")
    assert wire.v2("GET", "/trees/many").json["reference"]["name"] == "many"


def test_a_dash_is_the_default_branch(wire):
    assert wire.v2("GET", "/trees/-").json["reference"]["name"] == "main"
    body = {"commitMeta": {"message": "m"}, "operations": [put("t")]}
    answer = wire.v2("POST", f"/trees/-@{EMPTY}/history/commit", body)
    assert answer.json["targetBranch"]["name"] == "main"


def test_hashes_are_not_for_reading_a_reference(wire):
    answer = wire.v2("GET", "/trees/main@12345678")
    assert answer.message == "Hashes are not allowed when fetching a reference by name"


def test_pages_concatenate_to_the_whole(wire):
    wire.commit("main", *(put(f"t{number}") for number in range(5)))
    for number in range(5):
        wire.branch(f"b{number}")
    whole = {
        "/trees": "references",
        "/trees/main/entries": "entries",
        f"/trees/main/diff/@{EMPTY}": "diffs",
        "/trees/main/history": "logEntries",
    }
    for target, name in whole.items():
        everything = wire.v2("GET", target).json
        assert everything["hasMore"] is False
        found: list[object] = []
        token: str | None = ""
        while token is not None:
            page = wire.v2("GET", f"{target}?max-records=2&page-token={token}").json
            assert page["hasMore"] is (page["token"] is not None)
            assert len(page[name]) <= 2
            found += page[name]
            token = page["token"]
        assert found == everything[name]


def test_keys_are_chosen_by_name_range_prefix_and_filter(wire):
    names = [("a",), ("a", "t"), ("a", "u"), ("b",)]
    wire.commit(
        "main", put("a", content=namespace("a")), *(put(*name) for name in names if name != ("a",))
    )

    def keys(parameters):
        entries = wire.v2("GET", f"/trees/main/entries?{parameters}").json["entries"]
        return [tuple(each["name"]["elements"]) for each in entries]

    assert keys("key=a.t&key=b&key=zz") == [("a", "t"), ("b",)]
    assert keys("min-key=a.t&max-key=a.u") == [("a", "t"), ("a", "u")]
    assert keys("prefix-key=a") == [("a",), ("a", "t"), ("a", "u")]
    assert keys("filter=entry.contentType%3D%3D'NAMESPACE'") == [("a",)]
    diffs = wire.v2("GET", f"/trees/@{EMPTY}/diff/main?filter=key.namespace%3D%3D'a'").json["diffs"]
    assert [each["key"]["elements"] for each in diffs] == [["a", "t"], ["a", "u"]]


def test_entries_have_contents_only_if_requested(wire):
    wire.commit("main", put("t"))
    (plain,) = wire.v2("GET", "/trees/main/entries").json["entries"]
    (full,) = wire.v2("GET", "/trees/main/entries?content=true").json["entries"]
    assert plain["content"] is None
    assert full["content"]["id"] == plain["contentId"] == full["contentId"]


def test_headers_add_to_the_meta_of_a_commit(wire):
    body = {
        "commitMeta": {"message": "body", "authors": ["Ada"], "allProperties": {"a": ["1"]}},
        "operations": [put("t")],
    }
    wire.send(
        "POST",
        f"/api/v2/trees/main@{EMPTY}/history/commit",
        body,
        {
            "Nessie-Commit-Message": "header",
            "Nessie-Commit-Authors": "Bob, Cleo",
            "Nessie-Commit-SignedOffBy": "Dan",
            "Nessie-Commit-Property-foo": "bar",
        },
    )
    meta = wire.v2("GET", "/trees/main/history").json["logEntries"][0]["commitMeta"]
    assert meta["message"] == "header"
    assert meta["authors"] == ["Ada", "Bob", "Cleo"]
    assert meta["allSignedOffBy"] == ["Dan"]
    assert meta["allProperties"] == {"a": ["1"], "foo": ["bar"]}


@pytest.mark.parametrize("flag", ["dryRun", "isDryRun"])
def test_a_dry_run_changes_nothing_in_either_spelling(wire, flag):
    wire.branch("dev")
    wire.commit("dev", put("t"))
    head = wire.head()
    answer = wire.v2(
        "POST",
        f"/trees/main@{head}/history/merge",
        {"fromRefName": "dev", "fromHash": wire.head("dev"), flag: True},
    )
    assert answer.json["wasSuccessful"] is True
    assert answer.json["wasApplied"] is False
    assert wire.head() == head


@pytest.mark.parametrize("flag", ["returnConflictAsResult", "isReturnConflictAsResult"])
def test_conflicts_are_a_result_in_either_spelling(wire, flag):
    wire.branch("dev")
    wire.commit("dev", put("t"))
    wire.commit("main", put("t"))
    answer = wire.v2(
        "POST",
        f"/trees/main@{wire.head()}/history/merge",
        {"fromRefName": "dev", "fromHash": wire.head("dev"), flag: True},
    )
    assert answer.status == 200
    assert answer.json["wasSuccessful"] is False
    assert answer.json["details"][0]["conflict"]["conflictType"] == "KEY_EXISTS"


def test_a_null_as_expected_or_resolved_content_is_ignored(wire):
    wire.branch("dev")
    wire.commit("dev", put("t"))
    wire.commit("main", put("t"))
    modes = [
        {
            "key": {"elements": ["t"]},
            "mergeBehavior": "FORCE",
            "expectedTargetContent": None,
            "resolvedContent": None,
        }
    ]
    answer = wire.v2(
        "POST",
        f"/trees/main@{wire.head()}/history/merge",
        {"fromRefName": "dev", "fromHash": wire.head("dev"), "keyMergeModes": modes},
    )
    assert answer.json["wasApplied"] is True


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"fromRefName": "dev"}, "Source hash must be provided."),
        (
            {"fromRefName": "dev", "fromHash": "~1"},
            "Source hash must contain a starting commit ID.",
        ),
        ({"fromRefName": "dev", "fromHash": EMPTY}, "not the empty hash"),
        ({"fromRefName": "..", "fromHash": EMPTY}, "Reference name must"),
    ],
)
def test_the_source_of_a_merge_is_a_commit(wire, body, message):
    wire.branch("dev")
    head = wire.commit("main", put("t"))
    answer = wire.v2("POST", f"/trees/main@{head}/history/merge", body)
    assert answer.code == (400, "BAD_REQUEST")
    assert message in answer.message
    assert wire.head() == head


def test_a_hash_of_another_branch_is_not_merged_under_a_wrong_name(wire):
    wire.commit("main", put("t"))
    wire.branch("dev")
    wire.branch("other")
    wire.commit("other", put("u"))
    answer = wire.v2(
        "POST",
        f"/trees/main@{wire.head()}/history/merge",
        {"fromRefName": "dev", "fromHash": wire.head("other")},
    )
    assert answer.code == (404, "REFERENCE_NOT_FOUND")


def test_a_body_names_a_commit_by_its_hash_with_or_without_an_at_sign(wire):
    hashes = [wire.commit("main", put(f"t{number}")) for number in range(12)]
    wire.branch("side")
    for mark in ("", "@"):
        for commit in hashes:
            for verb, field in (("force", "source"), ("rebase", "onto")):
                where = f"/trees/side@{wire.head('side')}/history/{verb}"
                moved = wire.v2("POST", where, {field: f"{mark}{commit}"})
                assert moved.json["resultantTargetHash"] == commit
    many = [{"name": f"b{number}", "source": each} for number, each in enumerate(hashes)]
    created = wire.v2("POST", "/trees/many", {"references": many}).json["references"]
    assert [each["hash"] for each in created] == hashes


def test_merging_into_an_empty_branch_works(wire):
    wire.branch("dev")
    wire.commit("dev", put("t"))
    answer = wire.v2(
        "POST",
        f"/trees/main@{EMPTY}/history/merge",
        {"fromRefName": "dev", "fromHash": wire.head("dev")},
    )
    assert answer.json["wasApplied"] is True


def test_a_changed_type_is_a_conflict_and_nothing_is_written(wire):
    head = wire.commit("main", put("t"))
    content = wire.v2("GET", "/trees/main/contents/t").json["content"]
    view = {
        "type": "ICEBERG_VIEW",
        "id": content["id"],
        "metadataLocation": "m",
        "versionId": 1,
        "schemaId": 1,
    }
    body = {"commitMeta": {"message": "m"}, "operations": [put("t", content=view)]}
    answer = wire.v2("POST", f"/trees/main@{head}/history/commit", body, Nessie_Client_Spec="2")
    assert answer.code == (409, "REFERENCE_CONFLICT")
    assert answer.json["errorDetails"]["conflicts"][0]["conflictType"] == "PAYLOAD_DIFFERS"
    assert wire.head() == head


def test_commits_may_be_replayed_or_squashed_against_the_custom(wire):
    wire.branch("dev")
    wire.commit("dev", put("t"))
    wire.commit("dev", put("u"))
    line = [
        each["commitMeta"]["hash"]
        for each in wire.v2("GET", "/trees/dev/history").json["logEntries"]
    ][::-1]
    wire.branch("one")
    wire.v2(
        "POST",
        f"/trees/main@{EMPTY}/history/merge",
        {"fromRefName": "dev", "fromHash": line[-1], "squash": False},
    )
    assert len(wire.v2("GET", "/trees/main/history").json["logEntries"]) == 2
    wire.v2(
        "POST",
        f"/trees/one@{EMPTY}/history/transplant",
        {"fromRefName": "dev", "hashesToTransplant": line, "squash": True, "message": "both"},
    )
    (entry,) = wire.v2("GET", "/trees/one/history").json["logEntries"]
    assert entry["commitMeta"]["message"].startswith("both")


def test_a_cherry_pick_takes_either_hashes_or_a_range(wire):
    first = wire.commit("main", put("t"))
    second = wire.commit("main", put("u"))
    wire.v2("POST", "/trees?name=dev&type=BRANCH&bare=true")
    target = f"/trees/dev@{EMPTY}/history/cherry-pick"
    for body in ({}, {"hashes": [first], "range": "a..b"}, {"range": first}, {"range": "~1..~2"}):
        assert wire.v2("POST", target, body).code == (400, "BAD_REQUEST")
    strange = wire.v2("POST", target, {"range": f"{second}..{first}"})
    assert strange.code == (404, "REFERENCE_NOT_FOUND")
    picked = wire.v2("POST", target, {"range": f"{first}..{second}"})
    assert len(picked.json["commits"]) == 1
    assert wire.v2("GET", "/trees/dev/contents/u").status == 200
    assert wire.v2("GET", "/trees/dev/contents/t").status == 404


def test_a_write_with_a_key_takes_effect_once(wire):
    body = {"commitMeta": {"message": "m"}, "operations": [put("t")]}
    target = f"/trees/main@{EMPTY}/history/commit"
    one = wire.v2("POST", target, body, Idempotency_Key="k")
    wire.commit("main", put("u"))
    again = wire.v2("POST", target, body, Idempotency_Key="k")
    assert again.json == one.json
    assert len(wire.v2("GET", "/trees/main/history").json["logEntries"]) == 2
    other = {**body, "operations": [put("v")]}
    reused = wire.v2("POST", target, other, Idempotency_Key="k")
    assert reused.code == (422, "IDEMPOTENCY_KEY_REUSED")


def test_many_references_are_made_together_or_not_at_all(wire):
    wire.branch("taken")
    references = [{"name": "a", "source": "main"}, {"name": "taken", "source": "main"}]
    assert wire.v2("POST", "/trees/many", {"references": references}).status == 409
    assert wire.v2("GET", "/trees/a").status == 404


@pytest.mark.parametrize(
    ("target", "body", "message"),
    [
        ("name=x&type=BRANCH", {"type": "BRANCH", "name": "main"}, "Target hash must be provided."),
        (
            "name=x&type=BRANCH",
            {"type": "BRANCH", "name": "main", "hash": "~1"},
            "Target hash must contain a starting commit ID.",
        ),
        ("name=x&type=X", {"hash": EMPTY}, "must be either 'branch' or 'tag'"),
        ("name=x", {"hash": EMPTY}, "Mandatory reference type missing"),
        ("type=BRANCH", {"hash": EMPTY}, "Mandatory reference name missing"),
        ("name=HEAD&type=BRANCH", {"hash": EMPTY}, "must not be HEAD"),
        ("name=x&type=BRANCH&bare=true", {"hash": EMPTY}, "starts from nothing"),
        ("name=x&type=TAG&bare=true", {}, "a tag names a commit"),
        ("name=x&type=BRANCH", {"hash": EMPTY, "ttl": "soon"}, "not a span"),
        (
            "name=x&type=BRANCH",
            {"hash": EMPTY, "ttl": "P1D", "expiresAt": "2999-01-01T00:00:00Z"},
            "once",
        ),
        ("name=x&type=TAG", {"hash": EMPTY, "ttl": "P1D"}, "only a branch expires"),
        ("name=x&type=BRANCH", {"hash": EMPTY, "annotation": {"message": "m"}}, "only a tag"),
        (
            "name=x&type=TAG",
            {"hash": EMPTY, "annotation": {"message": "m", "signature": "?"}},
            "Base64",
        ),
        ("name=x&type=BRANCH", {"type": "TWIG", "hash": EMPTY}, "BRANCH, TAG or DETACHED"),
    ],
)
def test_a_reference_that_cannot_be_made_is_refused_with_the_reason(wire, target, body, message):
    answer = wire.v2("POST", f"/trees?{target}", body)
    assert answer.code == (400, "BAD_REQUEST")
    assert message in answer.message


def test_objects_come_back_as_they_were_stored(wire):
    wire.commit("main", *(put(f"t{number}") for number in range(300)))
    view = wire.repository.context.views.load(bytes.fromhex(wire.head()))
    root = view.tables.root
    assert root is not None
    ids = {"ids": [root.hex(), "ab" * 32]}
    (found,) = wire.v2("POST", "/objects/get", ids).json["objects"]
    raw = wire.v2("POST", "/objects/get", ids, Accept=RAW_OBJECTS)
    assert read_raw(raw.body) == [(root.hex(), base64.b64decode(found["data"]))]
    stored = wire.v2("POST", "/objects/put", {"objects": [found]})
    assert stored.json == {"stored": 1}
    sent = wire.v2("POST", "/objects/put", raw.body, Content_Type=RAW_OBJECTS)
    assert sent.json == {"stored": 1}
    wrong = write_raw([("ab" * 32, base64.b64decode(found["data"]))])
    refused = wire.v2("POST", "/objects/put", wrong, Content_Type=RAW_OBJECTS)
    assert refused.code == (400, "BAD_REQUEST")
    cut = wire.v2("POST", "/objects/put", raw.body[:-1], Content_Type=RAW_OBJECTS)
    assert "cut off" in cut.message
    other = wire.v2("POST", "/objects/put", b"x", Content_Type="text/plain")
    assert other.code == (400, "BAD_REQUEST")


def test_repositories_are_apart(wire):
    assert wire.v2("POST", "/repositories", {"name": "other"}).status == 200
    wire.commit("main", put("t"))
    assert wire.send("GET", "/r/other/api/v2/trees/main/contents/t").status == 404
    assert wire.send("GET", "/r/default/api/v2/trees/main/contents/t").status == 200
    taken = wire.v2("POST", "/repositories", {"name": "other"})
    assert taken.code == (409, "REPOSITORY_ALREADY_EXISTS")


def test_a_rename_is_a_delete_and_a_put(wire):
    wire.commit("main", put("t"))
    content = wire.v2("GET", "/trees/main/contents/t").json["content"]
    wire.commit("main", delete("t"), put("u", content=content))
    assert wire.v2("GET", "/trees/main/contents/u").json["content"] == content


def test_the_document_is_served(wire):
    for path in ("/openapi.yaml", "/api/openapi.yaml"):
        answer = wire.send("GET", path)
        assert answer.status == 200
        assert answer.body.startswith(b'openapi: "3.1.0"')


def test_a_table_may_carry_opaque_metadata(wire):
    metadata = {"anything": [1, {"deep": None}]}
    wire.commit("main", put("t", content=table(metadata=metadata)), put("u"))
    assert wire.v2("GET", "/trees/main/contents/t").json["content"]["metadata"] == metadata
    assert "metadata" not in wire.v2("GET", "/trees/main/contents/u").json["content"]


@pytest.mark.parametrize(
    ("method", "target", "body", "brief"),
    [
        ("GET", "/trees/main", b"", True),
        ("GET", "/trees/main?fetch=ALL", b"", False),
        ("GET", "/trees?max-records=1000", b"", True),
        ("GET", "/trees?max-records=1001", b"", False),
        ("GET", "/trees?max-records=10&fetch=all", b"", False),
        ("GET", "/trees/main/entries", b"", False),
        ("GET", "/trees/main/entries?max-records=250", b"", True),
        ("GET", "/trees/main/entries?max-records=250&filter=true", b"", False),
        ("GET", "/trees/main/history", b"", True),
        ("GET", "/trees/main/history?fetch=ALL", b"", False),
        ("GET", "/trees/main/contents/t", b"", True),
        ("POST", "/trees/main/contents", b"x" * 1_000, True),
        ("POST", "/trees/main/contents", b"x" * 100_000, False),
        ("POST", "/trees/main/history/commit", b"", True),
        ("POST", "/trees/main/history/merge", b"", False),
    ],
)
def test_only_what_is_short_runs_on_the_event_loop(wire, method, target, body, brief):
    assert wire.is_brief(method, f"/api/v2{target}", body) is brief


def references_in(node):
    """Yields all references of an answer, wherever they stand."""
    if isinstance(node, dict):
        if node.get("type") in {"BRANCH", "TAG"}:
            yield node
        node = list(node.values())
    for each in node if isinstance(node, list) else []:
        yield from references_in(each)


NESSIE_FIELDS = {"type", "name", "hash", "metadata"}


def test_nessies_own_clients_get_no_field_of_a_reference_that_they_do_not_know(wire):
    wire.commit("main", put("t"))
    source = {"type": "BRANCH", "name": "main", "hash": wire.head()}
    wire.v2("POST", "/trees?name=brief&type=BRANCH", source | {"ttl": "P1D"})
    wire.v2("POST", "/trees?name=v1&type=TAG", source | {"annotation": {"message": "m"}})
    reads = [
        *("/trees", "/trees?fetch=ALL", "/trees/brief", "/trees/v1", "/trees/brief/entries"),
        *("/trees/brief/contents/t", "/trees/brief/contents?key=t", "/trees/v1/diff/brief"),
        *("/trees/brief/recent-changes", "/trees/brief/history"),
    ]
    for target in reads:
        theirs = wire.v2("GET", target, nessie_client_spec="2")
        assert theirs.status == 200, target
        for found in references_in(theirs.json):
            assert set(found) <= NESSIE_FIELDS, target
    for headers in ({}, {"nessie_client_spec": "2", "lochan_client": "1"}):
        ours = list(references_in(wire.v2("GET", "/trees", **headers).json))
        assert sum("expiresAt" in each for each in ours) == 1
        assert sum("annotation" in each for each in ours) == 1
    on = f"brief@{wire.head('brief')}"
    body = {"commitMeta": {"message": "m"}, "operations": [put("u")]}
    writes = [
        ("POST", f"/trees/{on}/history/commit", body),
        ("PUT", "/trees/brief?type=BRANCH", source),
        ("DELETE", "/trees/brief?type=BRANCH", None),
    ]
    for method, target, sent in writes:
        if "@" not in target:
            target = target.replace("brief", f"brief@{wire.head('brief')}")
        theirs = wire.v2(method, target, *([] if sent is None else [sent]), nessie_client_spec="2")
        assert theirs.status == 200, theirs.json
        found = list(references_in(theirs.json))
        assert found
        assert all(set(each) <= NESSIE_FIELDS for each in found)
