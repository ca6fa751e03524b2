"""Names of branches, tags and commits as arguments: completed by the shell where that is easy."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import click
from click.shell_completion import CompletionItem

from lochan.base.errors import LochanError
from lochan.cli.target import find_server

_SUGGESTED_MAX: Final = 100
_COMPLETION_TIMEOUT_S: Final = 1.0


class SpecType(click.ParamType[str, object]):
    """A branch, tag or commit; anything is passed on, whoever reads it says what is wrong."""

    def __init__(self, name: str) -> None:
        self.name = name

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002 - click's own
        incomplete: str,
    ) -> list[CompletionItem]:
        """Suggests names of the server that is meant; without one, nothing."""
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
                return [CompletionItem(one.name) for one in page.items if one.name]
        return []


SPEC: Final = SpecType("spec")
BRANCH: Final = SpecType("branch")
REFERENCE: Final = SpecType("name")
