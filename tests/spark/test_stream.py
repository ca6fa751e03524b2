"""Changes as a stream: where it begins, goes on and ends, and how it reports moved branches."""

from __future__ import annotations

import json
from pathlib import Path

import pyspark
import pytest
from pyspark.errors import PySparkException, StreamingQueryException

from lochan.base.errors import Invalid
from lochan.spark.history.catch_up import catch_up
from lochan.spark.history.commit_ranges import EMPTY
from tests.spark.histories import make_commits

ADMISSION = tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 2)


class Kept:
    """What came in batches: numbers of batches, and for each its rows in order."""

    def __init__(self):
        self.batches = []

    def __call__(self, frame, number):
        self.batches.append((number, frame.orderBy("seq", "position").collect()))

    def rows(self):
        return [row for _, rows in self.batches for row in rows]

    def seqs(self):
        return [row.seq for row in self.rows()]


def start(frame, checkpoint: Path, kept, **trigger):
    writer = frame.writeStream.foreachBatch(kept).option("checkpointLocation", str(checkpoint))
    if trigger:
        writer = writer.trigger(**trigger)
    return writer.start()


def read_all(frame, checkpoint: Path) -> Kept:
    """Reads what is there now, and stops."""
    kept = Kept()
    start(frame, checkpoint, kept, availableNow=True).awaitTermination()
    return kept


def offsets(checkpoint: Path) -> dict[int, dict]:
    """Reads what Spark has written down, by the number of the batch."""
    found = (checkpoint / "offsets").glob("[0-9]*")
    return {int(each.name): json.loads(each.read_text().splitlines()[-1]) for each in found}


def test_a_stream_begins_with_the_first_commit_and_goes_on_after_the_last_one_seen(lake, tmp_path):
    hashes = make_commits(lake.client, 3)
    frame = lake.changes("main", follow=True)
    kept = read_all(frame, tmp_path)
    assert [(row.seq, row.commit) for row in kept.rows()] == list(enumerate(hashes, 1))
    assert kept.rows() == lake.changes("main").orderBy("seq").collect()
    assert read_all(frame, tmp_path).rows() == []
    make_commits(lake.client, 2, first=4)
    assert read_all(frame, tmp_path).seqs() == [4, 5]


def test_offsets_name_commits(lake, tmp_path):
    hashes = make_commits(lake.client, 3)
    read_all(lake.changes("main", follow=True), tmp_path)
    beginning = {"commit": EMPTY, "seq": 0}
    first = {"ref": "main", "commit": hashes[2], "seq": 3, "from": beginning}
    assert offsets(tmp_path) == {0: first}
    (new,) = make_commits(lake.client, 1, first=4)
    read_all(lake.changes("main", follow=True), tmp_path)
    assert offsets(tmp_path) == {0: first, 1: {"ref": "main", "commit": new, "seq": 4}}


def test_a_stream_may_begin_after_any_commit(lake, tmp_path):
    hashes = make_commits(lake.client, 3)
    after_first = lake.changes("main", since=hashes[0], follow=True)
    assert read_all(after_first, tmp_path / "one").seqs() == [2, 3]
    after_all = lake.changes("main", since="latest", follow=True)
    assert read_all(after_all, tmp_path / "two").rows() == []
    make_commits(lake.client, 1, first=9)
    assert read_all(after_all, tmp_path / "two").seqs() == [4]


def test_a_stream_of_an_empty_branch_waits_for_its_first_commit(lake, tmp_path):
    frame = lake.changes("main", follow=True)
    assert read_all(frame, tmp_path).rows() == []
    make_commits(lake.client, 1)
    assert read_all(frame, tmp_path).seqs() == [1]


def test_a_running_stream_sees_what_is_committed_meanwhile(lake, tmp_path):
    make_commits(lake.client, 2)
    kept = Kept()
    query = start(lake.changes("main", follow=True), tmp_path, kept)
    try:
        query.processAllAvailable()
        assert kept.seqs() == [1, 2]
        make_commits(lake.client, 2, first=3)
        query.processAllAvailable()
        assert kept.seqs() == [1, 2, 3, 4]
    finally:
        query.stop()


def test_no_batch_has_more_commits_than_allowed_also_after_a_restart(lake, tmp_path):
    make_commits(lake.client, 5)
    frame = lake.changes("main", follow=True, commits_max=2)
    kept = Kept()
    for first in (10, 20):
        query = start(frame, tmp_path, kept)
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        make_commits(lake.client, 3, first=first)
    assert [len(rows) for _, rows in kept.batches] == [2, 2, 1, 2, 1]
    assert kept.seqs() == [1, 2, 3, 4, 5, 6, 7, 8]


def test_reading_what_is_there_keeps_to_the_limit(lake, tmp_path):
    make_commits(lake.client, 5)
    frame = lake.changes("main", follow=True, commits_max=2)
    sizes = [len(rows) for _, rows in read_all(frame, tmp_path).batches]
    # Spark 4.1 makes one batch of such a query, whatever its source has left.
    assert sizes == ([2, 2, 1] if ADMISSION else [2])


def writer_of(frame, checkpoint: Path, kept: Kept):
    writer = frame.writeStream.foreachBatch(kept).option("checkpointLocation", str(checkpoint))
    return writer.trigger(availableNow=True)


def test_catching_up_reads_everything_whatever_the_limit(lake, tmp_path):
    make_commits(lake.client, 5)
    kept = Kept()
    writer = writer_of(lake.changes("main", follow=True, commits_max=2), tmp_path, kept)
    catch_up(lake, "main", writer)
    assert kept.seqs() == [1, 2, 3, 4, 5]
    assert [len(rows) for _, rows in kept.batches] == [2, 2, 1]
    catch_up(lake, "main", writer)
    assert kept.seqs() == [1, 2, 3, 4, 5]


def test_catching_up_goes_on_after_a_batch_that_was_owed(lake, tmp_path):
    make_commits(lake.client, 3)
    frame = lake.changes("main", follow=True)
    read_all(frame, tmp_path)
    forget_the_end(tmp_path, 0)
    make_commits(lake.client, 2, first=4)
    kept = Kept()
    catch_up(lake, "main", writer_of(frame, tmp_path, kept))
    assert kept.seqs() == [1, 2, 3, 4, 5]


def test_catching_up_ends_on_a_branch_that_was_set_back(lake, tmp_path):
    make_commits(lake.client, 3)
    frame = lake.changes("main", follow=True, on_reassign="reset")
    kept = Kept()
    read_all(frame, tmp_path)
    lake.client.references.assign("main", "main~1")
    catch_up(lake, "main", writer_of(frame, tmp_path, kept))
    catch_up(lake, "main", writer_of(frame, tmp_path, kept))
    assert [row.operation for row in kept.rows()] == ["reset"]


def test_catching_up_notices_a_branch_that_was_moved_behind_a_batch_that_was_owed(lake, tmp_path):
    make_commits(lake.client, 5)
    moves = {
        "set back": lambda: lake.client.references.assign("main", "main~3"),
        "elsewhere": lambda: reassign(lake),
    }
    for name, move in moves.items():
        resetting = lake.changes("main", follow=True, on_reassign="reset")
        failing = lake.changes("main", follow=True)
        for kind, frame in (("resetting", resetting), ("failing", failing)):
            read_all(frame, tmp_path / name / kind)
            forget_the_end(tmp_path / name / kind, 0)
        move()
        kept = Kept()
        catch_up(lake, "main", writer_of(resetting, tmp_path / name / "resetting", kept))
        assert [row.operation for row in kept.rows()][-1] == "reset", name
        with pytest.raises(StreamingQueryException, match="was reassigned"):
            catch_up(lake, "main", writer_of(failing, tmp_path / name / "failing", Kept()))


def test_catching_up_on_another_branch_is_refused(lake, tmp_path):
    make_commits(lake.client, 1)
    writer = writer_of(lake.changes("main", follow=True), tmp_path, Kept())
    lake.client.references.create("etl", "main")
    with pytest.raises(Invalid, match="does not follow 'etl'"):
        catch_up(lake, "etl", writer)


def test_a_first_batch_that_failed_is_run_again_with_its_rows_and_the_stream_goes_on(
    lake, tmp_path
):
    make_commits(lake.client, 5)

    def failing(frame, number):
        raise OSError("the driver went away")

    for name, since, first in (("latest", "latest", []), ("relative", "main~2", [4, 5])):
        frame = lake.changes("main", since=since, follow=True)
        with pytest.raises(StreamingQueryException, match="the driver went away"):
            start(frame, tmp_path / name, failing, availableNow=True).awaitTermination()
        (number,) = {each["from"]["seq"] for each in offsets(tmp_path / name).values()}
        assert number == 5 - len(first)
    make_commits(lake.client, 2, first=6)
    for name, since, first in (("latest", "latest", []), ("relative", "main~2", [4, 5])):
        kept = Kept()
        frame = lake.changes("main", since=since, follow=True)
        catch_up(lake, "main", writer_of(frame, tmp_path / name, kept))
        assert kept.seqs() == [*first, 6, 7]


def forget_the_end(checkpoint: Path, batch: int) -> None:
    """Leaves a checkpoint as a crash does between the end of a batch and the note of it."""
    (checkpoint / "commits" / str(batch)).unlink()
    (checkpoint / "commits" / f".{batch}.crc").unlink(missing_ok=True)


def test_a_batch_that_is_run_again_has_the_same_rows(lake, tmp_path):
    make_commits(lake.client, 3)
    frame = lake.changes("main", follow=True)
    first = read_all(frame, tmp_path)
    forget_the_end(tmp_path, 0)
    make_commits(lake.client, 2, first=4)
    again = read_all(frame, tmp_path)
    assert again.batches[0] == first.batches[0]
    # Spark 4.1 stops after the batch that it owed.
    assert again.seqs() + read_all(frame, tmp_path).seqs() == [1, 2, 3, 4, 5]


def reassign(lake):
    """Makes `main` lead to another line of two commits; returns the lost head and the new one."""
    lost = lake.client.references.get("main").hash
    lake.client.references.create("other", None)
    new = make_commits(lake.client, 2, "other", first=100)[-1]
    lake.client.references.assign("main", "other")
    return lost, new


def test_a_reassigned_branch_ends_a_stream_in_clear_words(lake, tmp_path):
    make_commits(lake.client, 3)
    frame = lake.changes("main", follow=True)
    read_all(frame, tmp_path)
    lost, new = reassign(lake)
    with pytest.raises(StreamingQueryException) as failure:
        read_all(frame, tmp_path)
    message = str(failure.value)
    assert "the branch 'main' was reassigned" in message
    assert lost in message
    assert new in message
    assert "onReassign=reset" in message


def test_a_branch_that_was_set_back_is_reassigned_too(lake, tmp_path):
    make_commits(lake.client, 3)
    frame = lake.changes("main", follow=True)
    read_all(frame, tmp_path)
    lake.client.references.assign("main", "main~1")
    with pytest.raises(StreamingQueryException, match="was reassigned"):
        read_all(frame, tmp_path)


def test_a_reassigned_branch_is_told_by_a_row_if_that_is_wanted(lake, tmp_path):
    make_commits(lake.client, 3)
    frame = lake.changes("main", follow=True, on_reassign="reset")
    read_all(frame, tmp_path)
    lost, new = reassign(lake)
    (row,) = read_all(frame, tmp_path).rows()
    assert (row.operation, row.commit, row.seq, row.key) == ("reset", new, 2, None)
    assert lost in row.message
    assert read_all(frame, tmp_path).rows() == []
    make_commits(lake.client, 1, first=9)
    assert [(row.operation, row.seq) for row in read_all(frame, tmp_path).rows()] == [("put", 3)]


def test_a_deleted_branch_ends_a_stream_in_clear_words(lake, tmp_path):
    lake.client.references.create("etl", "main")
    make_commits(lake.client, 1, "etl")
    frame = lake.changes("etl", follow=True)
    read_all(frame, tmp_path)
    lake.client.references.delete("etl")
    with pytest.raises(StreamingQueryException, match="the branch 'etl' that this stream follows"):
        read_all(frame, tmp_path)


def test_a_branch_that_was_made_again_with_its_history_is_the_same_to_a_stream(lake, tmp_path):
    lake.client.references.create("etl", "main")
    head = make_commits(lake.client, 2, "etl")[-1]
    frame = lake.changes("etl", follow=True)
    read_all(frame, tmp_path)
    lake.client.references.delete("etl")
    lake.client.references.create("etl", head)
    make_commits(lake.client, 1, "etl", first=9)
    assert read_all(frame, tmp_path).seqs() == [3]


def test_a_checkpoint_of_another_branch_is_refused(lake, tmp_path):
    make_commits(lake.client, 1)
    lake.client.references.create("etl", "main")
    read_all(lake.changes("main", follow=True), tmp_path)
    with pytest.raises(StreamingQueryException, match="belongs to a stream of 'main'"):
        read_all(lake.changes("etl", follow=True), tmp_path)


def test_only_changes_can_be_followed(lake, tmp_path):
    frame = lake.spark.readStream.format("lochan").options(uri=lake.uri, kind="log").load()
    with pytest.raises(PySparkException, match="only kind 'changes' can be followed"):
        read_all(frame, tmp_path)


def test_a_stream_is_cut_into_slices_like_a_batch(lake, tmp_path):
    make_commits(lake.client, 7)
    frame = lake.changes("main", follow=True, commits_per_partition=2)
    assert read_all(frame, tmp_path).seqs() == [1, 2, 3, 4, 5, 6, 7]
