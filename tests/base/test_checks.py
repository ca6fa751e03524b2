"""Two kinds of broken belief: our own mistake, and bytes that were changed outside."""

from __future__ import annotations

import pytest

from lochan.base.checks import check, check_stored
from lochan.base.errors import Bug, Corrupt


def test_a_belief_that_holds_passes():
    check(True, "never said")
    check_stored(True, "never said")


def test_our_own_mistake_is_a_bug():
    with pytest.raises(Bug, match="one and one is two"):
        check(False, "one and one is two")


def test_a_wrong_stored_value_is_corrupt():
    with pytest.raises(Corrupt, match="bytes are whole"):
        check_stored(False, "bytes are whole")
