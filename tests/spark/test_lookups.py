"""Files are looked up on the driver while a frame is made, and the session stays as it was."""

from __future__ import annotations

import pytest

from lochan.spark.read.native import listing_without_job

THRESHOLD = "spark.sql.sources.parallelPartitionDiscovery.threshold"
MANY = [f"file:///lake/{number}.parquet" for number in range(40)]


@pytest.mark.parametrize("before", [None, "7"])
def test_the_setting_is_there_in_the_block_and_back_after_it(spark, before):
    if before is not None:
        spark.conf.set(THRESHOLD, before)
    usual = spark.conf.get(THRESHOLD)
    try:
        with listing_without_job(spark, MANY):
            assert spark.conf.get(THRESHOLD) == "5000"
        assert spark.conf.get(THRESHOLD) == usual
    finally:
        spark.conf.unset(THRESHOLD)


def test_few_files_and_those_of_object_stores_keep_what_is_set(spark):
    usual = spark.conf.get(THRESHOLD)
    for paths in (MANY[:32], ["s3a://lake/a.parquet", *MANY], MANY * 200):
        with listing_without_job(spark, paths):
            assert spark.conf.get(THRESHOLD) == usual


def test_a_frame_of_many_files_starts_no_job_before_it_runs(spark, lake):
    lake.write(spark.range(0, 80, 1, 40), "t.many")
    assert len(lake.read("t.many").inputFiles()) == 40
    group = "made without a job"
    spark.sparkContext.setJobGroup(group, group)
    frame = lake.read("t.many")
    jobs = spark.sparkContext.statusTracker().getJobIdsForGroup(group)
    assert list(jobs) == []
    assert frame.count() == 80
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
