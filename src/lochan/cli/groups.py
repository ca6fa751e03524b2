"""Groups of commands: loaded when they are used, with errors of our tree turned into sentences."""

from __future__ import annotations

from importlib import import_module
from typing import IO, Any

import click

from lochan.base.errors import KeysConflict, LochanError
from lochan.cli import exits


class Failed(click.ClickException):
    """An error of our tree on its way to the terminal: what happened, and what to do."""

    def __init__(self, error: LochanError, as_json: bool) -> None:
        super().__init__(error.message)
        self._error = error
        self._as_json = as_json

    @property
    def exit_code(self) -> int:  # type: ignore[override]
        """The code with which the command leaves."""
        return exits.exit_code(self._error)

    def show(self, file: IO[Any] | None = None) -> None:
        """Prints it to standard error, for people or as one line of JSON."""
        from lochan.cli.printing import plain

        lines = [f"error: {plain(self.message)}"]
        advice = exits.hint(self._error)
        if self._as_json:
            lines = [self._document(advice)]
        elif advice:
            lines.append(f"hint: {advice}")
        for line in lines:
            click.echo(line, file=file, err=file is None)

    def _document(self, advice: str) -> str:
        import msgspec

        told: dict[str, Any] = {
            "error": self._error.kind,
            "message": self.message,
            "hint": advice,
            "exitCode": self.exit_code,
        }
        if isinstance(self._error, KeysConflict):
            from lochan.model.results import ContentConflict
            from lochan.wire.conflicts import conflict_out

            told["conflicts"] = [
                conflict_out(one) for one in self._error.details if isinstance(one, ContentConflict)
            ]
        return msgspec.json.encode(told).decode()


class Doors(click.Group):
    """The group of all commands; each may raise any LochanError."""

    def __init__(self, *given: Any, rooms: dict[str, str] | None = None, **more: Any) -> None:
        super().__init__(*given, **more)
        self._rooms = rooms or {}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's own
        """Returns the names of the commands, in the order in which they are worth knowing."""
        return list(self._rooms)

    def get_command(
        self,
        ctx: click.Context,
        cmd_name: str,
    ) -> click.Command | None:
        """Returns a command; only now is its room imported."""
        place = self._rooms.get(cmd_name)
        if place is None:
            return super().get_command(ctx, cmd_name)
        module, _, name = place.partition(":")
        found: click.Command = getattr(import_module(module), name)
        return found

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command and turns our errors into sentences."""
        try:
            return super().invoke(ctx)
        except LochanError as error:
            raise Failed(error, bool(ctx.meta.get("lochan.json"))) from error


class ListsByDefault(click.Group):
    """A group that lists when no command of it is named: `lochan branch --json`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Puts `list` in front unless a command or help is named."""
        first = args[0] if args else ""
        if first not in self.commands and first not in ctx.help_option_names:
            if not first or first.startswith("-"):
                args = ["list", *args]
        return super().parse_args(ctx, args)
