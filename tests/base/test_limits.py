"""Limits fit each other: what one allows, another must be able to hold."""

from __future__ import annotations

from lochan.base.limits import contents, storage


def test_the_sizes_of_nodes_are_in_order():
    assert (
        2
        <= storage.NODE_ELEMENTS_MIN
        < storage.NODE_ELEMENTS_TARGET
        < storage.NODE_ELEMENTS_EAGER
        < storage.NODE_ELEMENTS_MAX
    )


def test_the_largest_key_fits_its_limit_of_bytes():
    widest = 1 + 4 * contents.KEY_CHARACTERS_MAX + contents.KEY_ELEMENTS_MAX - 1
    assert widest <= contents.KEY_BYTES_MAX
    assert contents.PATH_BYTES_MAX < contents.KEY_BYTES_MAX


def test_the_largest_file_entry_fits_a_node_and_the_largest_node_an_object():
    entry = (
        contents.FILE_ADDRESS_BYTES_MAX
        + contents.FILE_ETAG_BYTES_MAX
        + contents.FILE_METADATA_BYTES_MAX
        + contents.FILE_TYPE_BYTES_MAX
        + 1_000
    )
    assert entry < storage.NODE_RAW_BYTES_CAP
    # All but the last element stay below the cap; the last may be as large as any.
    node = 2 * storage.NODE_RAW_BYTES_CAP + contents.KEY_BYTES_MAX + 16 * storage.NODE_ELEMENTS_MAX
    assert node < storage.OBJECT_BYTES_MAX


def test_the_spill_limit_stays_far_below_an_object():
    assert (
        storage.EMBEDDED_BYTES_MAX + storage.EMBEDDED_STAGGER_BYTES < storage.OBJECT_BYTES_MAX // 8
    )


def test_hard_breaks_are_rarer_than_any_other_boundary():
    assert storage.HARD_BREAK_ONE_IN > 100 * storage.NODE_ELEMENTS_TARGET


def test_the_levels_reach_for_any_number_of_keys():
    assert storage.NODE_ELEMENTS_MIN**storage.TREE_LEVELS_MAX > 2**64
