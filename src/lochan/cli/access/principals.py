"""`lochan access user` and `lochan access group`."""

from __future__ import annotations

import click

from lochan.cli.access.options import description_option
from lochan.cli.command_context import CommandContext, catalog_command
from lochan.cli.groups import ListsByDefault
from lochan.cli.output import moment
from lochan.wire.access import group_out, policy_out, user_out


@click.group(cls=ListsByDefault)
def user() -> None:
    """List, show, create and delete users."""


@user.command("list")
@catalog_command
def list_users(context: CommandContext) -> None:
    """List the users."""
    context.printer.table(
        context.catalog.access.iterate_users(),
        ("user", "created", "description"),
        lambda each: (each.id, moment(each.created_us), each.description),
        user_out,
        "no users",
    )


@user.command("create")
@click.argument("name")
@description_option
@catalog_command
def create_user(context: CommandContext, name: str, description: str) -> None:
    """Create a user, who may do nothing yet.

    `lochan access policy attach` and `lochan access group add` give rights, `lochan access token
    create` gives a token.
    """
    made = context.catalog.access.create_user(name, description)
    context.printer.document(user_out(made), f"created the user {made.id}")


@user.command("show")
@click.argument("name")
@catalog_command
def show_user(context: CommandContext, name: str) -> None:
    """Show a user with its groups and policies."""
    access = context.catalog.access
    found = access.get_user(name)
    groups, policies = access.groups_of(name), access.attached(user=name)
    if context.printer.as_json:
        context.printer.line(
            {
                "user": user_out(found),
                "groups": groups,
                "policies": [policy_out(each) for each in policies],
            }
        )
        return
    context.printer.facts(
        {
            "user": found.id,
            "description": found.description,
            "created": moment(found.created_us),
            "groups": ", ".join(groups),
            "policies": ", ".join(each.id for each in policies),
        }
    )


@user.command("delete")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@catalog_command
def delete_users(context: CommandContext, names: tuple[str, ...]) -> None:
    """Delete users with their tokens and access keys."""
    for name in names:
        context.catalog.access.delete_user(name)
        context.printer.document({"deleted": name}, f"deleted the user {name}")


@click.group(cls=ListsByDefault)
def group() -> None:
    """List, create and delete groups, and change their members."""


@group.command("list")
@catalog_command
def list_groups(context: CommandContext) -> None:
    """List the groups."""
    context.printer.table(
        context.catalog.access.iterate_groups(),
        ("group", "created", "description"),
        lambda each: (each.id, moment(each.created_us), each.description),
        group_out,
        "no groups",
    )


@group.command("create")
@click.argument("name")
@description_option
@catalog_command
def create_group(context: CommandContext, name: str, description: str) -> None:
    """Create a group without members."""
    made = context.catalog.access.create_group(name, description)
    context.printer.document(group_out(made), f"created the group {made.id}")


@group.command("delete")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@catalog_command
def delete_groups(context: CommandContext, names: tuple[str, ...]) -> None:
    """Delete groups; their users stay."""
    for name in names:
        context.catalog.access.delete_group(name)
        context.printer.document({"deleted": name}, f"deleted the group {name}")


@group.command("members")
@click.argument("name")
@catalog_command
def list_members(context: CommandContext, name: str) -> None:
    """List the users of a group."""
    context.printer.table(
        context.catalog.access.iterate_members(name),
        ("user", "description"),
        lambda each: (each.id, each.description),
        user_out,
        "no members",
    )


@group.command("add")
@click.argument("name")
@click.argument("users", nargs=-1, required=True, metavar="USER...")
@catalog_command
def add_members(context: CommandContext, name: str, users: tuple[str, ...]) -> None:
    """Make users members of a group."""
    for each in users:
        context.catalog.access.add_member(each, name)
        context.printer.document(
            {"group": name, "added": each}, f"{each} is now a member of {name}"
        )


@group.command("remove")
@click.argument("name")
@click.argument("users", nargs=-1, required=True, metavar="USER...")
@catalog_command
def remove_members(context: CommandContext, name: str, users: tuple[str, ...]) -> None:
    """Remove users from a group."""
    for each in users:
        context.catalog.access.remove_member(each, name)
        text = f"{each} is no longer a member of {name}"
        context.printer.document({"group": name, "removed": each}, text)
