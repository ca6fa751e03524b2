"""The bytes of the rows of durable cursors."""

from __future__ import annotations

import msgspec
import pytest

from lochan.base.errors import Corrupt, NewerFormat
from lochan.codec.cursors import (
    CURSOR_FORM,
    POSITION_FORM,
    SUBSCRIBER_FORM,
    CursorRow,
    IndexPlace,
    PositionRow,
    ReplayPosition,
    SubscriberRow,
)
from lochan.codec.forms import RowForm, add_checksum, encode_row

OWNER = bytes(range(16))
POINTER = bytes(range(32))
OWNER_HEX = "c410" + OWNER.hex()
POINTER_HEX = "c420" + POINTER.hex()

ROWS: dict[str, tuple[RowForm, msgspec.Struct, str]] = {
    "subscriber": (
        SUBSCRIBER_FORM,
        SubscriberRow(1, "hook", OWNER, 3, 7, 15_000, 1_000_000, has_begun=True),
        "98 01 a4686f6f6b" + OWNER_HEX + "03 07 cd3a98 ce000f4240 c3",
    ),
    "cursor": (
        CURSOR_FORM,
        CursorRow(1, "hook", b"12345678", IndexPlace(9, POINTER), 1_000_000, 3),
        "96 01 a4686f6f6b c4083132333435363738 92 09" + POINTER_HEX + "ce000f4240 03",
    ),
    "position": (
        POSITION_FORM,
        PositionRow(1, "hook", b"12345678", "main", ReplayPosition(2, 5, POINTER), 3),
        "96 01 a4686f6f6b c4083132333435363738 a46d61696e 93 02 05" + POINTER_HEX + "03",
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_the_bytes_of_every_row_are_these(name):
    form, row, text = ROWS[name]
    raw = encode_row(row)
    assert raw[:-4].hex() == text.replace(" ", "")
    assert form.decode(raw) == row


@pytest.mark.parametrize("name", ROWS)
def test_a_newer_row_asks_for_an_upgrade_and_a_damaged_one_is_corrupt(name):
    form, row, _ = ROWS[name]
    raw = encode_row(row)
    with pytest.raises(Corrupt):
        form.decode(raw[:-1] + bytes((raw[-1] ^ 1,)))
    with pytest.raises(NewerFormat):
        form.decode(add_checksum(raw[:1] + b"\x02" + raw[2:-4]))
