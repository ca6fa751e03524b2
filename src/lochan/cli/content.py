"""`lochan content`: what keys hold, read and written one by one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from lochan.base.errors import ContentNotFound, Invalid
from lochan.cli.command_context import CommandContext, errand
from lochan.cli.groups import ListsByDefault
from lochan.cli.history import summary
from lochan.cli.keys import KEY, key_text
from lochan.cli.printing import plain, short
from lochan.cli.specs import BRANCH, SPEC
from lochan.model.commits import CommitMeta, ContentKey, Delete, Operation, Put
from lochan.model.contents import Content, Namespace, type_of, with_id
from lochan.model.results import Entry
from lochan.wire.contents import content_in, content_out

_TYPES: Final = ("ICEBERG_TABLE", "ICEBERG_VIEW", "DELTA_LAKE_TABLE", "NAMESPACE", "UDF")

# What a table needs beside its location, so that one can be put without knowing any of it.
_USUAL: Final[dict[str, dict[str, Any]]] = {
    "ICEBERG_TABLE": {"snapshotId": -1, "schemaId": 0, "specId": 0, "sortOrderId": 0},
    "ICEBERG_VIEW": {"versionId": 1, "schemaId": 0},
    "DELTA_LAKE_TABLE": {"metadataLocationHistory": [], "checkpointLocationHistory": []},
    "UDF": {"versionId": "1", "signatureId": "1"},
}

_on = click.option("--on", "spec", type=SPEC, default="-", show_default=True, help="Where to read.")
_branch = click.option(
    "-b", "--branch", type=BRANCH, default="-", show_default=True, help="Where to commit."
)
_message = click.option("-m", "--message", help="The message of the commit.")
_author = click.option("--author", help="The author of the commit.")
_expected = click.option(
    "--expected", metavar="HASH", help="Refuse if the key changed since this commit."
)


@click.group(cls=ListsByDefault)
def content() -> None:
    """List, show, put and delete what keys hold."""


@content.command("list")
@_on
@click.option("--prefix", type=KEY, help="Only this key and those below it.")
@click.option("--filter", "wanted", default="", metavar="CEL", help="Only those it keeps.")
@click.option("-l", "--long", is_flag=True, help="Also the contents.")
@errand
def list_content(
    job: CommandContext, spec: str, prefix: ContentKey | None, wanted: str, long: bool
) -> None:
    """List the keys."""
    from lochan.wire.listings import entry_v2

    found = job.catalog.contents.iterate(spec, prefix=prefix, filter=wanted, with_content=long)
    columns = ["key", "type", "content id", *(["content"] if long else [])]

    def row(entry: Entry) -> list[str | int | None]:
        shown = [key_text(entry.key), entry.type, entry.content_id]
        return [*shown, summary(entry.content)] if long else [*shown]

    job.printer.table(found, columns, row, entry_v2, "no keys")


@content.command("get")
@click.argument("key", type=KEY)
@_on
@errand
def get_content(job: CommandContext, key: ContentKey, spec: str) -> None:
    """Show what KEY holds."""
    found, _ = job.catalog.contents.get(spec, key)
    raw = msgspec.json.encode(content_out(found))
    click.echo(raw if job.printer.as_json else plain(msgspec.json.format(raw, indent=2).decode()))


@content.command("put")
@click.argument("key", type=KEY)
@click.option(
    "--type", "kind", default="ICEBERG_TABLE", show_default=True, help=f"{', '.join(_TYPES)}, …"
)
@click.option("--location", metavar="URL", help="Where the metadata is.")
@click.option(
    "--set", "fields", multiple=True, metavar="NAME=VALUE", help="A field of the content."
)
@click.option("--file", type=click.Path(path_type=Path), help="The content as JSON; - reads it.")
@click.option("-p", "--parents", is_flag=True, help="Make missing namespaces in the same commit.")
@_branch
@_message
@_author
@_expected
@errand
def put_content(
    job: CommandContext,
    key: ContentKey,
    kind: str,
    location: str | None,
    fields: tuple[str, ...],
    file: Path | None,
    parents: bool,
    branch: str,
    message: str | None,
    author: str | None,
    expected: str | None,
) -> None:
    """Put a content under KEY, new or in place of the one that is there."""
    wanted = read_content(file) if file is not None else _built(key, kind, location, fields)
    keys = [key[:length] for length in range(1, len(key) + 1)]
    there, reference = job.catalog.contents.get_many(_at(branch, expected), keys)
    known = dict(there)
    operations: list[Operation] = []
    if parents:
        missing = [each for each in keys[:-1] if each not in known]
        operations += [Put(key=each, content=Namespace(elements=each)) for each in missing]
    before = known.get(key)
    if before is not None and wanted.id is None and before.id is not None:
        if type_of(before) == type_of(wanted):
            wanted = with_id(wanted, before.id)
    operations.append(Put(key=key, content=wanted))
    said = message or f"Put {key_text(key)}"
    _commit(job, reference.name or branch, said, author, operations, reference.hash)


@content.command("delete")
@click.argument("keys", type=KEY, nargs=-1, required=True)
@_branch
@_message
@_author
@_expected
@errand
def delete_content(
    job: CommandContext,
    keys: tuple[ContentKey, ...],
    branch: str,
    message: str | None,
    author: str | None,
    expected: str | None,
) -> None:
    """Delete KEYS, all in one commit."""
    there, reference = job.catalog.contents.get_many(_at(branch, expected), keys)
    missing = [key for key in keys if key not in dict(there)]
    if missing:
        names = ", ".join(key_text(key) for key in missing)
        raise ContentNotFound(f"nothing to delete under {names}", missing[0])
    said = message or "Delete " + ", ".join(key_text(key) for key in keys)
    deletes = [Delete(key=key) for key in keys]
    _commit(job, reference.name or branch, said, author, deletes, reference.hash)


def _commit(
    job: CommandContext,
    branch: str,
    message: str,
    author: str | None,
    operations: list[Any],
    expected: str,
) -> None:
    from lochan.wire.commits import commit_response

    meta = CommitMeta(message=message, authors=() if author is None else (author,))
    done = job.catalog.commits.commit(branch, meta, operations, expected=expected)
    job.printer.document(
        commit_response(done), f"{message}: {done.branch} is at {short(done.hash)} now"
    )


def _at(branch: str, expected: str | None) -> str:
    return branch if expected is None else f"{branch}@{expected}"


def read_content(file: Path) -> Content:
    """Reads a content from JSON in a file; `-` is standard input."""
    try:
        raw = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        value = msgspec.json.decode(raw)
    except OSError as error:
        raise Invalid(f"{file} cannot be read: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise Invalid(f"{file} is not JSON: {error}") from None
    return content_in(value)


def _built(key: ContentKey, kind: str, location: str | None, fields: tuple[str, ...]) -> Content:
    value: dict[str, Any] = {"type": kind, **_USUAL.get(kind, {})}
    if kind == "NAMESPACE":
        value["elements"] = list(key)
    if location is not None:
        value["metadataLocation"] = location
    for field in fields:
        name, equals, text = field.partition("=")
        if not equals:
            raise Invalid(f"--set takes NAME=VALUE, not {field!r}")
        value[name] = _value(text)
    return content_in(value, "the content (see --location and --set)")


def _value(text: str) -> Any:
    """Reads a value as JSON where it is JSON, else as text."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
