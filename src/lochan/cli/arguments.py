"""Arguments and options that several commands have.

The shell completes names of branches and tags if a server runs.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import click
from click.shell_completion import CompletionItem

from lochan.base.errors import LochanError
from lochan.cli.command_context import find_server
from lochan.cli.keys import KEY

_SUGGESTED_MAX: Final = 100
_COMPLETION_TIMEOUT_S: Final = 1.0


class ReferenceArgument(click.ParamType[str, object]):
    """A branch, tag or commit; the text is passed on unchanged, the catalog checks it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002 - click's own
        incomplete: str,
    ) -> list[CompletionItem]:
        """Suggests names of branches and tags on the server; without a server, nothing."""
        url = ctx.params.get("url")
        if url is None:
            running = find_server()
            url = None if running is None else running.url
        if not isinstance(url, str):
            return []
        from lochan.client import Client

        with suppress(LochanError):
            repository = str(ctx.params.get("repository") or "default")
            with Client(url, repository, timeout_s=_COMPLETION_TIMEOUT_S, attempts_max=1) as client:
                page = client.references.list(_SUGGESTED_MAX, prefix=incomplete)
                return [CompletionItem(each.name) for each in page.items if each.name]
        return []


SPEC: Final = ReferenceArgument("spec")
BRANCH: Final = ReferenceArgument("branch")
REFERENCE: Final = ReferenceArgument("name")

filter_option = click.option(
    "--filter", "cel", default="", metavar="CEL", help="Only those that match."
)
key_prefix_option = click.option("--prefix", type=KEY, help="Only this key and the keys below it.")
message_option = click.option("-m", "--message", help="The message of the new commit.")
author_option = click.option("--author", help="The author of the new commit.")
