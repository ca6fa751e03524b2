"""`lochan events`: what happens to references, as it happens."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from lochan.base.errors import Invalid
from lochan.cli.arguments import REFERENCE
from lochan.cli.command_context import CommandContext, catalog_command
from lochan.cli.keys import key_text
from lochan.cli.output import first_line, moment, short

if TYPE_CHECKING:
    from lochan.client.event_streams import EventStream
    from lochan.model.events import Event


@click.command()
@click.argument("reference", type=REFERENCE, default="-")
@click.option("-f", "--follow", is_flag=True, help="Go on with what happens from now on.")
@click.option("--from", "token", metavar="TOKEN", default="", help="Begin behind a token.")
@click.option("--since", metavar="TIME", help="Begin behind a time, such as 2026-01-31T00:00:00Z.")
@click.option("--type", "types", metavar="TYPE", multiple=True, help="Only this type; repeatable.")
@click.option("--key", "keys", metavar="PATTERN", multiple=True, help="Only keys like sales.*.")
@click.option("--prefix", "prefixes", multiple=True, help="Only files below a prefix.")
@click.option("-n", "--limit", type=click.IntRange(min=1), help="Stop after so many events.")
@catalog_command
def events(
    context: CommandContext,
    reference: str,
    follow: bool,
    token: str,
    since: str | None,
    types: tuple[str, ...],
    keys: tuple[str, ...],
    prefixes: tuple[str, ...],
    limit: int | None,
) -> None:
    """Show the events of REFERENCE, a branch, a tag, or a pattern such as dev/*.

    With --json each line has an event and the token behind it; a later run goes on there with
    --from.
    """
    from lochan.client import Client

    if not follow and not token and since is None:
        raise Invalid("name where events begin, with --since or --from; or --follow them from now")
    if not isinstance(context.catalog, Client):
        raise Invalid("a server sends events; this is a store: start a server, or use --url")
    stream = context.catalog.events(
        reference,
        types=types,
        keys=keys,
        file_prefixes=prefixes,
        token=token,
        since=None if since is None else _time(since),
        follow=follow,
    )
    with stream:
        try:
            _print(context, stream, limit)
        except KeyboardInterrupt:
            # The usual end of a command that follows.
            click.echo(err=True)
        if not context.printer.as_json and stream.token:
            click.echo(f"go on with: --from {stream.token}", err=True)


def _time(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise Invalid(f"not a time with a zone: {text[:40]!r}; write 2026-01-31T00:00:00Z")
    return moment


def _print(context: CommandContext, stream: EventStream, limit: int | None) -> None:
    from lochan.wire.events import event_out

    printer = context.printer
    for count, event in enumerate(stream, 1):
        if printer.as_json:
            printer.line({"token": stream.token, "event": event_out(event)})
        else:
            printer.text(_line(event))
        if count == limit:
            return


def _line(event: Event) -> str:
    """Returns an event in one line: when, what, where, and what it is about."""
    from lochan.model import events as model

    about = ""
    if isinstance(event, model.CommitMade):
        about = f"{short(event.hash_after)} {first_line(event.meta.message)}"
    elif isinstance(event, model.MergeMade | model.TransplantMade):
        about = f"{short(event.hash_after)} from {event.source}"
    elif isinstance(event, model.ContentStored | model.ContentRemoved):
        about = f"{key_text(event.key)} ({event.content_type})"
    elif isinstance(event, model.FileStored | model.FileRemoved):
        about = event.path
    elif isinstance(event, model.ReferenceCreated | model.ReferenceUpdated):
        about = short(event.hash_after)
    elif isinstance(event, model.ReferenceDeleted):
        about = short(event.hash_before)
    parts = (moment(event.time_us), event.type, event.reference.name, about, event.initiator)
    return "  ".join([part for part in parts if part])
