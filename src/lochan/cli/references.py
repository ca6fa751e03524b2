"""`lochan branch` and `lochan tag`."""

from __future__ import annotations

import re
import time
from typing import Any, Final

import click

from lochan.base.errors import Invalid, ReferenceNotFound
from lochan.cli.command_context import CommandContext, errand
from lochan.cli.groups import ListsByDefault
from lochan.cli.printing import Cell, first_line, moment, short
from lochan.cli.specs import BRANCH, REFERENCE, SPEC
from lochan.model.references import Annotation, Reference

_UNITS_S: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}

_filter = click.option("--filter", "wanted", default="", metavar="CEL", help="Only those it keeps.")
_prefix = click.option("--prefix", default="", help="Only names that start like this.")
_long = click.option("-l", "--long", is_flag=True, help="Also their last commits and distances.")
_expected = click.option("--expected", metavar="HASH", help="Refuse unless it points there.")


@click.group(cls=ListsByDefault)
def branch() -> None:
    """List, create, move and delete branches."""


@click.group(cls=ListsByDefault)
def tag() -> None:
    """List, create, move and delete tags."""


@branch.command("list")
@_filter
@_prefix
@_long
@errand
def list_branches(job: CommandContext, **given: Any) -> None:
    """List the branches."""
    _list(job, "BRANCH", **given)


@tag.command("list")
@_filter
@_prefix
@_long
@errand
def list_tags(job: CommandContext, **given: Any) -> None:
    """List the tags."""
    _list(job, "TAG", **given)


@branch.command("show")
@click.argument("name", type=BRANCH, default="-")
@errand
def show_branch(job: CommandContext, name: str) -> None:
    """Show one branch."""
    _show(job, "BRANCH", name)


@tag.command("show")
@click.argument("name", type=REFERENCE)
@errand
def show_tag(job: CommandContext, name: str) -> None:
    """Show one tag."""
    _show(job, "TAG", name)


@branch.command("create")
@click.argument("name")
@click.argument("source", type=SPEC, default="-")
@click.option("--bare", is_flag=True, help="Start without any commit.")
@click.option("--expires-in", metavar="SPAN", help="Delete it after e.g. 90m, 12h, 7d, 2w.")
@errand
def create_branch(
    job: CommandContext, name: str, source: str, bare: bool, expires_in: str | None
) -> None:
    """Create a branch where SOURCE is (the default branch, if it is not given)."""
    expires_us = None if expires_in is None else time.time_ns() // 1_000 + _span_us(expires_in)
    made = job.catalog.references.create(name, None if bare else source, expires_us=expires_us)
    job.printer.document(_document(made), f"created branch {made.name} at {short(made.hash)}")


@tag.command("create")
@click.argument("name")
@click.argument("source", type=SPEC, default="-")
@click.option("-m", "--message", help="Write an annotation on it.")
@errand
def create_tag(job: CommandContext, name: str, source: str, message: str | None) -> None:
    """Create a tag where SOURCE is (the default branch, if it is not given)."""
    annotation = None if message is None else Annotation(message=message)
    made = job.catalog.references.create(name, source, kind="TAG", annotation=annotation)
    job.printer.document(_document(made), f"created tag {made.name} at {short(made.hash)}")


@branch.command("assign")
@click.argument("name", type=BRANCH)
@click.argument("target", type=SPEC)
@_expected
@errand
def assign_branch(job: CommandContext, name: str, target: str, expected: str | None) -> None:
    """Make a branch point to TARGET; its ref-log keeps where it was."""
    _assign(job, "BRANCH", name, target, expected)


@tag.command("assign")
@click.argument("name", type=REFERENCE)
@click.argument("target", type=SPEC)
@_expected
@errand
def assign_tag(job: CommandContext, name: str, target: str, expected: str | None) -> None:
    """Make a tag point to TARGET."""
    _assign(job, "TAG", name, target, expected)


@branch.command("delete")
@click.argument("names", type=BRANCH, nargs=-1, required=True)
@_expected
@errand
def delete_branch(job: CommandContext, names: tuple[str, ...], expected: str | None) -> None:
    """Delete branches, merged or not."""
    _delete(job, "BRANCH", names, expected)


@tag.command("delete")
@click.argument("names", type=REFERENCE, nargs=-1, required=True)
@_expected
@errand
def delete_tag(job: CommandContext, names: tuple[str, ...], expected: str | None) -> None:
    """Delete tags."""
    _delete(job, "TAG", names, expected)


def _list(job: CommandContext, kind: str, wanted: str, prefix: str, long: bool) -> None:
    found = (
        one
        for one in job.catalog.references.iterate(filter=wanted, prefix=prefix, fetch_all=long)
        if one.kind == kind
    )
    columns = ["name", "hash", *(["expires"] if kind == "BRANCH" else ["annotation"])]
    if long:
        columns += ["commits", "ahead", "behind", "last commit"]
    job.printer.table(
        found, columns, lambda one: _row(one, long=long), _document, f"no {kind.lower()} yet"
    )


def _row(one: Reference, *, long: bool) -> list[Cell]:
    note = moment(one.expires_us)
    if one.annotation is not None:
        note = first_line(one.annotation.message)
    cells: list[Cell] = [one.name, short(one.hash) or "newer format: upgrade Lochan", note]
    if long and one.metadata is not None:
        known = one.metadata
        said = "" if known.head is None else first_line(known.head.message)
        cells += [known.total, known.ahead, known.behind, said]
    return cells


def _show(job: CommandContext, kind: str, name: str) -> None:
    one = job.catalog.references.get(name, fetch_all=True)
    if one.kind != kind:
        raise ReferenceNotFound(f"{one.name!r} is a {one.kind.lower()}, not a {kind.lower()}")
    if job.printer.as_json:
        job.printer.line(_document(one))
        return
    known = one.metadata
    facts: list[tuple[str, Cell]] = [(kind.lower(), one.name), ("hash", one.hash)]
    if known is not None:
        facts += [("commits", known.total), ("ahead", known.ahead), ("behind", known.behind)]
        if known.head is not None:
            facts += [
                ("last commit", first_line(known.head.message)),
                ("committed", moment(known.head.commit_time_us)),
                ("authors", ", ".join(known.head.authors)),
            ]
    facts.append(("expires", moment(one.expires_us)))
    facts.append(("annotation", None if one.annotation is None else one.annotation.message))
    shown = [fact for fact in facts if fact[1] not in (None, "")]
    job.printer.table(shown, ("", ""), lambda fact: fact, lambda fact: fact, "")


def _assign(job: CommandContext, kind: str, name: str, target: str, expected: str | None) -> None:
    moved = job.catalog.references.assign(name, target, expected=expected, kind=kind)
    job.printer.document(_document(moved), f"{moved.name} is at {short(moved.hash)} now")


def _delete(job: CommandContext, kind: str, names: tuple[str, ...], expected: str | None) -> None:
    if expected is not None and len(names) > 1:
        raise click.UsageError("--expected is for one name at a time")
    for name in names:
        gone = job.catalog.references.delete(name, expected=expected, kind=kind)
        job.printer.document(
            _document(gone), f"deleted {kind.lower()} {gone.name}, which was at {gone.hash}"
        )


def _document(one: Reference) -> Any:
    from lochan.wire.references import reference_v2

    return reference_v2(one)


def _span_us(text: str) -> int:
    match = re.fullmatch(r"([0-9]{1,9})([smhdw])", text)
    if match is None or int(match[1]) == 0:
        raise Invalid(f"not a span of time: {text!r}; write for example 90m, 12h, 7d or 2w")
    return int(match[1]) * _UNITS_S[match[2]] * 1_000_000
