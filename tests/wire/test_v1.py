"""Version 1: its own spellings, and messages that tests of its clients read."""

from __future__ import annotations

import pytest

from tests.wire.harness import EMPTY, Wire, namespace, put

V2_ONLY = (
    b'"contentId"',
    b'"effectiveReference"',
    b'"authors"',
    b'"allSignedOffBy"',
    b'"addedContents"',
    b'"effectiveFromReference"',
)


@pytest.fixture
def wire():
    return Wire()


def test_nothing_of_version_2_is_in_its_answers(wire):
    wire.commit("main", put("ns", content=namespace("ns")), put("ns", "t"))
    wire.branch("dev")
    for target in (
        "/config",
        "/trees?fetch=ALL",
        "/trees/tree",
        "/trees/tree/dev?fetch=ALL",
        "/trees/tree/main/entries",
        "/trees/tree/main/log?fetch=ALL",
        "/contents/ns.t",
        "/diffs/main...dev",
        "/namespaces/main",
        "/namespaces/namespace/main/ns",
    ):
        answer = wire.v1("GET", target)
        assert answer.status == 200
        assert not [name for name in V2_ONLY if name in answer.body]


def test_missing_bodies_are_reported_as_by_the_java_server(wire):
    merge = wire.v1("POST", "/trees/branch/main/merge")
    assert merge.code == (400, "BAD_REQUEST")
    assert ".merge: must not be null" in merge.message
    tag = wire.v1("PUT", "/trees/tag/newTag")
    assert ".assignTo: must not be null" in tag.message
    assert ".expectedHash: must not be null" in tag.message


@pytest.mark.parametrize("name", ["", "abc'", ".foo", "abc'de..blah", "abc'de@{blah"])
def test_a_wrong_name_is_reported_as_by_the_java_server(wire, name):
    body = {"type": "TAG", "name": name, "hash": "0011223344556677"}
    answer = wire.v1("PUT", "/trees/tag/hello", body)
    assert answer.code == (400, "BAD_REQUEST")
    assert (
        "Cannot construct instance of `org.projectnessie.model.ImmutableTag`, problem: "
        "Reference name must start with a letter, followed by letters, digits, one of the ./_- "
        f"characters, not end with a slash or dot, not contain '..' - but was: {name}\n"
    ) in answer.message


def test_a_wrong_type_is_reported_as_by_the_java_server(wire):
    body = {"type": "FOOBAR", "name": "hello", "hash": "0011223344556677"}
    answer = wire.v1("PUT", "/trees/tag/hello", body)
    assert (
        "Could not resolve type id 'FOOBAR' as a subtype of `org.projectnessie.model.Reference`"
    ) in answer.message


def test_entries_of_a_depth_show_deeper_ones_once_as_namespaces(wire):
    wire.commit(
        "main",
        put("a", content=namespace("a")),
        put("a", "b", content=namespace("a", "b")),
        put("a", "b", "t"),
        put("a", "b", "u"),
        put("a", "t"),
        put("t"),
    )
    entries = wire.v1("GET", "/trees/tree/main/entries?namespaceDepth=2").json["entries"]
    assert [(each["type"], each["name"]["elements"]) for each in entries] == [
        ("NAMESPACE", ["a", "b"]),
        ("ICEBERG_TABLE", ["a", "t"]),
    ]


def test_contents_are_of_the_default_branch_unless_another_is_named(wire):
    wire.branch("dev")
    wire.commit("main", put("t"))
    assert wire.v1("GET", "/contents/t").status == 200
    assert wire.v1("GET", "/contents/t?ref=dev").code == (404, "CONTENT_NOT_FOUND")
    assert wire.v1("GET", f"/contents/t?hashOnRef={EMPTY}").status == 404
    detached = wire.v1("GET", f"/contents/t?ref=DETACHED&hashOnRef={wire.head()}")
    assert detached.status == 200
    assert wire.v1("GET", "/contents/t?ref=DETACHED").message == "Expected hash must be provided."


def test_names_with_slashes_are_one_segment(wire):
    wire.branch("feature/x")
    assert wire.v1("GET", "/trees/tree/feature%2Fx").json["name"] == "feature/x"
    assert wire.v1("GET", "/diffs/main...feature%2Fx").status == 200


def test_namespaces_have_errors_of_their_own(wire):
    created = wire.v1("PUT", "/namespaces/namespace/main/ns", namespace("ns"))
    assert created.json["id"]
    again = wire.v1("PUT", "/namespaces/namespace/main/ns", namespace("ns"), Nessie_Client_Spec="2")
    assert again.code == (409, "NAMESPACE_ALREADY_EXISTS")
    assert again.json["errorDetails"] == {"type": "CONTENT_KEY", "contentKey": {"elements": ["ns"]}}
    wire.commit("main", put("ns", "t"))
    full = wire.v1("DELETE", "/namespaces/namespace/main/ns")
    assert full.code == (409, "NAMESPACE_NOT_EMPTY")
    gone = wire.v1("GET", "/namespaces/namespace/main/nothing")
    assert gone.code == (404, "NAMESPACE_NOT_FOUND")


def test_a_namespace_has_the_name_of_its_path(wire):
    created = wire.v1("PUT", "/namespaces/namespace/main/ns", namespace("other", id="7"))
    assert created.json["elements"] == ["ns"]
    assert created.json["id"] != "7"


def test_commits_that_are_kept_or_not_are_the_only_way(wire):
    head = wire.commit("main", put("t"))
    merge = {"fromRefName": "main", "fromHash": head, "keepIndividualCommits": True}
    assert "keepIndividualCommits" in (
        wire.v1("POST", f"/trees/branch/main/merge?expectedHash={head}", merge).message
    )
    transplant = {
        "fromRefName": "main",
        "hashesToTransplant": [head],
        "keepIndividualCommits": False,
    }
    assert "keepIndividualCommits" in (
        wire.v1("POST", f"/trees/branch/main/transplant?expectedHash={head}", transplant).message
    )


def test_conflicts_of_a_merge_are_unresolvable(wire):
    wire.branch("dev")
    wire.commit("dev", put("t"))
    wire.commit("main", put("t"))
    merge = {
        "fromRefName": "dev",
        "fromHash": wire.head("dev"),
        "isReturnConflictAsResult": True,
    }
    answer = wire.v1("POST", f"/trees/branch/main/merge?expectedHash={wire.head()}", merge)
    assert answer.json["wasSuccessful"] is False
    assert [each["conflictType"] for each in answer.json["details"]] == ["UNRESOLVABLE"]
