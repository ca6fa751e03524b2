"""What installed packages declare by entry points: stores, places for object data, subscribers."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from lochan.base.errors import Invalid


def plugin_names(group: str) -> list[str]:
    """Returns the names that installed packages declare in a group."""
    return sorted({point.name for point in entry_points(group=group)})


def load_plugin(group: str, noun: str, name: str, refused: type[Invalid] = Invalid) -> Any:
    """Loads what the one package that declares a name in a group means by it.

    `noun` is what the group holds, for messages. Raises `refused` if no package declares it,
    several do, or it cannot be imported.
    """
    # A package that is installed twice declares the same entry point twice.
    points = {point.value: point for point in entry_points(group=group, name=name)}
    if not points:
        known = ", ".join(plugin_names(group))
        raise refused(f"no installed package has the {noun} {name!r}; installed are {known}")
    if len(points) > 1:
        rivals = " and ".join(sorted(points))
        raise refused(f"more than one installed package has the {noun} {name!r}: {rivals}")
    (point,) = points.values()
    try:
        return point.load()
    except ImportError as error:
        raise refused(
            f"the {noun} {name!r} needs a package that is not installed: {error}"
        ) from error
