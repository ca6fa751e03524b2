"""Arguments that name files: of a repository, or of this machine.

A file of a repository is written `main:data/a.csv`: a branch, tag or commit, a colon, the path;
without anything before the colon it is on the default branch. The form
`lochan://repository@main/data/a.csv` names the repository too. Everything else is a file of this
machine; one whose name has a colon is written with `./` before it. `-` is standard input or output.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from lochan.base.errors import Invalid
from lochan.client.file_addresses import SCHEME, FileAddress, parse_address
from lochan.model.requests import DEFAULT_BRANCH
from lochan.model.specs import parse_spec

if TYPE_CHECKING:
    from lochan.cli.command_context import Catalog, CommandContext

STANDARD: Final = Path("-")
"""Standard input or output."""

Place = FileAddress | Path
"""A file of a repository, or of this machine."""


def parse_place(text: str) -> Place:
    """Returns the place that an argument names; Invalid if it is malformed."""
    if text.startswith(SCHEME):
        return parse_address(text)
    if text.startswith(":"):
        return FileAddress("", DEFAULT_BRANCH, text[1:])
    at = text.find(":")
    # The time of a commit, as in main*2026-01-31T00:00:00Z, has colons too.
    while at > 0:
        try:
            parse_spec(text[:at])
        except Invalid:
            at = text.find(":", at + 1)
        else:
            return FileAddress("", text[:at], text[at + 1 :])
    return Path(text)


class AddressArgument(click.ParamType[FileAddress, object]):
    """A file, or a prefix of files, of a repository."""

    name = "address"

    def convert(
        self,
        value: object,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> FileAddress:
        """Returns the address; fails if the argument names a file of this machine."""
        if isinstance(value, FileAddress):
            return value
        try:
            place = parse_place(str(value))
        except Invalid as error:
            self.fail(error.message, param, ctx)
        if isinstance(place, Path):
            self.fail(
                f"{value!r} is no file of a repository; write main:path for one on the branch main",
                param,
                ctx,
            )
        return place


class PlaceArgument(click.ParamType[Place, object]):
    """A file of a repository or of this machine."""

    name = "place"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Place:
        """Returns the place."""
        if isinstance(value, FileAddress | Path):
            return value
        try:
            return parse_place(str(value))
        except Invalid as error:
            self.fail(error.message, param, ctx)


ADDRESS: Final = AddressArgument()
PLACE: Final = PlaceArgument()


def catalog_of(context: CommandContext, address: FileAddress) -> Catalog:
    """Returns the catalog of the repository that an address names."""
    return context.catalog_of(address.repository)


def text_of(address: FileAddress) -> str:
    """Returns an address as a user may write it."""
    return address.text() if address.repository else f"{address.spec}:{address.path}"


def child(address: FileAddress, path: str) -> FileAddress:
    """Returns the address of another path."""
    return FileAddress(address.repository, address.spec, path)
