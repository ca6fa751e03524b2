"""The bytes of commits, tags, rows of references and descriptions, and the ids made from them.

A change of one of these is a change of the storage format: it needs a new version number, a line in
the changelog, and code that still reads the old form.
"""

from __future__ import annotations

from hashlib import sha256
from zlib import crc32

import msgspec
import pytest

from lochan.base.ids import EMPTY_ID, InstanceId, ObjId
from lochan.codec.commits import (
    CommitObject,
    TagObject,
    UniverseIndex,
    commit_id,
    decode_commit,
    digest_operations,
    encode_commit,
    is_commit,
)
from lochan.codec.forms import encode_row
from lochan.codec.rows import (
    DELETED_FORM,
    DESCRIPTION_FORM,
    MOVE_FORM,
    REFERENCE_FORM,
    REPOSITORY_FORM,
    SETTINGS_FORM,
    TOKEN_FORM,
    DeletedRow,
    Description,
    Move,
    MoveRow,
    ReferenceElement,
    ReferenceRow,
    RepositoryRow,
    SettingsRow,
    StagingTokenRow,
    decode_reference_element,
    encode_reference_element,
)
from lochan.persist.claims import CLAIM_FORM, Claim, ClaimRows
from lochan.stores.memory.store import MemoryStore

FORWARD = bytes(range(32))
BACKWARD = FORWARD[::-1]
FORWARD_HEX = "c420" + FORWARD.hex()
BACKWARD_HEX = "c420" + BACKWARD.hex()
TIME_HEX = "cf00060a24181e4000"  # 1,700,000,000,000,000 microseconds
TIME_US = 1_700_000_000_000_000

COMMIT = CommitObject(
    1,
    (FORWARD, BACKWARD),
    "grüße",
    (("author", ("a", "b")),),
    (("operation", ("00ff",)),),
    BACKWARD,
    TIME_US,
    2,
    300,
    1,
    FORWARD,
    (FORWARD,),
    EMPTY_ID,
    (b"tns\x01a",),
    (UniverseIndex(0x74, b"\x01\x02", None), UniverseIndex(0x66, b"", FORWARD)),
    BACKWARD,
)
# What the author did, which is what the id covers; one line a field.
AUTHORED_HEX = (
    "01 92" + FORWARD_HEX + BACKWARD_HEX + "a7 6772c3bcc39f65"
    "91 92 a6617574686f72 92 a161 a162"
    "91 92 a96f7065726174696f6e 91 a430306666" + BACKWARD_HEX
)
COMMIT_HEX = (
    "dc0011 01" + AUTHORED_HEX + TIME_HEX + "02 cd012c 01" + FORWARD_HEX + "91" + FORWARD_HEX
    + "c420" + EMPTY_ID.hex() + "91 c405 746e730161"
    "92 94 74 c4020102 c0 90 94 66 c400" + FORWARD_HEX + "90" + BACKWARD_HEX
)  # fmt: skip
COMMIT_ID_HEX = "f6bbbaca0715cc2f1d293c48b7b3ce0ff2ee555aa8db9f244226014301660aed"

TAG = TagObject(1, FORWARD, "released", (("by", ("me",)),), b"\xff")
TAG_HEX = "96 02 01" + FORWARD_HEX + "a872656c6561736564 91 92 a26279 91 a26d65 c401ff"

MOVE = Move(3, FORWARD, BACKWARD, "assign", "me", TIME_US, bytes(16), "src", b"\x07", 2, ("a", "b"))
MOVE_HEX = (
    "9b 03" + FORWARD_HEX + BACKWARD_HEX + "a661737369676e a26d65" + TIME_HEX
    + "c410" + "00" * 16 + "a3737263 c40107 02 92 a161 a162"
)  # fmt: skip
ROW = ReferenceRow(
    1,
    "main",
    "BRANCH",
    FORWARD,
    3,
    129,
    bytes(range(16)),
    TIME_US,
    deleted=True,
    expires_us=5,
    previous=((BACKWARD, TIME_US),),
    moves=(MOVE,),
    staging_token=b"\x01",
    sealed_tokens=(b"\x02", b"\x03"),
    concealed=True,
)
ROW_HEX = (
    "9f 01 a46d61696e a64252414e4348" + FORWARD_HEX + "03 cc81 c410" + bytes(range(16)).hex()
    + TIME_HEX + "c3 05 91 92" + BACKWARD_HEX + TIME_HEX + "91" + MOVE_HEX
    + "c40101 92 c40102 c40103 c3"
)  # fmt: skip
ELEMENT = ReferenceElement("TAG", FORWARD, 7, TIME_US, bytes(16), "me", None, ("a",), True)
ELEMENT_HEX = (
    "00 99 a3544147" + FORWARD_HEX + "07" + TIME_HEX + "c410" + "00" * 16 + "a26d65 c0 91 a161"
    + "c3"
)  # fmt: skip
MOVE_ROW = MoveRow(1, "main", 129, MOVE)
MOVE_ROW_HEX = "94 01 a46d61696e cc81" + MOVE_HEX
REPOSITORY = RepositoryRow(1, "repo", bytes(range(16)))
REPOSITORY_HEX = "93 01 a47265706f c410" + bytes(range(16)).hex()
DELETED = DeletedRow(1, "repo", bytes(range(16)), TIME_US)
DELETED_HEX = "94 01 a47265706f c410" + bytes(range(16)).hex() + TIME_HEX
SETTINGS = SettingsRow(1, bytes(range(16)), 3, (b"\x01",), (("A", b"\x80"),), b"\x02", b"\x81")
SETTINGS_HEX = (
    "97 01 c410" + bytes(range(16)).hex() + "03 91 c40101 91 92 a141 c40180 c40102 c40181"
)
DESCRIPTION = Description(1, "repo", "main", TIME_US, bytes(16), FORWARD, b"\x07")
DESCRIPTION_HEX = (
    "98 01 a47265706f a46d61696e" + TIME_HEX + "c410" + "00" * 16 + FORWARD_HEX + "c40107 a0"
)
TOKEN = StagingTokenRow(1, bytes(range(16)), "main", 129, TIME_US, 5)
TOKEN_HEX = "96 01 c410" + bytes(range(16)).hex() + "a46d61696e cc81" + TIME_HEX + "05"
CLAIM = Claim(1, FORWARD, b"\x01", "commit", "main", "side", 3, 4, 5, bytes(16), TIME_US, b"\x09")
CLAIM_HEX = (
    "9c 01"
    + FORWARD_HEX
    + "c40101 a6636f6d6d6974 a46d61696e a473696465 03 04 05 c410"
    + "00" * 16
    + TIME_HEX
    + "c40109"
)


def with_checksum(raw: bytes) -> bytes:
    return raw + crc32(raw).to_bytes(4, "big")


def test_a_commit_has_these_bytes_and_this_id():
    stored = with_checksum(bytes.fromhex(COMMIT_HEX))
    assert encode_commit(COMMIT).hex() == stored.hex()
    assert commit_id(COMMIT).hex() == COMMIT_ID_HEX
    assert sha256(bytes.fromhex("97 01" + AUTHORED_HEX)).hexdigest() == COMMIT_ID_HEX
    assert decode_commit(ObjId(bytes.fromhex(COMMIT_ID_HEX)), stored) == COMMIT


def test_a_commit_is_recognised_by_its_first_bytes():
    assert is_commit(encode_commit(COMMIT))
    assert is_commit(bytes.fromhex("dc001101"))
    assert is_commit(bytes.fromhex("dc00170102")), "one of a later version is a commit too"
    for other in (TAG_HEX, ROW_HEX, DESCRIPTION_HEX, "", "dc0011", "dc001001", "dc001103", "9e01"):
        assert not is_commit(bytes.fromhex(other))


def test_operations_have_these_digests():
    assert digest_operations([]).hex() == sha256(b"").hexdigest()
    operations = [(b"fa", None), (b"tb", b"\x00\x01")]
    expected = sha256(bytes.fromhex("92 c4026661 c0 92 c4027462 c4020001")).hexdigest()
    assert digest_operations(operations).hex() == expected


def test_a_tag_has_these_bytes():
    raw = bytes.fromhex(TAG_HEX)
    assert msgspec.msgpack.encode(TAG).hex() == raw.hex()
    assert msgspec.msgpack.decode(raw, type=TagObject) == TAG


def test_a_row_of_a_reference_has_these_bytes():
    raw = with_checksum(bytes.fromhex(ROW_HEX))
    assert encode_row(ROW).hex() == raw.hex()
    assert REFERENCE_FORM.decode(raw) == ROW


def test_a_staging_token_has_these_bytes():
    raw = with_checksum(bytes.fromhex(TOKEN_HEX))
    assert encode_row(TOKEN).hex() == raw.hex()
    assert TOKEN_FORM.decode(raw) == TOKEN


def test_a_row_without_its_later_fields_is_read():
    row = REFERENCE_FORM.decode(with_checksum(bytes.fromhex("98" + ROW_HEX[2:].split("c3 05")[0])))
    assert (row.deleted, row.expires_us, row.previous, row.moves) == (False, None, (), ())
    assert (row.staging_token, row.sealed_tokens) == (b"", ())


def test_moves_and_listed_names_without_roles_are_read():
    """As they were written before roles were recorded."""
    move = msgspec.msgpack.decode(bytes.fromhex(f"9a{MOVE_HEX[2:].split('92 a1')[0]}"), type=Move)
    assert move == msgspec.structs.replace(MOVE, roles=())
    raw = bytes.fromhex(f"00 97{ELEMENT_HEX[5:].split('91 a1')[0]}")
    expected = msgspec.structs.replace(ELEMENT, roles=(), concealed=False)
    assert decode_reference_element(raw) == expected


def test_a_listed_name_has_these_bytes():
    raw = bytes.fromhex(ELEMENT_HEX)
    assert encode_reference_element(ELEMENT).hex() == raw.hex()
    assert decode_reference_element(raw) == ELEMENT


@pytest.mark.parametrize(
    ("form", "row", "row_hex"),
    [
        (MOVE_FORM, MOVE_ROW, MOVE_ROW_HEX),
        (REPOSITORY_FORM, REPOSITORY, REPOSITORY_HEX),
        (SETTINGS_FORM, SETTINGS, SETTINGS_HEX),
        (DELETED_FORM, DELETED, DELETED_HEX),
    ],
)
def test_other_rows_have_these_bytes(form, row, row_hex):
    raw = with_checksum(bytes.fromhex(row_hex))
    assert encode_row(row).hex() == raw.hex()
    assert form.decode(raw) == row


def test_a_description_has_these_bytes():
    raw = with_checksum(bytes.fromhex(DESCRIPTION_HEX))
    assert encode_row(DESCRIPTION).hex() == raw.hex()
    assert DESCRIPTION_FORM.decode(raw) == DESCRIPTION


def test_a_claim_has_these_bytes():
    raw = with_checksum(bytes.fromhex(CLAIM_HEX))
    store = MemoryStore()
    rows = ClaimRows(store, InstanceId(bytes(16)))
    assert rows.condition(CLAIM, None).value.hex() == raw.hex()
    assert rows.condition(CLAIM, None).key == FORWARD
    assert CLAIM_FORM.decode(raw) == CLAIM
