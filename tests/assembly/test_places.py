"""Places for the bytes of files: which URL a repository gets, and temporary ones."""

from __future__ import annotations

from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

import pytest

from lochan.assembly import places
from lochan.assembly.places import TemporaryPlaces, place_below
from lochan.base.ids import InstanceId

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
