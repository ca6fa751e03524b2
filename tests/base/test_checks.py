"""Two kinds of broken invariants: our own mistake, and bytes that were changed outside."""

from __future__ import annotations

import pytest

from lochan.base.checks import check, check_stored
from lochan.base.errors import Bug, Corrupt


def test_an_invariant_that_holds_passes():
    check(True, "never raised")
    check_stored(True, "never raised")


def test_our_own_mistake_is_a_bug():
    with pytest.raises(Bug, match="one and one is two"):
        check(False, "one and one is two")


def test_a_wrong_stored_value_is_corrupt():
    with pytest.raises(Corrupt, match="bytes are whole"):
        check_stored(False, "bytes are whole")
