"""Every command explains itself, speaks JSON, and is in the docs; the docs name nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from lochan.cli.generate import patterns
from lochan.cli.main import COMMAND_MODULES, commands
from lochan.settings import SECRET_SETTINGS, SETTING_NAMES
from tests.architecture.tree import ROOT

PAGE = (ROOT / "docs/cli.md").read_text("utf-8")


def all_commands() -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, by the words that lead to it."""
    ctx = click.Context(commands)
    waiting = [(name, commands.get_command(ctx, name)) for name in COMMAND_MODULES]
    while waiting:
        name, command = waiting.pop(0)
        assert command is not None
        if isinstance(command, click.Group):
            waiting += [(f"{name} {each}", one) for each, one in command.commands.items()]
        else:
            yield name, command


ALL = dict(all_commands())


@pytest.mark.parametrize("name", ALL)
def test_every_command_and_option_says_what_it_does(name):
    command = ALL[name]
    assert command.help
    # The names of these options of the generator are enough.
    bare = {"num_commits", "num_branches", "num_tables", "puts_per_commit", "kind", "author"}
    bare |= {"tag_probability", "message"}
    for param in command.params:
        if isinstance(param, click.Option) and param.name not in bare:
            assert param.help, param.name


@pytest.mark.parametrize("name", [name for name in ALL if name not in ("completion", "demo")])
def test_every_command_speaks_json(name):
    options = {word for param in ALL[name].params for word in param.opts}
    assert "--json" in options


def test_every_setting_is_an_option_of_serve_unless_it_is_a_secret():
    options = {word for param in ALL["serve"].params for word in param.opts}
    flags = {name: "--" + name.replace("_", "-") for name in SETTING_NAMES}
    assert {name for name, flag in flags.items() if flag not in options} == set(SECRET_SETTINGS)


def test_the_docs_name_every_command_and_no_other():
    rows = re.findall(r"^\| `lochan ([\w-]+)` \|", PAGE, re.MULTILINE)
    assert rows == list(COMMAND_MODULES)
    for name in ALL:
        group, _, last = name.rpartition(" ")
        if group and group != "tag":
            # Groups in a group have a table of their own.
            row = next(
                line for line in PAGE.splitlines() if re.match(rf"\| `(lochan )?{group}`", line)
            )
            assert re.search(rf"`{last}\b", row), name


def test_every_option_in_the_docs_exists():
    options = {word for one in ALL.values() for param in one.params for word in param.opts}
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE))
    assert named - options == {"--help"}


def test_the_docs_and_the_code_tell_the_same_functions():
    documented = re.findall(r"^\| `\$\{(\w+)[^`]*\}` \| (.+) \|$", PAGE, re.MULTILINE)
    known = re.findall(r"^    (\w+)(?:,\S+)? {2,}(.+)$", patterns.__doc__ or "", re.MULTILINE)
    assert documented == known
    assert len(documented) == 6


def test_the_readmes_commands_work_as_they_stand(shell):
    text = (ROOT / "README.md").read_text("utf-8")
    words = [line.split("#")[0].split() for line in text.splitlines() if line.startswith("lochan ")]
    assert [line[1] for line in words] == [
        "serve",
        "content",
        "branch",
        "content",
        "diff",
        "merge",
        "log",
        "fs",
        "commit",
        "fs",
    ]
    Path("data").mkdir()
    Path("data/one").write_bytes(b"1")
    for line in words[1:]:
        shell.run(*(word.strip('"') for word in line[1:]))
    assert shell.out("fs", "cat", "main:data/one") == "1"
    assert shell.location("sales.orders") == "s3://lake/orders-2"
