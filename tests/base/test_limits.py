"""Limits fit each other: what one allows, another must be able to hold."""

from __future__ import annotations

from lochan.base import limits


def test_the_sizes_of_nodes_are_in_order():
    assert (
        2
        <= limits.NODE_ELEMENTS_MIN
        < limits.NODE_ELEMENTS_TARGET
        < limits.NODE_ELEMENTS_EAGER
        < limits.NODE_ELEMENTS_MAX
    )


def test_the_largest_key_fits_its_limit_of_bytes():
    widest = 1 + 4 * limits.KEY_CHARACTERS_MAX + limits.KEY_ELEMENTS_MAX - 1
    assert widest <= limits.KEY_BYTES_MAX
    assert limits.PATH_BYTES_MAX < limits.KEY_BYTES_MAX


def test_the_largest_file_entry_fits_a_node_and_the_largest_node_an_object():
    entry = (
        limits.FILE_ADDRESS_BYTES_MAX
        + limits.FILE_CHECKSUM_BYTES_MAX
        + limits.FILE_METADATA_BYTES_MAX
        + limits.FILE_TYPE_BYTES_MAX
        + 1_000
    )
    assert entry < limits.NODE_RAW_BYTES_CAP
    # All but the last element stay below the cap; the last may be as large as any.
    node = 2 * limits.NODE_RAW_BYTES_CAP + limits.KEY_BYTES_MAX + 16 * limits.NODE_ELEMENTS_MAX
    assert node < limits.OBJECT_BYTES_MAX


def test_the_spill_limit_stays_far_below_an_object():
    assert limits.EMBEDDED_BYTES_MAX + limits.EMBEDDED_STAGGER_BYTES < limits.OBJECT_BYTES_MAX // 8


def test_hard_breaks_are_rarer_than_any_other_boundary():
    assert limits.HARD_BREAK_ONE_IN > 100 * limits.NODE_ELEMENTS_TARGET


def test_the_levels_reach_for_any_number_of_keys():
    assert limits.NODE_ELEMENTS_MIN**limits.TREE_LEVELS_MAX > 2**64
