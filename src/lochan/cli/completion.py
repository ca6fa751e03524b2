"""`lochan completion`: what a shell needs to complete commands, options and branch names."""

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
    made = get_completion_class(shell)
    if made is None:
        raise click.UsageError(f"no completion for {shell}")
    root = ctx.find_root().command
    click.echo(made(root, {}, "lochan", "_LOCHAN_COMPLETE").source())
