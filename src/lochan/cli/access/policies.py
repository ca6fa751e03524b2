"""`lochan access policy`, and `protect`: policies, and to whom they apply."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from lochan.base.errors import AlreadyExists, NotFound
from lochan.base.names import known_name
from lochan.cli.access.policy_files import read_policy_file
from lochan.cli.arguments import BRANCH
from lochan.cli.command_context import CommandContext, catalog_command
from lochan.cli.groups import ListsByDefault
from lochan.cli.output import moment, plain
from lochan.model.access import AccessPolicy, Statement
from lochan.wire.access import policy_out

_EVERYONE: Final = "everyone"

# What a protected branch denies to everyone; merges into it stay allowed.
_PROTECTED: Final = ("commit", "assign_reference", "delete_reference")

_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,80}")
_HASHED: Final = re.compile(r".*-[0-9a-f]{16}")
_UNFIT: Final = re.compile(r"[^A-Za-z0-9._-]")


def _subject_options(function: Callable[..., None]) -> Callable[..., None]:
    """Adds the options that name a user or a group."""
    by_user = click.option("--user", metavar="USER", help="The user that it is attached to.")
    by_group = click.option(
        "--group", metavar="GROUP", help="The group that it is attached to; `everyone` is all."
    )
    return by_user(by_group(function))


@click.group(cls=ListsByDefault)
def policy() -> None:
    """List, show, set and delete policies, and attach them to users and groups."""


@policy.command("list")
@_subject_options
@catalog_command
def list_policies(context: CommandContext, user: str | None, group: str | None) -> None:
    """List all policies, or those that are attached to a user or a group."""
    access = context.catalog.access
    found = (
        access.iterate_policies()
        if user is None and group is None
        else access.attached(user=user, group=group)
    )
    context.printer.table(
        found,
        ("policy", "statements", "created", "description"),
        lambda each: (each.id, len(each.statements), moment(each.created_us), each.description),
        policy_out,
        "no policies",
    )


@policy.command("show")
@click.argument("name")
@catalog_command
def show_policy(context: CommandContext, name: str) -> None:
    """Show a policy as JSON, in the form that `set` reads."""
    raw = msgspec.json.encode(policy_out(context.catalog.access.get_policy(name)))
    click.echo(
        raw if context.printer.as_json else plain(msgspec.json.format(raw, indent=2).decode())
    )


@policy.command("set")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@catalog_command
def set_policy(context: CommandContext, file: Path) -> None:
    """Create the policy in FILE, or replace the one of its id; - is standard input.

    FILE is JSON or TOML with `id`, `description` and `statements`. A statement has an `effect`
    (allow or deny), `actions`, and patterns: `repositories`, `references`, `keys`, `paths`.
    """
    read = read_policy_file(file)
    made = context.catalog.access.put_policy(read.id, read.statements, read.description)
    count = len(made.statements)
    text = f"set the policy {made.id}: {count} statement{'' if count == 1 else 's'}"
    context.printer.document(policy_out(made), text)


@policy.command("delete")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@catalog_command
def delete_policies(context: CommandContext, names: tuple[str, ...]) -> None:
    """Delete policies; what they allowed or denied no longer counts."""
    for name in names:
        context.catalog.access.delete_policy(name)
        context.printer.document({"deleted": name}, f"deleted the policy {name}")


@policy.command("attach")
@click.argument("name")
@_subject_options
@catalog_command
def attach_policy(context: CommandContext, name: str, user: str | None, group: str | None) -> None:
    """Make a policy apply to a user or to the members of a group."""
    context.catalog.access.attach(name, user=user, group=group)
    text = f"the policy {name} now applies to {_subject_text(user, group)}"
    context.printer.document(_subject_document("attached", name, user, group), text)


@policy.command("detach")
@click.argument("name")
@_subject_options
@catalog_command
def detach_policy(context: CommandContext, name: str, user: str | None, group: str | None) -> None:
    """Make a policy no longer apply to a user or to the members of a group."""
    context.catalog.access.detach(name, user=user, group=group)
    text = f"the policy {name} no longer applies to {_subject_text(user, group)}"
    context.printer.document(_subject_document("detached", name, user, group), text)


def _subject_text(user: str | None, group: str | None) -> str:
    return f"the user {user}" if group is None else f"the group {group}"


def _subject_document(
    word: str, policy_name: str, user: str | None, group: str | None
) -> dict[str, Any]:
    subject = {"user": user} if group is None else {"group": group}
    return {word: policy_name, **subject}


@click.command()
@click.argument("branch", type=BRANCH)
@catalog_command
def protect(context: CommandContext, branch: str) -> None:
    """Deny commits to BRANCH, moving it and deleting it, to everyone; merges stay allowed."""
    wanted = protection(context.target.repository, branch)
    access = context.catalog.access
    try:
        present = access.get_policy(wanted.id)
    except NotFound:
        present = access.put_policy(wanted.id, wanted.statements, wanted.description, expected=0)
    if present.statements != wanted.statements:
        raise AlreadyExists(f"there is a policy {wanted.id} with other statements")
    access.attach(wanted.id, group=_EVERYONE)
    text = f"{branch} is protected by the policy {wanted.id}: only merges change it"
    context.printer.document({"protected": branch, "policy": wanted.id}, text)


@click.command()
@click.argument("branch", type=BRANCH)
@catalog_command
def unprotect(context: CommandContext, branch: str) -> None:
    """Remove what `protect` has made for BRANCH."""
    made = protection(context.target.repository, branch)
    context.catalog.access.delete_policy(made.id)
    text = f"{branch} is no longer protected: the policy {made.id} is deleted"
    context.printer.document({"unprotected": branch, "policy": made.id}, text)


def protection(repository: str, branch: str) -> AccessPolicy:
    """Returns the policy that protects a branch; different branches have different ids."""
    known_name(branch)
    name = f"protect-{branch}"
    if repository != "default" or not _PLAIN_NAME.fullmatch(branch) or _HASHED.fullmatch(branch):
        whole = f"{repository}//{branch}"
        digits = hashlib.sha256(whole.encode()).hexdigest()[:16]
        name = f"protect-{_UNFIT.sub('-', whole)[:80]}-{digits}"
    statement = Statement(
        effect="deny", actions=_PROTECTED, repositories=(repository,), references=(branch,)
    )
    return AccessPolicy(name, (statement,), f"{branch} of {repository} is changed by merges only")
