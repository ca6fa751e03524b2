"""The options of RocksDB and their reasons; the numbers were measured with objects of 4 KB."""

from __future__ import annotations

from typing import Final

import msgspec
from rocksdict import (
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    DBRecoveryMode,
    Options,
)

# Holds the tables' keys and small rows; large values are in files of their own, which the operating
# system and the cache of nodes keep. Filled lazily, so an idle server does not pay for it.
CACHE_MB_DEFAULT: Final = 32

# 64 GB: a larger number is a typing mistake.
CACHE_MB_MAX: Final = 65_536

_MEGABYTE: Final = 1_024 * 1_024


class Parameters(msgspec.Struct, frozen=True, gc=False):
    """The optional parameters of the address."""

    cache_mb: int = CACHE_MB_DEFAULT
    drop_after_damage: bool = False
    """The operator's decision to open although acknowledged writes are missing."""


def build_options(parameters: Parameters, *, create: bool) -> Options:
    """Builds the options of database and column family."""
    options = Options(raw_mode=True)
    options.create_if_missing(create)
    _set_up_log(options)
    _set_up_memory(options)
    _set_up_tables(options, parameters)
    # Two cores are shared with the server: one flush and one compaction at a time.
    options.set_max_background_jobs(2)
    # Diagnostics are for people: a few small files, no statistics written into the database.
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(_MEGABYTE)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    return options


def _set_up_log(options: Options) -> None:
    # RocksDB drops a damaged record of the log and everything after it. If the marker file shows
    # that any of that was acknowledged, the store refuses to open. RocksDB's stricter modes cannot
    # distinguish a torn tail, which every power cut may leave, from damage to acknowledged rows.
    options.set_wal_recovery_mode(DBRecoveryMode.point_in_time())
    # A log file that is written over needs no new pages and no new blocks: a tenth to a quarter of
    # the CPU time of a write, and about 80 us of a flush.
    options.set_recycle_log_file_num(4)


def _set_up_memory(options: Options) -> None:
    # Small buffers stay in the processor's caches and page tables: with the arena's block of
    # 64 KB this halves the CPU time of a write against 64 MB and the default block.
    options.set_write_buffer_size(16 * _MEGABYTE)
    options.set_max_write_buffer_number(4)
    options.set_arena_block_size(64 * 1_024)
    # New objects are looked up before they are added, and nearly always absent: a filter in front
    # of the write buffer takes a third off that lookup.
    options.set_memtable_whole_key_filtering(True)
    options.set_memtable_prefix_bloom_ratio(0.02)


def _set_up_tables(options: Options, parameters: Parameters) -> None:
    tables = BlockBasedOptions()
    # A new object is looked up in every table of level 0, and each false positive of a filter costs
    # a block: with 14 such tables 10 bits were wrong for 12 % of the objects, 16 bits for 1 % (7 us
    # less for an apply of 5 objects), at two bytes an object.
    tables.set_bloom_filter(16, False)
    tables.set_block_cache(Cache(parameters.cache_mb * _MEGABYTE))
    options.set_block_based_table_factory(tables)
    options.set_compression_type(DBCompressionType.lz4())
    # Objects of a KB and more are written to files of their own when a write buffer is flushed, and
    # stay there: keys are hashes, so compaction would otherwise rewrite values that never change.
    # ADR-0006 has what this was measured to gain, which is little in the foreground.
    options.set_enable_blob_files(True)
    options.set_min_blob_size(1_024)
    options.set_blob_file_size(64 * _MEGABYTE)
    options.set_blob_compression_type(DBCompressionType.lz4())
    options.set_enable_blob_gc(True)
