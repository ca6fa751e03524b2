"""`lochan serve`: every setting is an option."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from lochan.settings import SETTING_NAMES, SETTINGS_FILE, Settings, describe, read_settings


def _settings(function: Callable[..., None]) -> Callable[..., None]:
    """Adds one option for each setting; what is not given is left to environment, file, default."""
    default = Settings()
    for name in reversed(SETTING_NAMES):
        value = getattr(default, name)
        flag = "--" + name.replace("_", "-")
        shown = f"{describe(name)}  [default: {_shown(value)}]"
        if isinstance(value, bool):
            option = click.option(f"{flag}/--no-{flag[2:]}", name, default=None, help=shown)
        else:
            option = click.option(flag, name, default=None, metavar="VALUE", help=shown)
        function = option(function)
    return function


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return text or "none"


@click.command()
@_settings
@click.option(
    "--config",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help=f"A file with settings.  [default: {SETTINGS_FILE}, if it is there]",
)
@click.option("--json", "as_json", is_flag=True, help="Say that it is ready as one line of JSON.")
def serve(config: Path | None, as_json: bool, **flags: Any) -> None:
    """Serve a catalog until Ctrl-C.

    An option wins over LOCHAN_<NAME> in the environment, that over the file, that over the default.
    """
    settings = read_settings(flags, os.environ, config or SETTINGS_FILE)
    from lochan.assembly.serve import ServerReady
    from lochan.assembly.serve import serve as serve_until_stopped

    def ready(serving: ServerReady) -> None:
        if as_json:
            import msgspec

            line = msgspec.json.encode(serving).decode()
        else:
            line = f"serving {serving.url} from {serving.store}; Ctrl-C stops it"
        click.echo(line)

    serve_until_stopped(settings, ready)
