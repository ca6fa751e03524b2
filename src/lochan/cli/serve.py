"""`lochan serve`: every setting is an option, unless it is a secret."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from lochan.settings import (
    SECRET_SETTINGS,
    SETTING_NAMES,
    SETTINGS_FILE,
    Settings,
    describe,
    read_settings,
)


def _setting_options(function: Callable[..., None]) -> Callable[..., None]:
    """Adds one option for each setting; None leaves it to environment, file or default."""
    default = Settings()
    for name in reversed([each for each in SETTING_NAMES if each not in SECRET_SETTINGS]):
        value = getattr(default, name)
        flag = "--" + name.replace("_", "-")
        text = f"{describe(name)}  [default: {_default_text(value)}]"
        if isinstance(value, bool):
            option = click.option(f"{flag}/--no-{flag[2:]}", name, default=None, help=text)
        else:
            option = click.option(flag, name, default=None, metavar="VALUE", help=text)
        function = option(function)
    return function


def _default_text(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    text = ",".join(map(str, value)) if isinstance(value, tuple | dict) else str(value)
    return text or "none"


@click.command()
@_setting_options
@click.option(
    "--config",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help=f"A file with settings.  [default: {SETTINGS_FILE}, if it exists]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the addresses as one line of JSON.")
def serve(config: Path | None, as_json: bool, **flags: Any) -> None:
    """Serve a catalog until Ctrl-C.

    An option wins over LOCHAN_<NAME> in the environment, the environment over the file, the file
    over the default.
    """
    settings = read_settings(flags, os.environ, config or SETTINGS_FILE)
    from lochan.assembly.serve import ServerReady
    from lochan.assembly.serve import serve as serve_until_stopped

    def ready(serving: ServerReady) -> None:
        if as_json:
            import msgspec

            line = msgspec.json.encode(serving).decode()
        else:
            files = f" (lakeFS and S3: {serving.files_url})" if serving.files_url else ""
            line = f"serving {serving.url}{files} from {serving.store}; Ctrl-C stops it"
            if serving.insecure:
                line += f"\nINSECURE: {serving.insecure}"
        click.echo(line)

    serve_until_stopped(settings, ready)
