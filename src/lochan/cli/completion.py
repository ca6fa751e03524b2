"""`lochan completion`: the script by which a shell completes commands, options and names."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import get_completion_class

_SHELLS: Final = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash:  eval "$(lochan completion bash)"  in ~/.bashrc
    zsh:   eval "$(lochan completion zsh)"   in ~/.zshrc
    fish:  lochan completion fish > ~/.config/fish/completions/lochan.fish
    """
    completion_class = get_completion_class(shell)
    if completion_class is None:
        raise click.UsageError(f"click has no completion for {shell}")
    root = ctx.find_root().command
    click.echo(completion_class(root, {}, "lochan", "_LOCHAN_COMPLETE").source())
