"""The lakeFS clients for Python work unchanged, and raise what they raise with lakeFS."""

from __future__ import annotations

import lakefs
import pytest
from lakefs.client import Client
from lakefs.exceptions import (
    BadRequestException,
    ConflictException,
    ForbiddenException,
    NotAuthorizedException,
    NotFoundException,
    ObjectExistsException,
    ObjectNotFoundException,
    TransactionException,
)
from lakefs_sdk.exceptions import ApiException
from lakefs_sdk.models.branch_protection_rule import BranchProtectionRule
from lakefs_spec import LakeFSFileSystem

from tests.faces.lakefs.lakefs_bench import KEY, SECRET


@pytest.fixture
def client(shared, tmp_path, monkeypatch):
    """A client that reads no configuration of the machine."""
    monkeypatch.setenv("HOME", str(tmp_path))
    made = Client(host=shared.url, username=KEY, password=SECRET)
    yield made
    made.sdk_client._api.rest_client.pool_manager.clear()


@pytest.fixture
def repository(shared, client):
    return lakefs.Repository(shared.repository().name, client)


def test_the_wrapper_commits_merges_and_reads(repository):
    main = repository.branch("main")
    side = repository.branch("side").create("main")
    side.object("a/b.txt").upload(b"text", content_type="text/plain", metadata={"k": "v"})
    assert [change.path for change in side.uncommitted()] == ["a/b.txt"]
    commit = side.commit("first", metadata={"x": "y"}).get_commit()
    assert (commit.message, commit.metadata) == ("first", {"x": "y"})
    assert [change.path for change in main.diff(side)] == ["a/b.txt"]
    side.merge_into(main)
    with main.object("a/b.txt").reader("r") as reader:
        assert reader.read() == "text"
    stat = repository.ref("main@").object("a/b.txt").stat()
    assert (stat.metadata, stat.content_type) == ({"k": "v"}, "text/plain")


def test_a_transaction_is_merged_as_a_whole_or_not_at_all(repository):
    main = repository.branch("main")
    with main.transact(commit_message="all") as transaction:
        transaction.object("a").upload(b"1")
        assert [branch.id for branch in repository.branches()] == ["main"]
    assert main.object("a").exists()

    def fail():
        with main.transact(commit_message="nothing") as failing:
            failing.object("b").upload(b"1")
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        fail()
    assert not main.object("b").exists()
    with (
        pytest.raises(TransactionException, match="no changes"),
        main.transact(commit_message="nothing"),
    ):
        pass


def test_errors_are_those_that_users_of_the_wrapper_know(repository, client):
    main = repository.branch("main")
    main.object("a").upload(b"1")
    with pytest.raises(ObjectExistsException):
        main.object("a").upload(b"2", mode="xb")
    with pytest.raises(ObjectNotFoundException):
        main.object("absent").stat()
    with pytest.raises(NotFoundException):
        repository.branch("absent").get_commit()
    with pytest.raises(NotFoundException):
        lakefs.Repository("absent", client).delete()
    with pytest.raises(ConflictException):
        repository.branch("main").create("main")
    with pytest.raises(BadRequestException):
        lakefs.Repository("new-one", client).create("gs://x")
    main.commit("one")
    with pytest.raises(BadRequestException, match="no changes"):
        main.commit("two")
    rule = BranchProtectionRule(pattern="main")
    client.sdk_client.repositories_api.set_branch_protection_rules(repository.id, [rule])
    with pytest.raises(ForbiddenException, match="protected branch"):
        main.object("b").upload(b"1")


def test_wrong_credentials_are_refused(shared, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    wrong = Client(host=shared.url, username=KEY, password=SECRET[::-1])
    with pytest.raises(NotAuthorizedException):
        list(lakefs.repositories(client=wrong))
    wrong.sdk_client._api.rest_client.pool_manager.clear()


def test_the_sdk_sends_objects_as_forms(repository, client):
    api = client.sdk_client.objects_api
    made = api.upload_object(repository.id, "main", "a", content=b"bytes of a form")
    assert made.size_bytes == 15
    assert api.get_object(repository.id, "main", "a") == b"bytes of a form"
    with pytest.raises(ApiException) as refused:
        api.upload_object(repository.id, "main", "a", if_none_match="*", content=b"other")
    assert refused.value.status == 412


def test_the_file_system_of_fsspec_reads_and_writes(shared, repository, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    LakeFSFileSystem.clear_instance_cache()
    files = LakeFSFileSystem(host=shared.url, username=KEY, password=SECRET)
    root = f"lakefs://{repository.id}/main"
    files.pipe(f"{root}/data/a.txt", b"0123456789")
    assert files.cat_file(f"{root}/data/a.txt", start=2, end=5) == b"234"
    assert [one["type"] for one in files.ls(f"{root}/")] == ["directory"]
    repository.branch("main").commit("a")
    with files.transaction(repository.id, "main") as transaction:
        files.pipe(f"lakefs://{repository.id}/{transaction.branch.id}/b", b"1")
        transaction.commit("b")
    assert files.exists(f"{root}/b")
    with pytest.raises(FileNotFoundError):
        files.cat(f"{root}/absent")
    files.client.sdk_client._api.rest_client.pool_manager.clear()
