"""The XML of S3: documents that are written, and the two small ones that are read.

A document that is read has a root, fields, and rows of fields; nothing is nested deeper. It has no
document type, so there are no entities that could grow, and no addresses that could be fetched.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final
from xml.parsers import expat

import msgspec

from lochan.base.errors import Refusal

NAMESPACE: Final = "http://s3.amazonaws.com/doc/2006-03-01/"
CONTENT_TYPE: Final = b"application/xml"

_DEPTH_MAX: Final = 4
_HEAD: Final = '<?xml version="1.0" encoding="UTF-8"?>\n'
_SPECIAL: Final = re.compile('[&<>"\r\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff]')
_NAMES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}


class Xml(msgspec.Struct, frozen=True, gc=False):
    """The content of an element that is XML already."""

    text: str


Field = tuple[str, str | int | bool | Xml | None]
"""The name of an element, and its content; None leaves it out."""


def _escaped(found: re.Match[str]) -> str:
    return _NAMES.get(found[0]) or f"&#x{ord(found[0]):X};"


def escape(text: str) -> str:
    """Returns a text as XML contains it; characters that XML cannot have by their numbers."""
    return _SPECIAL.sub(_escaped, text)


def _element(name: str, value: str | int | bool | Xml | None) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        inner = "true" if value else "false"
    elif isinstance(value, Xml):
        inner = value.text
    else:
        inner = escape(str(value))
    return f"<{name}>{inner}</{name}>" if inner else f"<{name}/>"


def fields(values: Iterable[Field]) -> str:
    """Returns elements one after the other."""
    return "".join([_element(name, value) for name, value in values])


def nested(values: Iterable[Field]) -> Xml:
    """Returns elements as the content of another."""
    return Xml(fields(values))


def document(root: str, values: Iterable[Field]) -> bytes:
    """Returns a whole document of S3."""
    return f'{_HEAD}<{root} xmlns="{NAMESPACE}">{fields(values)}</{root}>'.encode()


def error_document(values: Iterable[Field]) -> bytes:
    """Returns the document of an error, which has no namespace."""
    return f"{_HEAD}<Error>{fields(values)}</Error>".encode()


class ReadDocument(msgspec.Struct, frozen=True):
    """A document that was read: the texts below its root, and those of its rows."""

    fields: dict[str, str]
    rows: list[dict[str, str]]


def malformed(reason: str) -> Refusal:
    """Returns the refusal of a document."""
    return Refusal(
        "The XML you provided was not well-formed or did not validate against our published "
        f"schema: {reason}",
        400,
        "MalformedXML",
    )


class _Reader:
    """Follows the events of a parser."""

    def __init__(self, root: str, row: str, rows_max: int) -> None:
        self._root = root
        self._row = row
        self._rows_max = rows_max
        self._path: list[str] = []
        self._text: list[str] = []
        self.found = ReadDocument({}, [])

    def start(self, name: str, attributes: object) -> None:  # noqa: ARG002 - the parser gives it
        name = name.rpartition(":")[2]
        self._path.append(name)
        self._text.clear()
        if len(self._path) == 1 and name != self._root:
            raise malformed(f"it is not a {self._root}")
        if len(self._path) > _DEPTH_MAX:
            raise malformed("its elements are nested too deeply")
        if self._path[1:] == [self._row]:
            if len(self.found.rows) == self._rows_max:
                raise malformed(f"it has more than {self._rows_max} elements {self._row}")
            self.found.rows.append({})

    def text(self, text: str) -> None:
        self._text.append(text)

    def end(self, name: str) -> None:  # noqa: ARG002 - the parser gives it
        path, text = self._path, "".join(self._text)
        self._text.clear()
        target = None
        if len(path) == 2 and path[1] != self._row:
            target = self.found.fields
        elif len(path) == 3 and path[1] == self._row:
            target = self.found.rows[-1]
        if target is not None:
            if path[-1] in target:
                raise malformed(f"{path[-1]} is given twice")
            target[path[-1]] = text
        path.pop()

    def refuse(self, *given: object) -> None:  # noqa: ARG002 - the parser gives them
        raise malformed("it has a document type or an entity")


def read_document(body: bytes, root: str, row: str, rows_max: int) -> ReadDocument:
    """Reads a document with a root and rows; raises the refusal of S3 if it is anything else."""
    reader = _Reader(root, row, rows_max)
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    parser.StartDoctypeDeclHandler = reader.refuse
    parser.EntityDeclHandler = reader.refuse
    parser.ExternalEntityRefHandler = None
    try:
        parser.Parse(body, True)
    except expat.ExpatError as error:
        raise malformed(expat.ErrorString(error.code)) from None
    except (LookupError, ValueError):
        raise malformed("its encoding is not known") from None
    return reader.found
