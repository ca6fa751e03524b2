"""The lakeFS API: references, commits, merges and differences mean what they mean in lakeFS."""

from __future__ import annotations

import httpx
import pytest

from lochan.base.ids import EMPTY_ID
from tests.faces.lakefs.lakefs_bench import KEY, SECRET

EMPTY = EMPTY_ID.hex()


def messages(repository, ref="main", amount=1_000, **params):
    return [one["message"] for one in repository.paged(f"/refs/{ref}/commits", amount, **params)]


def test_the_empty_hash_is_the_first_commit(repository):
    first = repository.done("GET", f"/commits/{EMPTY}")
    assert (first["message"], first["parents"], first["metadata"]) == ("Repository created", [], {})
    assert repository.head() == EMPTY
    made = repository.put("a", b"1")
    assert repository.done("GET", f"/commits/{made}")["parents"] == [EMPTY]
    assert messages(repository) == ["put a", "Repository created"]
    assert messages(repository, amount=1) == ["put a", "Repository created"]
    assert repository.read("a", f"{made}~1") is None
    repository.branch("from-the-first", EMPTY)
    assert repository.head("from-the-first") == EMPTY


def test_a_commit_has_what_its_author_states(repository):
    repository.upload("a", b"1")
    body = {"message": "words", "metadata": {"x": "y", "z": ""}, "date": 1_600_000_000}
    made = repository.done("POST", "/branches/main/commits", json=body)
    assert (made["message"], made["metadata"]) == ("words", {"x": "y", "z": ""})
    assert (made["creation_date"], made["committer"]) == (1_600_000_000, "ada")
    shown = repository.done("GET", f"/commits/{made['id']}")
    assert {**made, "generation": shown["generation"]} == shown


def test_a_commit_without_changes_is_refused_unless_it_may_be_empty(repository):
    repository.put("a", b"1")
    repository.upload("a", b"1")
    refused = repository.send("POST", "/branches/main/commits", json={"message": "m"})
    assert (refused.status_code, refused.json()) == (400, {"message": "commit: no changes"})
    assert repository.commit("empty", allow_empty=True) == repository.head()


def test_a_commit_that_another_one_has_overtaken_is_empty_and_only_once(repository):
    with httpx.Client(auth=(KEY, SECRET)) as other:
        base = f"{repository.bench.url}/api/v1/repositories/{repository.name}/branches/main"
        made = other.post(f"{base}/objects", params={"path": "a"}, content=b"1")
        assert made.status_code == 201
        taking = repository.commit("takes it")
        late = other.post(f"{base}/commits", json={"message": "late"})
        assert (late.status_code, late.json()["parents"]) == (201, [taking])
        assert other.post(f"{base}/commits", json={"message": "m"}).status_code == 400
    assert messages(repository) == ["late", "takes it", "Repository created"]
    assert changes(repository, "/refs/main~1/diff/main") == []


@pytest.mark.parametrize(
    ("ref", "expected"),
    [
        ("main", b"4"),
        ("main@", b"3"),
        ("main$", b"4"),
        ("main~0", b"3"),
        ("main~", b"2"),
        ("main^", b"2"),
        ("main~1", b"2"),
        ("main~~", b"1"),
        ("main^^", b"1"),
        ("main~1^1", b"1"),
        ("main~2", b"1"),
        ("main~3", None),
        ("main~4", None),
        ("tag", b"2"),
        ("tag~1", b"1"),
    ],
)
def test_references_are_written_as_in_lakefs(repository, ref, expected):
    ids = [repository.put("a", b"%d" % at) for at in (1, 2, 3)]
    repository.done("POST", "/tags", json={"id": "tag", "ref": ids[1]})
    repository.upload("a", b"4")
    assert repository.read("a", ref) == expected


def test_a_commit_is_named_by_its_id_or_its_first_digits(repository):
    made = repository.put("a", b"1")
    repository.put("a", b"2")
    for digits in (made, made[:63], made[:20], made[:7], made[:6]):
        assert repository.read("a", digits) == b"1"
        assert repository.done("GET", f"/commits/{digits}")["id"] == made
    for wrong in ("0" * 64, "f" * 12, made[:5], "1abcd", "abcde"):
        assert repository.send("GET", f"/commits/{wrong}").status_code == 404
    for wrong in ("main@@", "~1", "main~x", "", "main~" + "9" * 12):
        path = f"/refs/{wrong}/objects/ls"
        assert repository.send("GET", path).status_code in (400, 404), wrong


def test_a_path_that_is_staged_alone_is_asked_for_with_a_dollar(repository):
    repository.put("a", b"1")
    repository.upload("b", b"2")
    listed = repository.done("GET", "/refs/main$/objects/ls")["results"]
    assert [one["path"] for one in listed] == ["b"]
    assert repository.read("a", "main$") is None
    assert repository.send("GET", "/refs/main$/commits").status_code == 400


@pytest.mark.parametrize("amount", [1, 2, 7, 1_000])
def test_the_log_has_every_commit_once_and_parents_after_children(repository, amount):
    repository.put("a", b"1")
    repository.branch("side")
    for at in range(3):
        repository.put(f"side-{at}", b"x", "side")
    repository.put("b", b"1")
    repository.done("POST", "/refs/side/merge/main", json={"message": "merge"})
    repository.put("c", b"1")
    log = repository.paged("/refs/main/commits", amount)
    ids = [one["id"] for one in log]
    assert len(ids) == len(set(ids)) == 8
    assert ids[-1] == EMPTY
    for at, one in enumerate(log):
        assert all(ids.index(parent) > at for parent in one["parents"])
    assert messages(repository, amount=amount, first_parent="true") == [
        *["put c", "merge", "put b", "put a", "Repository created"]
    ]


def test_a_log_can_be_limited_by_paths_and_by_its_end(repository):
    first = repository.put("a/1", b"1")
    repository.put("b", b"1")
    repository.put("a/2", b"1")
    assert messages(repository, prefixes="a/", amount=1) == ["put a/2", "put a/1"]
    assert messages(repository, objects="b") == ["put b"]
    assert messages(repository, stop_at=first) == ["put a/2", "put b", "put a/1"]
    assert messages(repository, since="2999-01-01T00:00:00Z") == []
    limited = {"limit": "true", "amount": 1}
    page = repository.done("GET", "/refs/main/commits", params=limited)
    assert (page["pagination"]["has_more"], len(page["results"])) == (False, 1)


def changes(repository, path, amount=1_000, **params):
    found = repository.paged(path, amount, **params)
    return [(one["type"], one["path"], one.get("size_bytes")) for one in found]


@pytest.mark.parametrize("amount", [1, 1_000])
def test_differences_are_of_two_commits_or_since_they_parted(repository, amount):
    for path in ("kept", "changed", "removed"):
        repository.upload(path, b"1")
    repository.commit()
    repository.branch("side")
    repository.upload("changed", b"22", "side")
    repository.upload("added/1", b"1", "side")
    repository.upload("added/2", b"1", "side")
    repository.done("DELETE", "/branches/side/objects?path=removed")
    staged = [
        *[("added", "added/1", 1), ("added", "added/2", 1)],
        *[("changed", "changed", 2), ("removed", "removed", 0)],
    ]
    assert changes(repository, "/branches/side/diff", amount) == staged
    repository.commit(branch="side")
    repository.put("main-only", b"1")
    diff = "/refs/main/diff/side"
    assert changes(repository, diff, amount) == staged
    two = [*staged, ("removed", "main-only", 0)]
    assert changes(repository, diff, amount, type="two_dot") == sorted(two, key=lambda one: one[1])
    folded = changes(repository, diff, amount, delimiter="/")
    assert folded[0] == ("prefix_changed", "added/", None)
    assert changes(repository, diff, amount, prefix="added/2") == [("added", "added/2", 1)]
    assert repository.send("GET", diff, params={"type": "none"}).status_code == 400


def conflicting(repository):
    repository.put("a", b"base")
    repository.branch("side")
    repository.put("a", b"theirs", "side")
    repository.put("a", b"ours")


@pytest.mark.parametrize(
    ("strategy", "expected"), [("source-wins", b"theirs"), ("dest-wins", b"ours")]
)
def test_a_merge_in_conflict_needs_a_strategy(repository, strategy, expected):
    conflicting(repository)
    before = repository.head()
    refused = repository.send("POST", "/refs/side/merge/main", json={})
    assert refused.status_code == 409
    assert "conflict" in refused.json()["message"]
    assert repository.head() == before
    unknown = repository.send("POST", "/refs/side/merge/main", json={"strategy": "both"})
    assert unknown.status_code == 400
    done = repository.done("POST", "/refs/side/merge/main", json={"strategy": strategy})
    assert done["reference"] == repository.head()
    assert repository.read("a") == expected
    made = repository.done("GET", f"/commits/{done['reference']}")
    assert made["parents"] == [before, repository.head("side")]
    assert made["message"] == "Merge 'side' into 'main'"
    assert made["metadata"] == {".lakefs.merge.strategy": strategy}


def test_a_merge_without_anything_new_is_refused_unless_it_may_be_empty(repository):
    repository.put("a", b"1")
    repository.branch("side")
    refused = repository.send("POST", "/refs/side/merge/main", json={})
    assert (refused.status_code, refused.json()) == (400, {"message": "commit: no changes"})
    repository.done("POST", "/refs/side/merge/main", json={"allow_empty": True})
    # Commits that change nothing in total are new all the same.
    repository.put("b", b"1", "side")
    repository.done("DELETE", "/branches/side/objects?path=b")
    repository.commit(branch="side")
    repository.done("POST", "/refs/side/merge/main", json={})
    again = repository.send("POST", "/refs/side/merge/main", json={})
    assert again.status_code == 400


def test_a_squashed_merge_has_one_parent(repository):
    repository.branch("side")
    repository.put("a", b"1", "side")
    before = repository.head()
    done = repository.done("POST", "/refs/side/merge/main", json={"squash_merge": True})
    assert repository.done("GET", f"/commits/{done['reference']}")["parents"] == [before]
    assert repository.read("a", "main@") == b"1"


def test_where_two_histories_parted_is_found(repository):
    base = repository.put("a", b"1")
    repository.branch("side")
    source = repository.put("b", b"1", "side")
    target = repository.put("c", b"1")
    assert repository.done("GET", "/refs/side/merge/main") == {
        "source_commit_id": source,
        "destination_commit_id": target,
        "base_commit_id": base,
    }


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/refs/side/merge/main", {}),
        ("/branches/main/revert", {"ref": "main", "parent_number": 0}),
        ("/branches/main/cherry-pick", {"ref": "side"}),
    ],
)
def test_a_branch_with_staged_objects_takes_no_merge(repository, path, body):
    repository.put("a", b"1")
    repository.branch("side")
    repository.put("b", b"1", "side")
    repository.upload("staged", b"1")
    refused = repository.send("POST", path, json=body)
    assert (refused.status_code, refused.json()["message"]) == (
        400,
        "uncommitted changes (dirty branch)",
    )
    moved = repository.send("PUT", "/branches/main/hard_reset", params={"ref": "main~1"})
    assert moved.status_code == 400
    repository.done("PUT", "/branches/main", json={"type": "reset"})
    repository.done("POST", path, json=body)


def test_commits_are_undone_and_made_again(repository):
    repository.put("a", b"1")
    repository.branch("side")
    over = {"message": "words", "metadata": {"x": "y"}}
    made = repository.put("b", b"1", "side")
    body = {"ref": "side", "commit_overrides": over}
    picked = repository.done("POST", "/branches/main/cherry-pick", json=body)
    assert picked["id"] == repository.head() != made
    assert (picked["message"], picked["committer"]) == ("words", "ada")
    assert picked["metadata"] == {"cherry-pick-origin": made, "x": "y"}
    assert repository.read("b") == b"1"
    undo = {"ref": "main", "parent_number": 0, "commit_overrides": over}
    assert repository.send("POST", "/branches/main/revert", json=undo).status_code == 204
    assert repository.read("b") is None
    shown = repository.done("GET", f"/commits/{repository.head()}")
    assert (shown["message"], shown["metadata"]) == ("words", {"x": "y"})


@pytest.mark.parametrize("word", ["revert", "cherry-pick"])
def test_of_a_merge_the_first_parent_is_named(repository, word):
    repository.put("a", b"1")
    repository.branch("side")
    repository.put("b", b"1", "side")
    repository.put("c", b"1")
    repository.branch("other")
    merge = repository.done("POST", "/refs/side/merge/main", json={})["reference"]
    path = f"/branches/{'main' if word == 'revert' else 'other'}/{word}"
    for parent in ({}, {"parent_number": 2}, {"parent_number": 3}):
        body = {"ref": merge, "parent_number": 0, **parent}
        if word == "cherry-pick" and not parent:
            body.pop("parent_number")
        assert repository.send("POST", path, json=body).status_code == 400
    repository.done("POST", path, json={"ref": merge, "parent_number": 1})
    assert repository.read("b", path.split("/")[2]) == (None if word == "revert" else b"1")


def test_staged_changes_are_dropped_by_kind(repository):
    for path in ("a", "b/1", "b/2", "c"):
        repository.upload(path, b"1")
    repository.done("PUT", "/branches/main", json={"type": "object", "path": "a"})
    repository.done("PUT", "/branches/main", json={"type": "common_prefix", "path": "b/"})
    listed = repository.done("GET", "/refs/main/objects/ls")["results"]
    assert [one["path"] for one in listed] == ["c"]
    for body in ({"type": "object"}, {"type": "other", "path": "c"}):
        assert repository.send("PUT", "/branches/main", json=body).status_code == 400
    repository.done("PUT", "/branches/main", json={"type": "reset"})
    assert repository.done("GET", "/refs/main/objects/ls")["results"] == []


def test_branches_and_tags_are_listed_apart_and_in_pages(repository):
    repository.put("a", b"1")
    for at in range(5):
        repository.branch(f"b{at}")
        repository.done("POST", "/tags", json={"id": f"b{at}-tag", "ref": f"b{at}"})
    repository.branch("b-hidden", hidden=True)

    def names(path, **params):
        return [one["id"] for one in repository.paged(path, 2, **params)]

    assert names("/branches") == ["b0", "b1", "b2", "b3", "b4", "main"]
    assert names("/branches", show_hidden="true")[0] == "b-hidden"
    assert names("/tags", prefix="b2") == ["b2-tag"]
    page = repository.done("GET", "/branches", params={"after": "b2", "prefix": "b"})
    assert [one["id"] for one in page["results"]] == ["b3", "b4"]
    assert repository.head("b-hidden") == repository.head()


def test_names_that_are_taken_wrong_or_needed_are_refused(repository):
    repository.put("a", b"1")
    repository.branch("side")
    repository.done("POST", "/tags", json={"id": "v1", "ref": "main"})
    for path, body, status, words in (
        ("/branches", {"name": "side", "source": "main"}, 409, "branch already exists"),
        ("/tags", {"id": "v1", "ref": "main"}, 409, "tag already exists"),
        ("/branches", {"name": "bad name", "source": "main"}, 400, "must"),
        ("/branches", {"name": "new", "source": "absent"}, 404, "not found"),
        ("/branches", {"source": "main"}, 400, "name"),
    ):
        refused = repository.send("POST", path, json=body)
        assert refused.status_code == status, refused.text
        assert words in refused.json()["message"]
    assert repository.send("DELETE", "/branches/main").status_code == 403
    assert repository.send("GET", "/branches/v1").status_code == 404
    assert repository.send("GET", "/tags/side").status_code == 404
    repository.done("DELETE", "/tags/v1")
    assert repository.send("DELETE", "/tags/v1").status_code == 404


def test_tables_are_in_the_same_commits_and_are_no_objects(shared):
    repository = shared.repository()
    repository.upload("file", b"1")
    repository.commit("file")
    table = {"type": "ICEBERG_TABLE", "metadataLocation": "x", "snapshotId": 1, "schemaId": 1}
    table |= {"specId": 1, "sortOrderId": 1}
    put = {"type": "PUT", "key": {"elements": ["t"]}, "content": table}
    body = {"commitMeta": {"message": "table"}, "operations": [put]}
    nessie = f"{shared.main}/r/{repository.name}/api/v2/trees/main@{repository.head()}"
    made = httpx.post(f"{nessie}/history/commit", json=body, auth=(KEY, SECRET))
    assert made.status_code == 200, made.text
    assert repository.head() == made.json()["targetBranch"]["hash"]
    assert messages(repository) == ["table", "file", "Repository created"]
    listed = repository.done("GET", "/refs/main/objects/ls")["results"]
    assert [one["path"] for one in listed] == ["file"]
    assert changes(repository, "/refs/main~1/diff/main") == []
