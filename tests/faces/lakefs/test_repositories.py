"""The lakeFS API: repositories, their settings, sample data and imports."""

from __future__ import annotations

import io

import pyarrow.parquet as pq
import pytest

from tests.faces.lakefs.lakefs_bench import LakefsRepository


@pytest.mark.parametrize(
    "change",
    [
        {"name": "Upper"},
        {"name": "ab"},
        {"name": "a" * 64},
        {"name": "api"},
        {"name": "-abc"},
        {"storage_namespace": ""},
        {"storage_namespace": "ftp://place"},
        {"storage_namespace": "local:place"},
        {"storage_namespace": "file:///etc"},
        {"storage_id": "other"},
    ],
)
def test_a_repository_with_a_wrong_name_or_place_is_refused(shared, change):
    body = {"name": "some-name", "storage_namespace": "local://place", **change}
    refused = shared.http.post("/repositories", json=body)
    assert (refused.status_code, set(refused.json())) == (400, {"message"}), refused.text
    assert shared.http.get(f"/repositories/{body['name']}").status_code in (400, 404)


def test_a_repository_is_shown_as_it_was_made(shared):
    place = {"name": "shown-one", "storage_namespace": "local://a/b", "default_branch": "trunk"}
    made = shared.http.post("/repositories", json=place)
    assert made.status_code == 201
    shown = made.json()
    assert (shown["id"], shown["storage_namespace"]) == ("shown-one", "local://a/b")
    assert (shown["default_branch"], shown["storage_id"]) == ("trunk", "")
    assert shared.http.get("/repositories/shown-one").json() == shown
    assert shared.http.post("/repositories", json=place).status_code == 409
    read_only = {**place, "name": "read-only", "read_only": True}
    assert shared.http.post("/repositories", json=read_only).status_code == 501


def test_repositories_are_listed_in_pages(shared):
    names = [shared.repository().name for _ in range(3)]
    for at in range(3):
        body = {"name": f"listed-{at}", "storage_namespace": "local://x"}
        assert shared.http.post("/repositories", json=body).status_code == 201
    seen, after = [], ""
    while True:
        params = {"amount": 2, "after": after, "prefix": "listed-"}
        page = shared.http.get("/repositories", params=params).json()
        seen += [one["id"] for one in page["results"]]
        if not page["pagination"]["has_more"]:
            break
        after = page["pagination"]["next_offset"]
    assert seen == ["listed-0", "listed-1", "listed-2"]
    found = shared.http.get("/repositories", params={"search": names[0]}).json()["results"]
    assert names[0] in [one["id"] for one in found]


def test_a_deleted_repository_is_gone_and_its_name_is_free(shared):
    repository = shared.repository()
    repository.put("a", b"1" * 20_000)
    path = f"/repositories/{repository.name}"
    assert shared.http.delete(path).status_code == 204
    assert shared.http.get(path).status_code == 404
    assert shared.http.delete(path).status_code == 404
    assert repository.send("POST", "/branches/main/objects?path=a", content=b"").status_code == 404
    body = {"name": repository.name, "storage_namespace": "local://again"}
    assert shared.http.post("/repositories", json=body).status_code == 201
    assert repository.read("a") is None
    assert shared.http.delete("/repositories/default").status_code == 403


def test_a_protected_branch_takes_merges_only(repository):
    repository.put("a", b"1")
    repository.branch("side")
    repository.put("b", b"1", "side")
    rules = "/settings/branch_protection"
    shown = repository.send("GET", rules)
    assert shown.json() == []
    repository.upload("staged", b"1")
    repository.done("PUT", rules, json=[{"pattern": "ma*"}])
    for method, path, body in (
        ("POST", "/branches/main/objects?path=c", None),
        ("DELETE", "/branches/main/objects?path=a", None),
        ("POST", "/branches/main/objects/delete", {"paths": ["a"]}),
        ("POST", "/branches/main/objects/copy?dest_path=d", {"src_path": "a"}),
        ("POST", "/branches/main/commits", {"message": "m"}),
        ("GET", "/branches/main/objects/stage_allowed?path=a", None),
        ("PUT", "/branches/main/objects/stat/user_metadata?path=a", {"set": {}}),
    ):
        refused = repository.send(method, path, json=body)
        assert refused.status_code == 403, path
        assert refused.json() == {"message": "cannot write to protected branch"}
    repository.done("PUT", "/branches/main", json={"type": "reset"})
    repository.done("POST", "/refs/side/merge/main", json={})
    repository.put("c", b"1", "side")
    stale = {"if-match": shown.headers["etag"]}
    assert repository.send("PUT", rules, json=[], headers=stale).status_code == 412
    current = {"if-match": repository.send("GET", rules).headers["etag"]}
    repository.done("PUT", rules, json=[], headers=current)
    repository.put("c", b"1")


def test_retention_rules_and_metadata_are_kept(repository):
    rules = {"default_retention_days": 7, "branches": [{"branch_id": "main", "retention_days": 3}]}
    path = "/settings/gc_rules"
    assert repository.send("GET", path).status_code == 404
    repository.done("PUT", path, json=rules)
    assert repository.done("GET", path) == rules
    wrong = {"default_retention_days": -1, "branches": []}
    assert repository.send("PUT", path, json=wrong).status_code == 400
    repository.done("DELETE", path)
    assert repository.send("DELETE", path).status_code == 404
    repository.done("POST", "/metadata", json={"metadata": {"a": "1", "b": "2"}})
    repository.done("POST", "/metadata", json={"metadata": {"b": "3"}})
    repository.done("DELETE", "/metadata", json={"keys": ["a", "absent"]})
    assert repository.done("GET", "/metadata") == {"b": "3"}


def test_sample_data_is_committed_and_can_be_read(shared):
    repository = shared.repository(sample_data=True)
    root = repository.done("GET", "/refs/main/objects/ls", params={"delimiter": "/"})["results"]
    assert [one["path"] for one in root] == ["README.md", "data/", "images/", "lakes.parquet"]
    assert repository.done("GET", "/branches/main/diff")["results"] == []
    raw = repository.read("lakes.parquet")
    assert raw is not None
    assert len(raw) > 512 * 1_024
    table = pq.read_table(io.BytesIO(raw))
    assert table.column_names == ["Hylak_id", "Depth_m", "Lake_area"]
    assert table["Hylak_id"].to_pylist() == list(range(50_000))
    assert table["Lake_area"][1].as_py() == 0.5 + 791.9
    picture = repository.read("images/lake-00.png")
    assert picture is not None
    assert picture.startswith(b"\x89PNG")


def _import(repository: LakefsRepository, url: str, kind: str = "common_prefix"):
    paths = [{"type": kind, "path": url, "destination": "in/"}]
    body = {"paths": paths, "commit": {"message": "imported", "metadata": {"x": "y"}}}
    return repository.send("POST", "/branches/main/import", json=body)


def _ended(repository: LakefsRepository, params: dict[str, str]):
    """Polls as clients do; the timeout of a test ends it."""
    while True:
        status = repository.done("GET", "/branches/main/import", params=params)
        if status["completed"] or "error" in status:
            return status


def test_an_import_is_one_commit_whose_outcome_can_be_read(shared):
    repository, folder = shared.repository(), shared.folder / "imported" / "some"
    folder.mkdir()
    for name in ("one", "two"):
        (folder / name).write_bytes(name.encode())
    started = _import(repository, f"file://{folder}/")
    assert started.status_code == 202, started.text
    params = {"id": started.json()["id"]}
    status = _ended(repository, params)
    assert (status["completed"], status["ingested_objects"]) == (True, 2)
    assert status["commit"]["id"] == repository.head()
    assert (status["commit"]["message"], status["commit"]["metadata"]) == ("imported", {"x": "y"})
    assert repository.read("in/two") == b"two"
    assert repository.send("DELETE", "/branches/main/import", params=params).status_code == 409
    other = shared.repository()
    forged = params["id"][:-2] + ("aa" if params["id"][-2:] != "aa" else "bb")
    for where, given in ((other, params), (repository, {"id": forged}), (repository, {"id": "x"})):
        assert where.send("GET", "/branches/main/import", params=given).status_code == 404


def test_an_import_from_elsewhere_is_refused(repository):
    for url, kind in (("file:///etc/", "common_prefix"), ("file:///etc/passwd", "object")):
        started = _import(repository, url, kind)
        assert started.status_code == 202
        status = _ended(repository, started.json())
        assert (status["completed"], bool(status["error"]["message"])) == (False, True)
    assert _import(repository, "file:///etc/", "other").status_code == 400
    assert repository.done("GET", "/refs/main/objects/ls")["results"] == []
