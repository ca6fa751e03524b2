"""Arguments and options that several commands have.

The shell completes names of branches and tags if a server runs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from lochan.base.errors import Invalid, LochanError
from lochan.cli.command_context import Target, find_server, find_target
from lochan.cli.keys import KEY

_SUGGESTED_MAX: Final = 100
_COMPLETION_TIMEOUT_S: Final = 1.0
_UNITS_S: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


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
        target = _running_target(ctx.params)
        if target is None:
            return []
        from lochan.client import Client

        with (
            suppress(LochanError),
            Client(
                target.url or "",
                target.repository,
                profile=target.profile,
                timeout_s=_COMPLETION_TIMEOUT_S,
                attempts_max=1,
            ) as client,
        ):
            page = client.references.list(_SUGGESTED_MAX, prefix=incomplete)
            return [CompletionItem(each.name) for each in page.items if each.name]
        return []


def _running_target(params: Mapping[str, Any]) -> Target | None:
    """Returns the server that a command will use, None if it uses none; creates nothing."""
    url, profile, repository = (params.get(name) for name in ("url", "profile", "repository"))
    if url is None and profile is None:
        running = find_server()
        url = None if running is None else running.url
    if url is None and profile is None:
        return None
    with suppress(LochanError):
        return find_target(url, None, repository, profile)
    return None


SPEC: Final = ReferenceArgument("spec")
BRANCH: Final = ReferenceArgument("branch")
REFERENCE: Final = ReferenceArgument("name")

filter_option = click.option(
    "--filter", "cel", default="", metavar="CEL", help="Only those that match."
)
key_prefix_option = click.option("--prefix", type=KEY, help="Only this key and the keys below it.")
message_option = click.option("-m", "--message", help="The message of the new commit.")
author_option = click.option("--author", help="The author of the new commit.")


def span_us(text: str) -> int:
    """Returns a span of time in microseconds; Invalid if the text is none."""
    match = re.fullmatch(r"([0-9]{1,9})([smhdw])", text)
    if match is None or int(match[1]) == 0:
        raise Invalid(f"not a span of time: {text!r}; write for example 90m, 12h, 7d or 2w")
    return int(match[1]) * _UNITS_S[match[2]] * 1_000_000
