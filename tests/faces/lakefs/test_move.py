"""A repository is moved through the lakeFS API: every commit, branch, tag and object."""

from __future__ import annotations

from contextlib import closing, contextmanager

from examples.move_from_lakefs import Lake, move

from tests.faces.lakefs.lakefs_bench import KEY, SECRET


@contextmanager
def sides(shared, name):
    """A repository on both sides; the second one is made by the move."""
    source, target = (Lake(shared.url, KEY, SECRET, each) for each in (name, f"{name}-moved"))
    with closing(source.http), closing(target.http):
        yield source, target


def test_a_moved_repository_has_the_same_history_and_objects(shared):
    repository = shared.repository()
    repository.upload("a b/é", b"1", content_type="text/x", x_lakefs_meta_k="v")
    repository.upload("large", bytes(100_000))
    repository.commit("first", metadata={"x": "y"}, date=1_600_000_000)
    repository.branch("side")
    repository.put("side", b"1", "side")
    repository.put("main", b"1")
    repository.done("DELETE", "/branches/main/objects?path=large")
    repository.commit("removed")
    repository.done("POST", "/refs/side/merge/main", json={"message": "merged"})
    repository.done("POST", "/tags", json={"id": "v1", "ref": "main~1"})
    repository.upload("not committed", b"1")
    with sides(shared, repository.name) as (source, target):
        assert move(source, target) == 5
        log = list(target.pages("/refs/main/commits"))
        assert [one["message"] for one in log] == [
            *["merged", "removed", "put main", "first", "Repository created"]
        ]
        origin = repository.done("GET", "/commits/main~3")["id"]
        assert log[3]["metadata"] == {"x": "y", "lakefs-commit": origin}
        assert log[3]["creation_date"] == 1_600_000_000
        assert {one["id"] for one in target.pages("/branches")} == {"main", "side"}
        assert target.objects("v1") == source.objects("v1")
        assert set(target.objects("main")) == {"a b/é", "main", "side"}


def test_a_repository_without_commits_is_moved_too(shared):
    with sides(shared, shared.repository().name) as (source, target):
        assert move(source, target) == 0
        assert target.objects("main") == {}
