"""Groups of commands: modules are imported on use, and a LochanError becomes a message."""

from __future__ import annotations

from importlib import import_module
from typing import IO, Any

import click

from lochan.base.errors import KeysConflict, LochanError
from lochan.cli import exit_codes


class CommandFailure(click.ClickException):
    """A LochanError that ends the command: its message, a hint on what to do, an exit code."""

    def __init__(self, error: LochanError, as_json: bool) -> None:
        super().__init__(error.message)
        self._error = error
        self._as_json = as_json

    @property
    def exit_code(self) -> int:  # type: ignore[override]
        """The exit code of the command."""
        return exit_codes.exit_code(self._error)

    def show(self, file: IO[Any] | None = None) -> None:
        """Prints the error to standard error, as text or as one line of JSON."""
        from lochan.cli.output import plain

        lines = [f"error: {plain(self.message)}"]
        hint = exit_codes.hint(self._error)
        if self._as_json:
            lines = [self._document(hint)]
        elif hint:
            lines.append(f"hint: {hint}")
        for line in lines:
            click.echo(line, file=file, err=file is None)

    def _document(self, hint: str) -> str:
        import msgspec

        document: dict[str, Any] = {
            "error": self._error.kind,
            "message": self.message,
            "hint": hint,
            "exitCode": self.exit_code,
        }
        if isinstance(self._error, KeysConflict):
            from lochan.model.results import ContentConflict
            from lochan.wire.problems import conflict_out

            document["conflicts"] = [
                conflict_out(conflict)
                for conflict in self._error.details
                if isinstance(conflict, ContentConflict)
            ]
        return msgspec.json.encode(document).decode()


class CommandGroup(click.Group):
    """The group of all commands; each command may raise any LochanError."""

    def __init__(self, *args: Any, modules: dict[str, str] | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self._modules = modules or {}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's own
        """Returns the names of the commands in the order in which help lists them."""
        return list(self._modules)

    def get_command(
        self,
        ctx: click.Context,
        cmd_name: str,
    ) -> click.Command | None:
        """Returns a command; imports its module."""
        place = self._modules.get(cmd_name)
        if place is None:
            return super().get_command(ctx, cmd_name)
        module, _, name = place.partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command; a LochanError becomes a CommandFailure."""
        try:
            return super().invoke(ctx)
        except LochanError as error:
            raise CommandFailure(error, bool(ctx.meta.get("lochan.json"))) from error


class ListsByDefault(click.Group):
    """A group that runs its command `list` if none is named: `lochan branch --json`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Inserts `list` unless a command or help is named."""
        first = args[0] if args else ""
        if first not in self.commands and first not in ctx.help_option_names:
            if not first or first.startswith("-"):
                args = ["list", *args]
        return super().parse_args(ctx, args)
