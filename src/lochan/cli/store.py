"""`lochan store`: what a store contains, a copy of it, the erasure of a repository.

On a RocksDB store that a server has open the commands send requests to that server.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

import click
import msgspec

from lochan.assembly.server_file import find_server_of
from lochan.cli.command_context import CommandContext, Target, store_command
from lochan.cli.output import make_console
from lochan.kv.url import parse_store_url
from lochan.model.stores import CountPage, EraseStep, KindCount
from lochan.transfer.counts import add_counts
from lochan.transfer.store_copy import CopyProgress

if TYPE_CHECKING:
    from lochan.client import Client

_UNITS: Final = ("B", "KB", "MB", "GB", "TB")


@click.group()
def store() -> None:
    """Count what a store contains, copy it, erase a repository."""


@store.command()
@click.option("--exact", is_flag=True, help="Read everything, instead of a sample of the objects.")
@store_command
def stats(context: CommandContext, exact: bool) -> None:
    """Show rows and bytes by repository and kind.

    Bytes are those of values, without keys and what the database adds. Without --exact the number
    of objects is an estimate if there are many.
    """
    counts: list[KindCount] = []
    with make_console(errors=True).status("counting") as status:
        for page in _count(context.target, exact=exact):
            counts += page.counts
            status.update(f"counting: {sum(one.rows for one in counts):,} rows")
    totals = add_counts(counts)
    context.printer.table(
        totals,
        ("repository", "kind", "rows", "bytes"),
        lambda one: (_place(one), one.kind, _rows(one), _size(one.bytes)),
        lambda one: one,
        "the store is empty",
    )
    context.printer.text(
        f"{sum(one.rows for one in totals):,} rows, {_size(sum(one.bytes for one in totals))}"
    )


@store.command()
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON document.")
@click.pass_context
def copy(ctx: click.Context, source: str, target: str, as_json: bool) -> None:
    """Copy a store to an empty one, both named by their addresses, whatever their databases are.

    FROM may be the URL of a server, too. Run the same command again to continue a copy that was
    stopped. Every object is checked against its id, and read again from the target. The target can
    be opened when the copy is whole, which it is only if nothing was written to the source since
    its last pass: stop its servers for that. Bytes of files outside of the store are not copied,
    nor are the secret keys of the servers.
    """
    from lochan.cli.output import Printer
    from lochan.embedded.stores import ServerSource, copy_store

    ctx.meta["lochan.json"] = as_json
    with make_console(errors=True).status("copying") as status:

        def show(progress: CopyProgress) -> None:
            status.update(f"copying: {_progress(progress)}")

        url = _url_of(source)
        if url is None:
            report = copy_store(source, target, show)
        else:
            with _client(url, Target()) as client:
                report = copy_store(source, target, show, ServerSource(client))
    printer = Printer(as_json)
    printer.document(
        {"target": str(parse_store_url(target)), **msgspec.to_builtins(report)},
        f"copied {_progress(report)} to {parse_store_url(target)}",
    )
    if report.has_users:
        printer.text(
            "users and credentials were copied: the servers of the copy need the same secret keys "
            "(the setting secret_key_file)",
            "dim",
        )


@store.command()
@click.argument("name", metavar="REPOSITORY")
@click.option("--token", metavar="TOKEN", help="The token that the command shows without it.")
@store_command
def erase(context: CommandContext, name: str, token: str | None) -> None:
    """Delete a repository and every row that it has in the store. There is no way back.

    Without --token nothing is erased: the command shows what would be, and the token that confirms
    it. A repository that was deleted before is erased in the same way. The bytes of files outside
    of the store stay where they are.
    """
    if token is None:
        plan = _plan(context.target, name)
        context.printer.document(
            plan,
            f"nothing was erased; to erase {name} and its history for good: lochan store "
            f"erase {name} --token {plan.token}",
        )
        return
    dropped = 0
    with make_console(errors=True).status("erasing") as status:
        for step in _erase(context.target, name, token):
            dropped += step.partitions
            waits = f", waiting {step.wait_ms // 1_000} s for servers" if step.wait_ms else ""
            status.update(f"erasing: {dropped:,} partitions{waits}")
    context.printer.document(
        EraseStep(name, token, dropped, done=True),
        f"erased {name}: {dropped:,} partitions",
    )


def _plan(target: Target, repository: str) -> EraseStep:
    from lochan.embedded.stores import plan_erasure_of

    url = _server(target)
    if url is None:
        return plan_erasure_of(_address(target), repository)
    with _client(url, target) as client:
        return client.store.erase(repository)


def _erase(target: Target, repository: str, token: str) -> Iterator[EraseStep]:
    from lochan.embedded.stores import erase_repository, erase_step_by_step

    url = _server(target)
    if url is None:
        yield from erase_repository(_address(target), repository, token)
        return
    with _client(url, target) as client:
        yield from erase_step_by_step(partial(client.store.erase, repository, token))


def _count(target: Target, *, exact: bool) -> Iterator[CountPage]:
    from lochan.embedded.stores import count_store

    url = _server(target)
    if url is None:
        yield from count_store(_address(target), exact=exact)
        return
    with _client(url, target) as client:
        page = client.store.count(exact=exact)
        yield page
        while page.token is not None:
            page = client.store.count(exact=exact, token=page.token)
            yield page


def _url_of(source: str) -> str | None:
    """Returns the server through which a store is read, if it is one or belongs to one."""
    return source if source.startswith(("http://", "https://")) else _server(Target(store=source))


def _server(target: Target) -> str | None:
    """Returns the server to send requests to; None if this process can open the store."""
    if target.url is not None:
        return target.url
    found = find_server_of(target.store or "")
    return None if found is None else found.url


def _address(target: Target) -> str:
    return target.store or ""


def _client(url: str, target: Target) -> Client:
    from lochan.client import Client

    return Client(url, target.repository, profile=target.profile)


def _place(count: KindCount) -> str:
    if not count.repository:
        return "(no repository)"
    return f"{count.repository} ({count.state})" if count.state else count.repository


def _rows(count: KindCount) -> str:
    words = "" if count.accuracy == "exact" else f"{count.accuracy} "
    return f"{words}{count.rows:,}"


def _size(count: int) -> str:
    size, unit = float(count), _UNITS[0]
    for unit in _UNITS:
        if size < 1_000 or unit == _UNITS[-1]:
            break
        size /= 1_000
    return f"{size:,.0f} {unit}" if unit == _UNITS[0] else f"{size:,.1f} {unit}"


def _progress(progress: CopyProgress) -> str:
    again = f", read {progress.rounds} times" if progress.rounds > 1 else ""
    return (
        f"{progress.repositories:,} repositories, {progress.rows:,} rows, "
        f"{progress.objects:,} objects, {_size(progress.bytes)}{again}"
    )
