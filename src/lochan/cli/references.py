"""`lochan branch` and `lochan tag`: the commands that both have, and how each is created."""

from __future__ import annotations

import time
from typing import Any

import click

from lochan.base.errors import ReferenceNotFound
from lochan.cli.arguments import BRANCH, REFERENCE, SPEC, ReferenceArgument, filter_option, span_us
from lochan.cli.command_context import CommandContext, catalog_command
from lochan.cli.groups import ListsByDefault
from lochan.cli.output import Cell, first_line, moment, short
from lochan.model.references import Annotation, Reference

_expected = click.option("--expected", metavar="HASH", help="Refuse if the head is another commit.")


@click.group(cls=ListsByDefault)
def branch() -> None:
    """List, create, move and delete branches."""


@click.group(cls=ListsByDefault)
def tag() -> None:
    """List, create, move and delete tags."""


def _add_reads(group: click.Group, kind: str, plural: str, argument: ReferenceArgument) -> None:
    """Adds the commands that list and show branches or tags."""
    word = kind.lower()

    @group.command("list", help=f"List the {plural}.")
    @filter_option
    @click.option("--prefix", default="", help="Only names that begin with this text.")
    @click.option("-l", "--long", is_flag=True, help="Also their last commits and distances.")
    @catalog_command
    def list_references(context: CommandContext, cel: str, prefix: str, long: bool) -> None:
        listing = context.catalog.references.iterate(filter=cel, prefix=prefix, fetch_all=long)
        columns = ["name", "hash", "expires" if kind == "BRANCH" else "annotation"]
        if long:
            columns += ["commits", "ahead", "behind", "last commit"]
        context.printer.table(
            (each for each in listing if each.kind == kind),
            columns,
            lambda each: _row(each, long=long),
            _document,
            f"no {plural}",
        )

    # The default branch is shown if no name is given; there is no default tag.
    default: dict[str, Any] = {"default": "-"} if kind == "BRANCH" else {}

    @group.command("show", help=f"Show one {word}.")
    @click.argument("name", type=argument, **default)
    @catalog_command
    def show_reference(context: CommandContext, name: str) -> None:
        reference = context.catalog.references.get(name, fetch_all=True)
        if reference.kind != kind:
            raise ReferenceNotFound(
                f"{reference.name!r} is a {reference.kind.lower()}, not a {word}"
            )
        if context.printer.as_json:
            context.printer.line(_document(reference))
        else:
            context.printer.facts(_facts(reference))


def _add_writes(group: click.Group, kind: str, plural: str, argument: ReferenceArgument) -> None:
    """Adds the commands that move and delete branches or tags."""
    word = kind.lower()

    @group.command("assign", help=f"Make a {word} point to TARGET; the ref-log keeps the old one.")
    @click.argument("name", type=argument)
    @click.argument("target", type=SPEC)
    @_expected
    @catalog_command
    def assign_reference(
        context: CommandContext, name: str, target: str, expected: str | None
    ) -> None:
        moved = context.catalog.references.assign(name, target, expected=expected, kind=kind)
        text = f"{word} {moved.name} is now at {short(moved.hash)}"
        context.printer.document(_document(moved), text)

    @group.command("delete", help=f"Delete {plural}, whether they are merged or not.")
    @click.argument("names", type=argument, nargs=-1, required=True)
    @_expected
    @catalog_command
    def delete_references(
        context: CommandContext, names: tuple[str, ...], expected: str | None
    ) -> None:
        if expected is not None and len(names) > 1:
            raise click.UsageError("--expected works for one name; delete the others separately")
        for name in names:
            deleted = context.catalog.references.delete(name, expected=expected, kind=kind)
            text = f"deleted {word} {deleted.name}, which was at {deleted.hash}"
            context.printer.document(_document(deleted), text)


for _add in (_add_reads, _add_writes):
    _add(branch, "BRANCH", "branches", BRANCH)
    _add(tag, "TAG", "tags", REFERENCE)


@branch.command("create")
@click.argument("name")
@click.argument("source", type=SPEC, default="-")
@click.option("--bare", is_flag=True, help="Start without any commit.")
@click.option("--expires-in", metavar="SPAN", help="Delete it after e.g. 90m, 12h, 7d, 2w.")
@catalog_command
def create_branch(
    context: CommandContext, name: str, source: str, bare: bool, expires_in: str | None
) -> None:
    """Create a branch at SOURCE (the default branch, if it is not given)."""
    expires_us = None if expires_in is None else time.time_ns() // 1_000 + span_us(expires_in)
    created = context.catalog.references.create(
        name, None if bare else source, expires_us=expires_us
    )
    text = f"created branch {created.name} at {short(created.hash)}"
    context.printer.document(_document(created), text)


@tag.command("create")
@click.argument("name")
@click.argument("source", type=SPEC, default="-")
@click.option("-m", "--message", help="The message of its annotation.")
@catalog_command
def create_tag(context: CommandContext, name: str, source: str, message: str | None) -> None:
    """Create a tag at SOURCE (the default branch, if it is not given)."""
    annotation = None if message is None else Annotation(message=message)
    created = context.catalog.references.create(name, source, kind="TAG", annotation=annotation)
    text = f"created tag {created.name} at {short(created.hash)}"
    context.printer.document(_document(created), text)


def _row(reference: Reference, *, long: bool) -> list[Cell]:
    note = moment(reference.expires_us)
    if reference.annotation is not None:
        note = first_line(reference.annotation.message)
    head = short(reference.hash) or "newer format: upgrade Lochan"
    cells: list[Cell] = [reference.name, head, note]
    if long and reference.metadata is not None:
        metadata = reference.metadata
        message = "" if metadata.head is None else first_line(metadata.head.message)
        cells += [metadata.total, metadata.ahead, metadata.behind, message]
    return cells


def _facts(reference: Reference) -> dict[str, Cell]:
    facts: dict[str, Cell] = {reference.kind.lower(): reference.name, "hash": reference.hash}
    metadata = reference.metadata
    if metadata is not None:
        facts |= {"commits": metadata.total, "ahead": metadata.ahead, "behind": metadata.behind}
        if metadata.head is not None:
            facts |= {
                "last commit": first_line(metadata.head.message),
                "committed": moment(metadata.head.commit_time_us),
                "authors": ", ".join(metadata.head.authors),
            }
    annotation = reference.annotation
    facts["expires"] = moment(reference.expires_us)
    facts["annotation"] = None if annotation is None else annotation.message
    return {name: value for name, value in facts.items() if value not in (None, "")}


def _document(reference: Reference) -> Any:
    from lochan.wire.references import reference_v2

    return reference_v2(reference)
