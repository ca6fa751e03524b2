"""`lochan fs`: files of a repository, listed, read, copied and removed."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterable, Iterator
from typing import Final

import click
import msgspec
from rich.text import Text

from lochan.base.errors import Invalid, PathNotFound
from lochan.base.limits.client import TRANSFERS_MAX
from lochan.base.limits.files import FILES_DELETED_MAX
from lochan.cli.arguments import author_option
from lochan.cli.command_context import CommandContext, catalog_command
from lochan.cli.files.places import ADDRESS, PLACE, Place, catalog_of, text_of
from lochan.cli.files.transfers import Copier, Transfer, UploadOptions, run_transfers
from lochan.cli.output import Cell, moment, plain, short
from lochan.client.file_addresses import FileAddress
from lochan.model.commits import CommitMeta
from lochan.model.files import FileChange, FileDifference, FileInfo, FileItem, FilePrefix
from lochan.wire.files import change_out, file_out, imported_out, item_out

_MARKS: Final = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "yellow")}
_THREADS_DEFAULT: Final = 8

_recursive = click.option("-r", "--recursive", is_flag=True, help="All files below the path.")
_address = click.argument("address", type=ADDRESS, metavar="REF:PATH")


@click.group()
def fs() -> None:
    """List, read, copy and remove files.

    A file is written REF:PATH, such as main:data/a.csv, or lochan://REPOSITORY@REF/PATH. Changes
    are staged on their branch until `lochan commit`.
    """


@fs.command("ls")
@_address
@_recursive
@click.option("-l", "--long", is_flag=True, help="Also checksums and types.")
@catalog_command
def list_files(context: CommandContext, address: FileAddress, recursive: bool, long: bool) -> None:
    """List the files whose paths begin with PATH, up to the next slash."""
    items = catalog_of(context, address).files.iterate(
        address.spec, address.path, delimiter="" if recursive else "/"
    )
    columns = ["size", "modified (UTC)", *(["sha256", "type"] if long else []), "path"]

    def row(item: FileItem) -> list[Cell]:
        if isinstance(item, FilePrefix):
            return [*([""] * (len(columns) - 1)), item.path]
        more: list[Cell] = [short(item.sha256), item.content_type] if long else []
        return [f"{item.size:,}", moment(item.modified_us), *more, item.path]

    context.printer.table(items, columns, row, item_out, "no files")


@fs.command("cat")
@click.argument("addresses", type=ADDRESS, nargs=-1, required=True, metavar="REF:PATH...")
@catalog_command
def print_files(context: CommandContext, addresses: tuple[FileAddress, ...]) -> None:
    """Print the bytes of files; with --json as Base64."""
    for address in addresses:
        with catalog_of(context, address).files.open(address.spec, address.path) as stream:
            if context.printer.as_json:
                _print_as_json(stream.info, stream)
            else:
                for piece in stream:
                    sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


def _print_as_json(info: FileInfo, pieces: Iterable[bytes]) -> None:
    """Prints a file as one line, without holding it in memory."""
    head = msgspec.json.encode(file_out(info))[:-1]
    out = sys.stdout.buffer
    out.write(head + b',"base64":"')
    held = b""
    for piece in pieces:
        held += piece
        whole = len(held) - len(held) % 3
        out.write(base64.b64encode(held[:whole]))
        held = held[whole:]
    out.write(base64.b64encode(held) + b'"}\n')


@fs.command("stat")
@_address
@catalog_command
def show_file(context: CommandContext, address: FileAddress) -> None:
    """Show what a file is, without its bytes."""
    info = catalog_of(context, address).files.stat(address.spec, address.path)
    if context.printer.as_json:
        context.printer.line(file_out(info))
        return
    facts: dict[str, Cell] = {
        "path": info.path,
        "size": f"{info.size:,}",
        "modified (UTC)": moment(info.modified_us),
        "type": info.content_type,
        "etag": info.etag,
        "sha256": info.sha256,
        "address": info.address,
    }
    facts |= {f"metadata {name}": value for name, value in info.metadata}
    context.printer.facts({name: value for name, value in facts.items() if value})


@fs.command("cp")
@click.argument("source", type=PLACE)
@click.argument("target", type=PLACE)
@_recursive
@click.option(
    "--parallel",
    type=click.IntRange(1, TRANSFERS_MAX),
    default=_THREADS_DEFAULT,
    show_default=True,
    help="How many files are copied at the same time.",
)
@click.option("--progress/--no-progress", default=True, help="Show the progress on a terminal.")
@click.option("--type", "content_type", default="", help="The content type of uploaded files.")
@click.option(
    "--metadata", "pairs", multiple=True, metavar="NAME=VALUE", help="Metadata of uploaded files."
)
@click.option("--no-replace", is_flag=True, help="Refuse if a file is there already.")
@catalog_command
def copy_files(
    context: CommandContext,
    source: Place,
    target: Place,
    recursive: bool,
    parallel: int,
    progress: bool,
    content_type: str,
    pairs: tuple[str, ...],
    no_replace: bool,
) -> None:
    """Copy files between this machine and a repository, or within a repository.

    SOURCE and TARGET are REF:PATH or files of this machine; - is standard input or output. A target
    that ends with a slash, or is a folder, keeps the name of the source.
    """
    copier = Copier(context, UploadOptions(content_type, _pairs(pairs), no_replace))
    total = 0

    def done(transfer: Transfer) -> None:
        nonlocal total
        total += transfer.size
        if context.printer.as_json and str(transfer.target) != "-":
            names = {"source": _shown(transfer.source), "target": _shown(transfer.target)}
            context.printer.line({**names, "size": transfer.size})

    count = run_transfers(
        copier.plan(source, target, recursive=recursive),
        copier.copy,
        done,
        threads=parallel,
        show_progress=progress and not context.printer.as_json,
    )
    if str(target) != "-":
        context.printer.text(f"copied {count:,} files, {total:,} bytes, to {_shown(target)}")


@fs.command("rm")
@click.argument("addresses", type=ADDRESS, nargs=-1, required=True, metavar="REF:PATH...")
@_recursive
@catalog_command
def remove_files(
    context: CommandContext, addresses: tuple[FileAddress, ...], recursive: bool
) -> None:
    """Remove files from a branch; with -r all files whose paths begin with PATH."""
    for address in addresses:
        files = catalog_of(context, address).files
        if recursive:
            removed = 0
            for paths in _batches(files.iterate(address.spec, address.path)):
                files.delete_many(address.spec, paths)
                removed += len(paths)
        else:
            removed = int(files.delete(address.spec, address.path))
        if not removed:
            raise PathNotFound(f"there is no file {text_of(address)}; nothing was removed")
        result = {"address": text_of(address), "removed": removed}
        context.printer.document(result, f"removed {removed:,} files: {text_of(address)}")


def _batches(items: Iterable[FileItem]) -> Iterator[list[str]]:
    """Yields paths in lists that one request may have."""
    paths: list[str] = []
    for item in items:
        paths.append(item.path)
        if len(paths) == FILES_DELETED_MAX:
            yield paths
            paths = []
    if paths:
        yield paths


@fs.command("diff")
@click.argument("left", type=ADDRESS, metavar="REF:PATH")
@click.argument("right", type=ADDRESS, metavar="REF:PATH", required=False)
@click.option("--since-base", is_flag=True, help="Compare with the common ancestor of both.")
@click.option("-d", "--directories", is_flag=True, help="Sum up what is below the next slash.")
@click.option("--exit-code", is_flag=True, help="Exit with code 1 if there are differences.")
@catalog_command
def diff_files(
    context: CommandContext,
    left: FileAddress,
    right: FileAddress | None,
    since_base: bool,
    directories: bool,
    exit_code: bool,
) -> None:
    """Show the files that differ; of one branch alone, what is staged and not committed."""
    delimiter = "/" if directories else ""
    catalog = catalog_of(context, left)
    changes: Iterable[FileDifference]
    if right is None:
        changes = catalog.files.iterate_uncommitted(left.spec, left.path, delimiter=delimiter)
    else:
        if right.repository != left.repository or right.path not in ("", left.path):
            raise Invalid("one diff compares one path in two commits of one repository")
        changes = catalog.files.iterate_diff(
            left.spec, right.spec, left.path, delimiter=delimiter, since_base=since_base
        )
    columns = ("", "path", "size before", "size after")
    count = context.printer.table(changes, columns, _diff_row, change_out, "no differences")
    if exit_code and count:
        raise SystemExit(1)


def _diff_row(change: FileDifference) -> list[Cell]:
    if not isinstance(change, FileChange):
        return [Text("~", "yellow"), change.path, "", ""]
    mark, style = _MARKS[change.kind]
    before, after = change.before, change.after
    return [
        Text(mark, style),
        Text(plain(change.path), style),
        "" if before is None else f"{before.size:,}",
        "" if after is None else f"{after.size:,}",
    ]


@fs.command("du")
@_address
@click.option("-s", "--summarize", is_flag=True, help="Only the total.")
@catalog_command
def sum_up(context: CommandContext, address: FileAddress, summarize: bool) -> None:
    """Sum up the sizes of the files whose paths begin with PATH, up to the next slash."""
    sums: dict[str, tuple[int, int]] = {}
    files = size = 0
    for item in catalog_of(context, address).files.iterate(address.spec, address.path):
        if isinstance(item, FilePrefix):
            continue
        name, slash, _ = item.path[len(address.path) :].partition("/")
        key = address.path + name + slash
        counted, held = sums.get(key, (0, 0))
        sums[key] = (counted + 1, held + item.size)
        files, size = files + 1, size + item.size
    rows = [] if summarize else [(*each, path) for path, each in sums.items()]
    rows.append((files, size, text_of(address)))
    context.printer.table(
        rows,
        ("files", "size", "path"),
        lambda row: (f"{row[0]:,}", f"{row[1]:,}", row[2]),
        lambda row: {"files": row[0], "size": row[1], "path": row[2]},
        "",
    )


@fs.command("import")
@click.argument("source", metavar="URL")
@_address
@click.option("-m", "--message", help="The message of the commit.")
@author_option
@catalog_command
def import_files(
    context: CommandContext,
    source: str,
    address: FileAddress,
    message: str | None,
    author: str | None,
) -> None:
    """Commit the objects below URL as files below PATH, without copying their bytes.

    URL is a prefix that the operator of the server allows, such as s3://bucket/prefix/. What was
    below PATH before and is not below URL is removed.
    """
    text = message or f"Import {source}"
    meta = CommitMeta(message=text, authors=() if author is None else (author,))
    files = catalog_of(context, address).files
    done = files.import_files(address.spec, [(source, address.path)], meta)
    line = f"imported {done.objects:,} files: {done.branch} is now at {short(done.hash)}"
    if done.ignored:
        line += f"; {done.ignored:,} were no objects and were left out"
    context.printer.document(imported_out(done), line)


def _pairs(pairs: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise Invalid(f"--metadata {pair}: write NAME=VALUE")
        found[name] = value
    return tuple(sorted(found.items()))


def _shown(place: Place) -> str:
    return text_of(place) if isinstance(place, FileAddress) else str(place)
