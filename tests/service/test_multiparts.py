"""Uploads in parts: what a crash, a lost reply or a repeated request leaves, and what is swept."""

from __future__ import annotations

from pathlib import Path

import pytest

from lochan.base.errors import ConditionFailed, ReferenceNotFound, Unavailable, UploadNotFound
from lochan.base.limits.storage import GRACE_S
from lochan.model.files import FileProperties, UploadedPart, WriteCondition
from lochan.model.specs import parse_spec
from lochan.persist.uploads import UploadRows
from lochan.service import multiparts as service_multiparts
from tests.service.bench import ME, Bench
from tests.service.file_bench import file_bench

MAIN = parse_spec("main")
DAY_US = GRACE_S * 1_000_000


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return file_bench(tmp_path)[0]


def begin(bench: Bench, path: str = "a", body: bytes = b"one") -> tuple[str, UploadedPart]:
    """Begins an upload and sends its first part."""
    multiparts = bench.repository.multiparts
    upload = multiparts.create(ME, "main", path, FileProperties(content_type="x/y"))
    part = multiparts.begin_part(ME, "main", path, upload, 1)
    part.write(body)
    return upload, part.finish()


def rows(bench: Bench) -> int:
    """Returns how many uploads there are, also those that have ended."""
    context = bench.repository.context
    return len(UploadRows(context.store, context.instance).scan(b"", 100).rows)


def test_a_completion_is_answered_again_and_done_once(bench):
    upload, part = begin(bench)
    multiparts = bench.repository.multiparts
    done = multiparts.complete(ME, "main", "a", upload, [part])
    assert done.content_type == "x/y"
    bench.put("a", b"later")
    assert multiparts.complete(ME, "main", "a", upload, [part]) == done
    # What was written since is not replaced.
    assert bench.read("a") == b"later"
    with pytest.raises(UploadNotFound):
        multiparts.abort(ME, "main", "a", upload)


def test_a_completion_whose_record_was_lost_goes_on(bench, monkeypatch):
    upload, part = begin(bench)
    multiparts = bench.repository.multiparts

    def lost(*given: object) -> None:
        raise Unavailable("the process ends here")

    with monkeypatch.context() as patched:
        patched.setattr(UploadRows, "record", lost)
        with pytest.raises(Unavailable):
            multiparts.complete(ME, "main", "a", upload, [part])
    again = bench.again().repository.multiparts
    once = WriteCondition(if_absent=True)
    # The file that is there is the one that this upload has written.
    assert again.complete(ME, "main", "a", upload, [part], once).size == 3
    assert bench.read("a") == b"one"


def test_a_refused_completion_may_be_completed_in_another_way(bench):
    bench.put("a", b"there")
    upload, part = begin(bench)
    multiparts = bench.repository.multiparts
    with pytest.raises(ConditionFailed):
        multiparts.complete(ME, "main", "a", upload, [part], WriteCondition(if_absent=True))
    assert bench.read("a") == b"there"
    multiparts.complete(ME, "main", "a", upload, [part])
    assert bench.read("a") == b"one"


def test_an_upload_does_not_pass_to_a_branch_that_was_made_again(bench):
    bench.branch("side", "main")
    multiparts = bench.repository.multiparts
    upload = multiparts.create(ME, "side", "a")
    part = multiparts.begin_part(ME, "side", "a", upload, 1)
    part.write(b"x")
    parts = [part.finish()]
    bench.references.delete(ME, "side", None)
    bench.branch("side", "main")
    with pytest.raises(UploadNotFound):
        multiparts.complete(ME, "side", "a", upload, parts)


def test_an_upload_does_not_pass_to_a_branch_that_is_made_again_at_the_last_moment(
    bench, monkeypatch
):
    bench.branch("side", "main")
    repository = bench.repository
    upload = repository.multiparts.create(ME, "side", "a")
    part = repository.multiparts.begin_part(ME, "side", "a", upload, 1)
    part.write(b"x")
    parts = [part.finish()]
    checked = []

    def made_again(*given):
        checked.append(is_of(*given))
        if len(checked) == 3:
            bench.references.delete(ME, "side", None)
            bench.branch("side", "main")
        return checked[-1]

    is_of = service_multiparts._is_of
    monkeypatch.setattr(service_multiparts, "_is_of", made_again)
    with pytest.raises(ReferenceNotFound):
        repository.multiparts.complete(ME, "side", "a", upload, parts)
    assert checked == [True] * 3
    assert repository.file_listings.uncommitted(ME, "side").items == ()


def test_uploads_that_have_ended_or_rest_for_a_day_are_swept(bench):
    done, part = begin(bench, "done")
    bench.repository.multiparts.complete(ME, "main", "done", done, [part])
    aborted, _ = begin(bench, "aborted")
    bench.repository.multiparts.abort(ME, "main", "aborted", aborted)
    begin(bench, "left")
    assert rows(bench) == 2
    bench.repository.sweep()
    assert rows(bench) == 2
    bench.clock.advance_us(DAY_US + 1_000_000)
    bench.repository.sweep()
    # Times of parts are those of the file system, which does not know the clock of this test.
    left = bench.repository.multiparts.list_uploads(ME, "").uploads
    assert [each.path for each in left] in ([], ["left"])
    assert rows(bench) == len(left)
    assert bench.read("done") == b"one"
