"""The client reads replies as Nessie's server writes them, with nulls and fields of its own."""

from __future__ import annotations

from typing import Any

import httpx

from lochan.client import Client
from lochan.model.commits import Delete
from lochan.model.references import Reference

HASH = "2e1cfa82b035c26c" * 4
MAIN = {"type": "BRANCH", "name": "main", "hash": HASH}
META = {
    "hash": HASH,
    "committer": None,
    "authors": ["Ada"],
    "allSignedOffBy": [],
    "message": "first",
    "commitTime": "2024-01-02T03:04:05.678901Z",
    "authorTime": None,
    "someNewField": 1,
}


def answered(reply: dict[str, Any]) -> Client:
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json=reply))
    return Client("http://localhost", transport=transport, attempts_max=1)


def test_a_commit_that_adds_no_content_has_null_for_the_added_ones():
    client = answered({"targetBranch": MAIN, "addedContents": None})
    committed = client.commits.commit("main", "away", [Delete(key=("a",))], expected=HASH)
    assert (committed.branch, committed.hash, committed.added) == ("main", HASH, ())


def test_a_log_without_operations_has_null_for_them():
    entry = {"commitMeta": META, "parentCommitHash": None, "operations": None}
    page = answered({"hasMore": False, "token": None, "logEntries": [entry]}).history.log()
    (found,) = page.items
    assert (found.meta.message, found.meta.committer, found.meta.properties) == ("first", "", ())
    assert (found.parent, found.operations) == ("", None)


def test_the_metadata_of_a_tag_has_null_for_the_distances():
    metadata = {
        "numCommitsAhead": None,
        "numCommitsBehind": None,
        "commitMetaOfHEAD": META,
        "commonAncestorHash": None,
        "numTotalCommits": 3,
    }
    tag = {"type": "TAG", "name": "v1", "hash": HASH, "metadata": metadata}
    found = answered({"reference": tag}).references.get("v1", fetch_all=True)
    assert found.metadata is not None
    assert (found.metadata.total, found.metadata.ahead) == (3, None)


def test_a_detached_reference_has_no_name():
    detached = {"type": "DETACHED", "hash": HASH}
    reply = {"contents": [], "effectiveReference": detached}
    _, reference = answered(reply).contents.get_many(HASH, [("a",)])
    assert reference == Reference("DETACHED", None, HASH)


def test_a_merge_names_no_commits():
    merged = answered(
        {
            "resultantTargetHash": None,
            "commonAncestor": None,
            "targetBranch": "main",
            "effectiveTargetHash": HASH,
            "expectedHash": None,
            "details": [{"key": {"elements": ["a"]}, "mergeBehavior": "NORMAL"}],
            "wasApplied": False,
            "wasSuccessful": True,
        }
    ).merges.merge("main", f"dev@{HASH}", expected=HASH, dry_run=True)
    assert (merged.successful, merged.applied, merged.commits) == (True, False, ())
    assert [each.key for each in merged.keys] == [("a",)]


def test_a_setting_that_was_not_set_has_a_null_before():
    assert answered({"previous": None}).settings.update({"type": "X"}) is None
