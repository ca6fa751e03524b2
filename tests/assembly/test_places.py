"""Places for the bytes of files: which URL a repository gets, and temporary ones."""

from __future__ import annotations

from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

import pytest

from lochan.assembly import places
from lochan.assembly.places import Places, TemporaryPlaces, place_below
from lochan.assembly.serve import places_of
from lochan.base.errors import Denied
from lochan.base.ids import InstanceId
from lochan.settings import Settings
from tests.faces.lakefs.lakefs_bench import lakefs_bench

INSTANCE = InstanceId(bytes(16))


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("s3://bucket/lake", "s3://bucket/lake/sales"),
        ("s3://bucket/lake/", "s3://bucket/lake/sales"),
        ("s3://bucket", "s3://bucket/sales"),
        ("s3://b?endpoint=http://h:1/", "s3://b/sales?endpoint=http://h:1/"),
        ("s3://b/x/?endpoint=http://h:1&region=r", "s3://b/x/sales?endpoint=http://h:1&region=r"),
        ("file:/var/lochan", "file:/var/lochan/sales"),
    ],
)
def test_the_name_of_a_repository_is_added_to_the_path_and_not_to_a_parameter(url, place):
    assert place_below(url, "sales") == place


def test_threads_that_come_first_share_one_temporary_directory(monkeypatch: Any) -> None:
    """A second directory would take the place of the first, whose files would then be removed."""
    opened = TemporaryPlaces()
    made: list[TemporaryDirectory[str]] = []
    found: list[object] = []
    other = Thread(target=lambda: found.append(opened.open("", INSTANCE)))

    def directory(prefix: str) -> TemporaryDirectory[str]:
        made.append(TemporaryDirectory(prefix=prefix))
        if len(made) == 1:
            other.start()
            # It has all the time that it needs to make another one, or it waits.
            other.join(0.2)
        return made[-1]

    monkeypatch.setattr(places, "TemporaryDirectory", directory)
    place = opened.open("", INSTANCE)
    other.join()
    assert len(made) == 1
    assert found == [place]
    opened.close()


ALLOWED = (
    *("s3://lake/teams?endpoint=http://h:1&region=r", "s3://plain", "file:/var/lochan/more"),
    "s3://lake/a%2Fb",
)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("s3://lake/teams/sales", "s3://lake/teams/sales?endpoint=http://h:1&region=r"),
        ("s3://lake/teams/", "s3://lake/teams/?endpoint=http://h:1&region=r"),
        ("s3://lake/te%61ms/x", "s3://lake/te%61ms/x?endpoint=http://h:1&region=r"),
        (
            "s3://lake/teams/x?endpoint=http://h:1&region=r",
            "s3://lake/teams/x?endpoint=http://h:1&region=r",
        ),
        ("s3://plain", "s3://plain"),
        ("s3://plain/any/where", "s3://plain/any/where"),
        ("s3://lake/a/b/c", "s3://lake/a/b/c"),
        ("file:/var/lochan/more/x", "file:/var/lochan/more/x"),
    ],
)
def test_a_place_below_one_that_is_allowed_has_its_parameters(monkeypatch, url, place):
    opened = []
    monkeypatch.setattr(places, "open_blocks", lambda url, imports: opened.append(url))
    Places(None, allowed=ALLOWED).open(url, INSTANCE)
    assert opened == [place]


@pytest.mark.parametrize(
    "url",
    [
        *("s3://lake", "s3://lake/team", "s3://lake/teams-2/x", "s3://other/teams", "s3://lak/e"),
        *("s3://lake/teams/../x", "s3://lake/teams/%2e%2e/x", "s3://lake/teams//x"),
        "s3://lake/teams/x?endpoint=http://169.254.169.254",
        "s3://lake/teams/x?endpoint=http://h:1&region=r&profile=root",
        "s3://plain/x?endpoint=http://h:1",
        *("s3://lake/teams%2Fx/../y", "file:/etc", "file:/var/lochan/more/../../x", "file:/var"),
    ],
)
def test_a_repository_is_put_only_where_the_operator_allows_it(tmp_path, url):
    """Else a caller chooses to which addresses the server sends requests, and signs them."""
    with lakefs_bench(tmp_path, allowed=ALLOWED) as bench:
        name = {"name": "elsewhere", "storage_namespace": url}
        refused = bench.http.post("/repositories", json=name)
        assert refused.status_code == (403 if url.startswith("s3:") else 400), refused.text
        assert bench.http.get("/repositories/elsewhere").status_code == 404
    with pytest.raises(Denied):
        Places(tmp_path, allowed=ALLOWED).open(url, INSTANCE)


def test_a_program_uses_every_bucket_and_the_directories_that_it_names(tmp_path):
    opened = Places(tmp_path, elsewhere=True)
    opened.check("s3://any/where?endpoint=http://h:1")
    with pytest.raises(Denied):
        opened.check("file:/etc")


def test_a_server_allows_the_place_of_its_settings(tmp_path):
    (tmp_path / "far").mkdir()
    settings = Settings(
        store=f"rocksdb:{tmp_path}/near/store",
        storage=f"file:{tmp_path}/far",
        storage_prefixes=("s3://lake?region=r",),
    )
    opened = places_of(settings)
    opened.check(place_below(settings.storage, "sales"))
    opened.check("s3://lake/sales")
    opened.open(place_below(settings.storage, "sales"), INSTANCE)
    opened.close()
    with pytest.raises(Denied):
        opened.check("s3://sea/sales")
