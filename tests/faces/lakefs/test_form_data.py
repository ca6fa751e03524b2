"""The bytes of a form's field are the same however the body is cut into pieces."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lochan.base.errors import Invalid
from lochan.faces.lakefs.form_data import FormField, boundary_of
from lochan.transport.body_streams import BodyStream

BOUNDARY = b"--mark"


def form(data: bytes, before: int = 0, after: int = 0) -> bytes:
    """Returns a form with a field `content` between others."""
    other = b'\r\nContent-Disposition: form-data; name="other"\r\n\r\nx\r\n--' + BOUNDARY
    field = b'\r\nContent-Disposition: form-data; name="content"; filename="f"\r\n'
    field += b"Content-Type: text/x\r\n\r\n" + data + b"\r\n--" + BOUNDARY
    return b"--" + BOUNDARY + other * before + field + other * after + b"--\r\n"


def read(pieces: list[bytes]) -> tuple[bytes, str]:
    """Reads the field of a form that comes in pieces."""

    async def run() -> tuple[bytes, str]:
        body = BodyStream(lambda: None)
        for piece in pieces:
            body.feed(piece)
        body.complete()
        field = FormField(body, BOUNDARY)
        await field.open()
        return b"".join([part async for part in field]), field.content_type

    return asyncio.run(run())


def cut(raw: bytes, lengths: list[int]) -> list[bytes]:
    """Cuts bytes into pieces of these lengths, the last of which may be longer."""
    pieces, at = [], 0
    for length in lengths:
        pieces.append(raw[at : at + length])
        at += length
    return [piece for piece in (*pieces, raw[at:]) if piece]


contents = st.lists(
    st.sampled_from([b"a", b"\r\n", b"--", b"--mark", b"\r\n--mar", b"\r", b"\n", bytes(300)]),
    max_size=12,
).map(b"".join)


@given(
    contents,
    st.integers(0, 2),
    st.integers(0, 2),
    st.lists(st.integers(1, 40), max_size=30),
)
def test_the_field_is_read_as_it_was_sent(data, before, after, lengths):
    if b"\r\n--" + BOUNDARY in b"\r\n" + data:
        data = data.replace(b"-", b"+")
    raw = form(data, before, after)
    assert read(cut(raw, lengths)) == (data, "text/x")


@given(contents, st.data())
def test_a_form_that_is_cut_off_is_never_whole(data, choose):
    data = data.replace(b"-", b"+")
    raw = form(data)
    end = choose.draw(st.integers(0, len(raw) - len(b"--\r\n")))
    with pytest.raises(Invalid):
        read([raw[:end]] if end else [])


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("text/plain", None),
        ("multipart/form-data; boundary=abc", b"abc"),
        ('multipart/form-data; charset=utf-8; boundary="a b"', b"a b"),
        ("Multipart/Form-Data;boundary=abc; x=y", b"abc"),
    ],
)
def test_the_boundary_is_that_of_the_header(kind, expected):
    assert boundary_of(kind) == expected
