"""When two entries are the same state of a file."""

from __future__ import annotations

import msgspec
import pytest

from lochan.model.entries import FileEntry, same_file

ENTRY = FileEntry("s3://lake/a", "abc", 12, 34, (("k", "v"),), "text/plain")


@pytest.mark.parametrize("change", [{"address": "s3://lake/b"}, {"modified_us": 99}])
def test_where_and_when_do_not_make_another_file(change):
    assert same_file(ENTRY, msgspec.structs.replace(ENTRY, **change))


@pytest.mark.parametrize(
    "change",
    [{"checksum": "abd"}, {"size": 13}, {"metadata": ()}, {"content_type": "text/html"}],
)
def test_what_it_is_does(change):
    assert not same_file(ENTRY, msgspec.structs.replace(ENTRY, **change))


def test_entries_cannot_be_changed():
    with pytest.raises(AttributeError):
        ENTRY.size = 5  # type: ignore[misc]
