"""Which names of references are accepted, and which are refused."""

from __future__ import annotations

import pytest

from lochan.base.errors import Invalid
from lochan.base.limits.commits import REFERENCE_NAME_BYTES_MAX
from lochan.base.names import REFS_NAME, ref_name

ACCEPTED = [
    "a",
    "Z",
    "main",
    "feature/one",
    "a/b/c/d",
    "v1.2.3",
    "a-",
    "a_",
    "a-b_c.d/e",
    "a./b",
    "a/.b",
    "int",
    "int-x",
    "internal/x",
    "Int/refs",
    "x/int/refs",
    "head",
    "HEADS",
    "HEAD/x",
    "detached",
    "DETACHED1",
    "abcdef0",  # seven hexadecimal digits
    "g1234567",
    "deadbeef-",
    "deadbeef/x",
    "deadbee.f",
    "a" * 65,  # longer than any hash
    "x" * REFERENCE_NAME_BYTES_MAX,
]

REFUSED = [
    "",
    "x" * (REFERENCE_NAME_BYTES_MAX + 1),
    "HEAD",
    "DETACHED",
    "int/",
    "int/refs",
    "int/x",
    "abcdef01",
    "ABCDEF01",
    "deadBEEF",
    "a" * 8,
    "a" * 64,
    "f" * 63,
    "1a",
    "0",
    "-a",
    "_a",
    ".a",
    "/a",
    "a.",
    "a/",
    "a..b",
    "a//b",
    "a/..",
    "..",
    "a b",
    " a",
    "a ",
    "a~1",
    "a^",
    "a*b",
    "a@b",
    "a@{1}",
    "a:b",
    "a?b",
    "a[b",
    "a\\b",
    "a#b",
    "a%b",
    "a+b",
    "a=b",
    "a,b",
    "a\n",
    "main\n",
    "\na",
    "a\nb",
    "a\tb",
    "a\0b",
    "a\x7fb",
    "a\x1b[0m",
    "grün",
    "ünicode",
    "аbc",  # noqa: RUF001 - begins with a Cyrillic letter
    "a\u200bb",
    "a\u202eb",
    "ａ",  # noqa: RUF001 - a wide letter
    "a１",  # noqa: RUF001 - a wide digit
    "a\u0661",
    "é",
    "\ud800",
    "😀",
]


@pytest.mark.parametrize("text", ACCEPTED)
def test_these_names_are_accepted_as_they_are(text):
    assert ref_name(text) == text


@pytest.mark.parametrize("text", REFUSED)
def test_these_names_are_refused(text):
    with pytest.raises(Invalid) as caught:
        ref_name(text)
    assert len(caught.value.message) < 400
    caught.value.message.encode()


def test_no_user_can_name_the_index_of_names():
    with pytest.raises(Invalid):
        ref_name(REFS_NAME)


def test_every_other_character_is_refused_at_every_place():
    allowed = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-")
    for number in (*range(0x250), 0x2028, 0xFEFF, 0x1F600):
        character = chr(number)
        for text in (f"{character}g", f"g{character}g", f"g{character}"):
            first, last = text[0], text[-1]
            good = set(text) <= allowed and first.isascii() and first.isalpha() and last not in "./"
            if good:
                assert ref_name(text) == text
            else:
                with pytest.raises(Invalid):
                    ref_name(text)
