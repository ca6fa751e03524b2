"""The front door `lochan`: its commands and its version.

Rooms are imported when their commands are used, so that `lochan --version` loads no database.
"""

from __future__ import annotations

import click

from lochan import __version__
from lochan.cli.groups import Doors

_HERE = "lochan.cli"

ROOMS = {
    "serve": f"{_HERE}.serving:serve",
    "demo": f"{_HERE}.demo:demo",
    "branch": f"{_HERE}.references:branch",
    "tag": f"{_HERE}.references:tag",
    "log": f"{_HERE}.history:log",
    "diff": f"{_HERE}.history:diff",
    "reflog": f"{_HERE}.history:reflog",
    "content": f"{_HERE}.content:content",
    "merge": f"{_HERE}.merging:merge",
    "transplant": f"{_HERE}.merging:transplant",
    "cherry-pick": f"{_HERE}.merging:cherry_pick",
    "revert": f"{_HERE}.merging:revert",
    "rebase": f"{_HERE}.merging:rebase",
    "generate": f"{_HERE}.generate.command:generate",
    "check": f"{_HERE}.upkeep:check",
    "config": f"{_HERE}.upkeep:config",
    "stores": f"{_HERE}.installed:stores",
    "completion": f"{_HERE}.completion:completion",
}


@click.group(cls=Doors, rooms=ROOMS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="lochan", message="%(prog)s %(version)s")
def commands() -> None:
    """Lochan: Git for the lakehouse.

    Commands talk to a server (--url, LOCHAN_URL), to a store (--store, LOCHAN_STORE), or to
    whatever runs or lies in ./.lochan. A branch or commit is written as main, main~2, main@HASH or
    HASH; - is the default branch.
    """


def main() -> None:
    """Runs the command line; never returns."""
    commands(prog_name="lochan")
