"""Keys that no name makes are refused by the kernel too, and change nothing."""

from __future__ import annotations

import pytest

from lochan.base.errors import Invalid
from lochan.base.keys import file_key, table_key
from lochan.base.limits.contents import KEY_BYTES_MAX, PATH_BYTES_MAX
from lochan.kernel.plan import CommitPlan, Operation, Unchanged, check_plan
from tests.property.merge_world import Given, MergeWorld

LONGEST_TABLE = b"t" + b"k" * (KEY_BYTES_MAX - 1)
LONGEST_FILE = bytes(file_key("p" * PATH_BYTES_MAX))


@pytest.mark.parametrize(
    "key", [b"", b"t", b"f", b"zkey", LONGEST_TABLE + b"k", LONGEST_FILE + b"p"], ids=len
)
def test_a_key_of_no_universe_or_of_the_wrong_length_changes_nothing(key):
    world = MergeWorld(1)
    before = world.head("main").obj_id
    with pytest.raises(Invalid):
        world.publish("main", Given([Operation(key, b"\0" + bytes(49))], "bad"))
    assert world.head("main").obj_id == before
    with pytest.raises(Invalid):
        check_plan(CommitPlan([], "bad", unchanged=[Unchanged(key, None)]))


@pytest.mark.parametrize(
    "key", [LONGEST_TABLE, LONGEST_FILE, table_key(["a"]), file_key("a")], ids=len
)
def test_the_shortest_and_the_longest_keys_are_taken(key):
    check_plan(CommitPlan([Operation(bytes(key), b"\0" + bytes(49))], "good"))
