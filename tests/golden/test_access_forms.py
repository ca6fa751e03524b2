"""The bytes and the keys of the rows about access.

A change of one of these is a change of the storage format: it needs a new version number, a line in
the changelog, and code that still reads the old form.
"""

from __future__ import annotations

import inspect
from zlib import crc32

import msgspec
import pytest

from lochan.access import records
from lochan.access.records import (
    ACCESS_PARTITION,
    ATTACHMENT_FORM,
    CREDENTIAL_FORM,
    GROUP_FORM,
    MEMBERSHIP_FORM,
    OWNED_FORM,
    POLICY_FORM,
    SETUP_FORM,
    SETUP_KEY,
    TOKEN_FORM,
    USER_FORM,
    AttachmentRow,
    CredentialRow,
    GroupRow,
    MembershipRow,
    OwnedRow,
    PolicyRow,
    SetupRow,
    TokenRow,
    TokenScope,
    UserRow,
    attachment_key,
    credential_key,
    group_key,
    membership_key,
    owned_key,
    policy_key,
    token_key,
    user_key,
)
from lochan.access.revision import REVISION_KEY
from lochan.base.errors import Corrupt, NewerFormat
from lochan.codec.forms import RowForm, encode_row
from lochan.model.access import Statement

ONE, TWO = bytes(range(16)), bytes(range(16))[::-1]
ONE_HEX, TWO_HEX = "c410" + ONE.hex(), "c410" + TWO.hex()
TIME_US = 1_700_000_000_000_000
TIME_HEX = "cf00060a24181e4000"
ADA = "a3616461"
STATEMENT = Statement(
    effect="deny", actions=("commit",), references=("main",), rule="true", paths=("a/*",)
)
STATEMENT_HEX = (
    "85 a6656666656374 a464656e79 a7616374696f6e73 91 a6636f6d6d6974"
    "aa7265666572656e636573 91 a46d61696e a57061746873 91 a3612f2a a472756c65 a474727565"
)

ROWS: dict[str, tuple[RowForm, msgspec.Struct, str]] = {
    "user": (
        USER_FORM,
        UserRow(1, "ada", ONE, TIME_US, "who", True),
        "96 01" + ADA + ONE_HEX + TIME_HEX + "a377686f c3",
    ),
    "group": (
        GROUP_FORM,
        GroupRow(1, "g", ONE, TIME_US, "who", True),
        "96 01 a167" + ONE_HEX + TIME_HEX + "a377686f c3",
    ),
    "policy": (
        POLICY_FORM,
        PolicyRow(1, "p", ONE, TIME_US, "why", False, 3, (TWO,), (STATEMENT,)),
        "99 01 a170" + ONE_HEX + TIME_HEX + "a3776879 c2 03 91" + TWO_HEX + "91" + STATEMENT_HEX,
    ),
    "membership": (
        MEMBERSHIP_FORM,
        MembershipRow(1, "ada", "g", ONE, TWO, TIME_US),
        "96 01" + ADA + "a167" + ONE_HEX + TWO_HEX + TIME_HEX,
    ),
    "attachment": (
        ATTACHMENT_FORM,
        AttachmentRow(1, "group", "g", "p", ONE, TWO, TIME_US),
        "97 01 a567726f7570 a167 a170" + ONE_HEX + TWO_HEX + TIME_HEX,
    ),
    "owned": (
        OWNED_FORM,
        OwnedRow(1, "token", "ada", "t1"),
        "94 01 a5746f6b656e" + ADA + "a27431",
    ),
    "access key": (
        CREDENTIAL_FORM,
        CredentialRow(1, "k1", "ada", ONE, TIME_US, b"\xff\x00", "job"),
        "97 01 a26b31" + ADA + ONE_HEX + TIME_HEX + "c402ff00 a36a6f62",
    ),
    "token": (
        TOKEN_FORM,
        TokenRow(1, "t1", "ada", ONE, TIME_US, b"\xff", 5, (TokenScope("p", TWO),), "job"),
        "99 01 a27431" + ADA + ONE_HEX + TIME_HEX + "c401ff 05 91 92 a170" + TWO_HEX + "a36a6f62",
    ),
    "set-up": (
        SETUP_FORM,
        SetupRow(1, "ada", "t1", b"\xff", ONE, TIME_US, b"\x01", (b"\x02",), True),
        "99 01" + ADA + "a27431 c401ff" + ONE_HEX + TIME_HEX + "c40101 91 c40102 c3",
    ),
}

# What several kinds of rows have in common, or a part of one.
PARTS = {"NamedRow", "UserOwnedRow", "TokenScope"}


def with_checksum(raw: bytes) -> bytes:
    return raw + crc32(raw).to_bytes(4, "big")


def test_every_kind_of_row_is_here():
    structs = {
        name
        for name, found in inspect.getmembers(records, inspect.isclass)
        if issubclass(found, msgspec.Struct) and found.__module__ == records.__name__
    }
    assert {type(row).__name__ for _, row, _ in ROWS.values()} == structs - PARTS


@pytest.mark.parametrize("name", ROWS)
def test_rows_about_access_have_these_bytes(name):
    form, row, row_hex = ROWS[name]
    raw = with_checksum(bytes.fromhex(row_hex))
    assert encode_row(row).hex() == raw.hex()
    assert form.decode(raw) == row


def test_rows_about_access_have_these_keys():
    assert ACCESS_PARTITION.hex() == "00" * 16 + "61"
    assert [
        user_key("oidc:ada@b"),
        group_key("g"),
        policy_key("p"),
        membership_key("ada", "g"),
        attachment_key("group", "g", "p"),
        attachment_key("user", "ada", "p"),
        owned_key("token", "ada", "t1"),
        owned_key("access-key", "ada", "k1"),
        credential_key("k1"),
        token_key("t1"),
        SETUP_KEY,
        REVISION_KEY,
    ] == [
        b"users/oidc:ada@b",
        b"groups/g",
        b"policies/p",
        b"members/ada!g",
        b"attached/group/g!p",
        b"attached/user/ada!p",
        b"owned/token/ada!t1",
        b"owned/access-key/ada!k1",
        b"credentials/k1",
        b"tokens/t1",
        b"setup",
        b"revision",
    ]


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("version", [2, 127])
def test_a_row_of_a_later_format_is_of_a_newer_format(name, version):
    form, row, _ = ROWS[name]
    raw = encode_row(row)
    assert raw[1] == 1
    with pytest.raises(NewerFormat, match=f"format {version}.*upgrade Lochan"):
        form.decode(with_checksum(raw[:1] + bytes([version]) + raw[2:-4]))


@pytest.mark.parametrize("name", ROWS)
def test_every_flipped_bit_of_a_row_is_corrupt(name):
    form, row, _ = ROWS[name]
    raw = encode_row(row)
    for at in range(len(raw)):
        for bit in range(8):
            with pytest.raises(Corrupt):
                form.decode(raw[:at] + bytes((raw[at] ^ 1 << bit,)) + raw[at + 1 :])


def test_a_field_of_a_statement_that_is_not_known_is_corrupt_and_not_left_out():
    """Without it the statement could allow more than its author wrote."""
    statement = {"effect": "allow", "actions": ["read"], "only_on_sundays": True}
    row = (1, "p", ONE, 0, "", False, 1, (), [statement])
    with pytest.raises(Corrupt, match="only_on_sundays"):
        POLICY_FORM.decode(with_checksum(msgspec.msgpack.encode(row)))
