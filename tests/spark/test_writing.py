"""Frames written into tables by branch: what is written is what is read, by everybody."""

from __future__ import annotations

import pytest

from lochan.base.errors import ContentNotFound, Invalid, NotABranch, ReferenceNotFound


def rows(frame) -> list[tuple]:
    return sorted(tuple(row) for row in frame.collect())


def test_a_frame_becomes_a_table_in_one_commit(lake):
    frame = lake.spark.range(100).selectExpr("id", "cast(id % 3 as string) as region")
    written = lake.write(frame, "shop.orders")
    assert (written.rows, written.was_done_before) == (100, False)
    assert lake.client.references.get("main").hash == written.commit
    assert len(lake.client.history.log("main", 10).items) == 1
    assert rows(lake.read("shop.orders")) == rows(frame)
    table = lake.catalog.load_table("shop.orders")
    assert table.current_snapshot().snapshot_id == written.snapshot_id
    assert table.scan().to_arrow().num_rows == 100
