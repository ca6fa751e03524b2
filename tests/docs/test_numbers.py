"""Numbers and packages in the prose are those of the code."""

from __future__ import annotations

import re

import pytest

from lochan.base.limits import commits, storage
from lochan.stores.rocksdb.options import CACHE_MB_DEFAULT
from tests.architecture.tree import ROOT, is_built, layers_from
from tests.sim.test_kernel_mutants import SCHEDULES_MAX

NODE_MIN, NODE_MAX = storage.NODE_ELEMENTS_MIN, storage.NODE_ELEMENTS_MAX
RETRY_LOW, RETRY_HIGH = commits.RETRY_SLEEP_FIRST_MS
NODE_KB = storage.NODE_RAW_BYTES_CAP // 1_024

CLAIMS = [
    (
        "docs/internals/architecture.md",
        f"between {NODE_MIN} and {NODE_MAX} elements, or earlier at {NODE_KB} KB",
    ),
    (
        "docs/internals/adr/0003-content-defined-tree.md",
        f"about {storage.NODE_ELEMENTS_TARGET} elements ({NODE_MIN} to {NODE_MAX}), and ends early",
    ),
    (
        "docs/internals/adr/0003-content-defined-tree.md",
        f"when its raw bytes reach {NODE_KB} KB",
    ),
    (
        "docs/internals/adr/0003-content-defined-tree.md",
        f"past {storage.NODE_ELEMENTS_EAGER / storage.NODE_ELEMENTS_TARGET:g} times the target",
    ),
    (
        "docs/internals/adr/0003-content-defined-tree.md",
        f"One key in {storage.HARD_BREAK_ONE_IN:,} is a hard break",
    ),
    (
        "docs/internals/adr/0005-no-middle-level.md",
        f"embedded in a commit ({storage.EMBEDDED_BYTES_MAX // 1_024} KB)",
    ),
    (
        "docs/internals/architecture.md",
        f"share one budget of {storage.CACHE_BYTES_MAX >> 20} MB",
    ),
    (
        "docs/internals/architecture.md",
        f"the block cache of {CACHE_MB_DEFAULT} MB holds keys",
    ),
    (
        "docs/internals/adr/0006-durable-mark.md",
        f"The block cache is {CACHE_MB_DEFAULT} MB,",
    ),
    (
        "docs/internals/architecture.md",
        f"decoding {storage.NODE_ELEMENTS_TARGET} elements is cheaper",
    ),
    (
        "docs/internals/architecture.md",
        f"its last {commits.COMMIT_TAIL_MAX} ancestors",
    ),
    (
        "docs/internals/architecture.md",
        f"logs read {commits.COMMIT_TAIL_MAX} commits at a time",
    ),
    (
        "docs/internals/adr/0009-lanes-and-chains.md",
        f"with room for {commits.LANE_QUEUE_MAX:,}.",
    ),
    (
        "docs/internals/adr/0009-lanes-and-chains.md",
        f"up to {commits.CHAIN_PROPOSALS_MAX} proposals,",
    ),
    (
        "docs/internals/adr/0009-lanes-and-chains.md",
        f"tried for {commits.COMMIT_TIMEOUT_MS // 1_000} s.",
    ),
    (
        "docs/internals/adr/0009-lanes-and-chains.md",
        f"sleeps of {RETRY_LOW} to {RETRY_HIGH} ms double up to {commits.RETRY_SLEEP_MAX_MS} ms",
    ),
    (
        "docs/internals/adr/0010-references.md",
        f"has room for {commits.MOVES_MAX};",
    ),
    (
        "docs/internals/adr/0011-explorer.md",
        f"found within {SCHEDULES_MAX:,} schedules",
    ),
]


@pytest.mark.parametrize(("page", "claim"), CLAIMS)
def test_the_prose_has_the_numbers_of_the_code(page, claim):
    # Lines wrap where they like.
    prose = re.sub(r"\s+", " ", (ROOT / page).read_text("utf-8"))
    assert claim in prose


def test_the_architecture_names_every_package():
    text = (ROOT / "docs/internals/architecture.md").read_text("utf-8")
    named = set(re.findall(r"`(\w+)`", text))
    assert [name for name in layers_from("cli") if name not in named] == []


def test_the_architecture_marks_only_missing_packages_as_planned():
    text = (ROOT / "docs/internals/architecture.md").read_text("utf-8")
    table = "\n".join(line for line in text.splitlines() if line.startswith("|"))
    planned = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"\*([^*]+)\*", table))))
    assert planned
    assert [name for name in sorted(planned) if is_built(name)] == []
