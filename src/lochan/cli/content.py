"""`lochan content`: reads and writes the contents of single keys."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from lochan.base.errors import ContentNotFound, Invalid
from lochan.cli.arguments import (
    BRANCH,
    SPEC,
    author_option,
    filter_option,
    key_prefix_option,
    message_option,
)
from lochan.cli.command_context import CommandContext, catalog_command
from lochan.cli.groups import ListsByDefault
from lochan.cli.history import summary
from lochan.cli.keys import KEY, key_text
from lochan.cli.output import plain, short
from lochan.model.commits import CommitMeta, ContentKey, Delete, Operation, Put
from lochan.model.contents import Content, Namespace, type_of, with_id
from lochan.model.results import Entry
from lochan.wire.contents import content_in, content_out

_TYPES: Final = ("ICEBERG_TABLE", "ICEBERG_VIEW", "DELTA_LAKE_TABLE", "NAMESPACE", "UDF")

# The fields that a content needs besides its location; users need not know them.
_DEFAULT_FIELDS: Final[dict[str, dict[str, Any]]] = {
    "ICEBERG_TABLE": {"snapshotId": -1, "schemaId": 0, "specId": 0, "sortOrderId": 0},
    "ICEBERG_VIEW": {"versionId": 1, "schemaId": 0},
    "DELTA_LAKE_TABLE": {"metadataLocationHistory": [], "checkpointLocationHistory": []},
    "UDF": {"versionId": "1", "signatureId": "1"},
}

_on = click.option(
    "--on",
    "spec",
    type=SPEC,
    default="-",
    show_default=True,
    help="The branch, tag or commit to read.",
)
_branch = click.option(
    "-b", "--branch", type=BRANCH, default="-", show_default=True, help="The branch to commit to."
)
_expected = click.option(
    "--expected", metavar="HASH", help="Refuse if the key was changed after this commit."
)


@click.group(cls=ListsByDefault)
def content() -> None:
    """List, show, put and delete the contents of keys."""


@content.command("list")
@_on
@key_prefix_option
@filter_option
@click.option("-l", "--long", is_flag=True, help="Also the contents.")
@catalog_command
def list_content(
    context: CommandContext, spec: str, prefix: ContentKey | None, cel: str, long: bool
) -> None:
    """List the keys."""
    from lochan.wire.listings import entry_v2

    entries = context.catalog.contents.iterate(spec, prefix=prefix, filter=cel, with_content=long)
    columns = ["key", "type", "content id", *(["content"] if long else [])]

    def row(entry: Entry) -> list[str | int | None]:
        cells = [key_text(entry.key), entry.type, entry.content_id]
        return [*cells, summary(entry.content)] if long else [*cells]

    context.printer.table(entries, columns, row, entry_v2, "no keys")


@content.command("get")
@click.argument("key", type=KEY)
@_on
@catalog_command
def get_content(context: CommandContext, key: ContentKey, spec: str) -> None:
    """Show the content of KEY."""
    found, _ = context.catalog.contents.get(spec, key)
    raw = msgspec.json.encode(content_out(found))
    click.echo(
        raw if context.printer.as_json else plain(msgspec.json.format(raw, indent=2).decode())
    )


@content.command("put")
@click.argument("key", type=KEY)
@click.option(
    "--type", "kind", default="ICEBERG_TABLE", show_default=True, help=f"{', '.join(_TYPES)}, …"
)
@click.option("--location", metavar="URL", help="The address of the metadata file.")
@click.option(
    "--set", "fields", multiple=True, metavar="NAME=VALUE", help="A field of the content."
)
@click.option(
    "--file",
    type=click.Path(path_type=Path),
    help="A file with the content as JSON; - is standard input.",
)
@click.option("-p", "--parents", is_flag=True, help="Create missing namespaces in the same commit.")
@_branch
@message_option
@author_option
@_expected
@catalog_command
def put_content(
    context: CommandContext,
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
    """Put a content under KEY; it is new, or replaces the present content."""
    if file is not None:
        new = read_content(file)
    else:
        new = _build_content(key, kind, location, fields)
    keys = [key[:length] for length in range(1, len(key) + 1)]
    found, reference = context.catalog.contents.get_many(_spec(branch, expected), keys)
    present = dict(found)
    operations: list[Operation] = []
    if parents:
        missing = [each for each in keys[:-1] if each not in present]
        operations += [Put(key=each, content=Namespace(elements=each)) for each in missing]
    before = present.get(key)
    if before is not None and new.id is None and before.id is not None:
        if type_of(before) == type_of(new):
            new = with_id(new, before.id)
    operations.append(Put(key=key, content=new))
    text = message or f"Put {key_text(key)}"
    _commit(context, reference.name or branch, text, author, operations, reference.hash)


@content.command("delete")
@click.argument("keys", type=KEY, nargs=-1, required=True)
@_branch
@message_option
@author_option
@_expected
@catalog_command
def delete_content(
    context: CommandContext,
    keys: tuple[ContentKey, ...],
    branch: str,
    message: str | None,
    author: str | None,
    expected: str | None,
) -> None:
    """Delete KEYS, all in one commit."""
    found, reference = context.catalog.contents.get_many(_spec(branch, expected), keys)
    missing = [key for key in keys if key not in dict(found)]
    if missing:
        names = ", ".join(key_text(key) for key in missing)
        raise ContentNotFound(f"no such keys: {names}; nothing was deleted", missing[0])
    text = message or "Delete " + ", ".join(key_text(key) for key in keys)
    deletes = [Delete(key=key) for key in keys]
    _commit(context, reference.name or branch, text, author, deletes, reference.hash)


def _commit(
    context: CommandContext,
    branch: str,
    message: str,
    author: str | None,
    operations: list[Any],
    expected: str,
) -> None:
    from lochan.wire.commits import commit_response

    meta = CommitMeta(message=message, authors=() if author is None else (author,))
    committed = context.catalog.commits.commit(branch, meta, operations, expected=expected)
    text = f"{message}: {committed.branch} is now at {short(committed.hash)}"
    context.printer.document(commit_response(committed), text)


def _spec(branch: str, expected: str | None) -> str:
    return branch if expected is None else f"{branch}@{expected}"


def read_content(file: Path) -> Content:
    """Returns the content that a file holds as JSON; `-` is standard input."""
    try:
        raw = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        value = msgspec.json.decode(raw)
    except OSError as error:
        raise Invalid(f"{file} cannot be read: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise Invalid(f"{file} is not JSON: {error}") from None
    return content_in(value)


def _build_content(
    key: ContentKey, kind: str, location: str | None, fields: tuple[str, ...]
) -> Content:
    value: dict[str, Any] = {"type": kind, **_DEFAULT_FIELDS.get(kind, {})}
    if kind == "NAMESPACE":
        value["elements"] = list(key)
    if location is not None:
        value["metadataLocation"] = location
    for field in fields:
        name, equals, text = field.partition("=")
        if not equals:
            raise Invalid(f"--set {field}: write NAME=VALUE")
        value[name] = _field_value(text)
    return content_in(value, "the content (see --location and --set)")


def _field_value(text: str) -> Any:
    """Returns the value of JSON, or the text itself if it is not JSON."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
