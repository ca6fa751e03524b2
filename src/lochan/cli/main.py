"""The command `lochan`: its subcommands and its version.

A module is imported when its command is used, so that `lochan --version` loads no database.
"""

from __future__ import annotations

import click

from lochan import __version__
from lochan.cli.groups import CommandGroup

_CLI = "lochan.cli"

COMMAND_MODULES = {
    "serve": f"{_CLI}.serve:serve",
    "demo": f"{_CLI}.demo:demo",
    "branch": f"{_CLI}.references:branch",
    "tag": f"{_CLI}.references:tag",
    "log": f"{_CLI}.history:log",
    "diff": f"{_CLI}.history:diff",
    "reflog": f"{_CLI}.history:reflog",
    "events": f"{_CLI}.events:events",
    "content": f"{_CLI}.content:content",
    "fs": f"{_CLI}.files.command:fs",
    "commit": f"{_CLI}.files.staged:commit",
    "reset": f"{_CLI}.files.staged:reset",
    "merge": f"{_CLI}.merge:merge",
    "transplant": f"{_CLI}.merge:transplant",
    "cherry-pick": f"{_CLI}.merge:cherry_pick",
    "revert": f"{_CLI}.merge:revert",
    "rebase": f"{_CLI}.merge:rebase",
    "generate": f"{_CLI}.generate.command:generate",
    "check": f"{_CLI}.repository:check",
    "config": f"{_CLI}.repository:config",
    "login": f"{_CLI}.login:login",
    "logout": f"{_CLI}.login:logout",
    "access": f"{_CLI}.access.command:access",
    "store": f"{_CLI}.store:store",
    "stores": f"{_CLI}.stores:stores",
    "completion": f"{_CLI}.completion:completion",
}


@click.group(
    cls=CommandGroup,
    modules=COMMAND_MODULES,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="lochan", message="%(prog)s %(version)s")
def commands() -> None:
    """Lochan: Git for the lakehouse.

    Commands work on a server (--url, LOCHAN_URL; --profile, LOCHAN_PROFILE) or on a store (--store,
    LOCHAN_STORE). Without any they use the server that runs in this directory, or the store in
    ./.lochan, or the server of the profile default. A branch or commit is written as main, main~2,
    main@HASH or HASH; - is the default branch.
    """


def main() -> None:
    """Runs the command line; never returns."""
    commands(prog_name="lochan")
