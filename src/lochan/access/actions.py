"""Names of actions in policies: our own, those of Nessie and of lakeFS, and groups of actions.

Our names are the values of `Action`. Nessie's are its check types, lakeFS's its action strings, of
which a beginning with `*` stands for all that begin with it. Where another system distinguishes
more than we do, its names mean the same action here, so a policy that allows `fs:CreateTag` allows
creating branches too; where it distinguishes less, its name means several actions.
"""

from __future__ import annotations

from typing import Final

from lochan.access.policy import Action
from lochan.base.errors import Invalid

READING: Final = frozenset(
    (
        Action.VIEW_REFERENCE,
        Action.READ_ENTRIES,
        Action.READ_CONTENT,
        Action.READ_LOG,
        Action.READ_SETTINGS,
        Action.LIST_REPOSITORIES,
    )
)
WRITING: Final = frozenset(
    (
        Action.CREATE_REFERENCE,
        Action.ASSIGN_REFERENCE,
        Action.DELETE_REFERENCE,
        Action.COMMIT,
        Action.MERGE,
        Action.WRITE_CONTENT,
        Action.DELETE_CONTENT,
    )
)
ALL_ACTIONS: Final = frozenset(Action)

GROUPS: Final[dict[str, frozenset[Action]]] = {
    "read": READING,
    "write": WRITING,
    "admin": ALL_ACTIONS,
    "*": ALL_ACTIONS,
}
"""Groups of actions; `write` does not include `read`, so that it can be denied by itself."""

NESSIE: Final[dict[str, frozenset[Action]]] = {
    "VIEW_REFERENCE": frozenset((Action.VIEW_REFERENCE,)),
    "CREATE_REFERENCE": frozenset((Action.CREATE_REFERENCE,)),
    "ASSIGN_REFERENCE_TO_HASH": frozenset((Action.ASSIGN_REFERENCE,)),
    "DELETE_REFERENCE": frozenset((Action.DELETE_REFERENCE,)),
    "READ_ENTRIES": frozenset((Action.READ_ENTRIES,)),
    "READ_CONTENT_KEY": frozenset((Action.READ_ENTRIES,)),
    "LIST_COMMIT_LOG": frozenset((Action.READ_LOG,)),
    "COMMIT_CHANGE_AGAINST_REFERENCE": frozenset((Action.COMMIT, Action.MERGE)),
    "READ_ENTITY_VALUE": frozenset((Action.READ_CONTENT,)),
    "CREATE_ENTITY": frozenset((Action.WRITE_CONTENT,)),
    "UPDATE_ENTITY": frozenset((Action.WRITE_CONTENT,)),
    "DELETE_ENTITY": frozenset((Action.DELETE_CONTENT,)),
    "READ_REPOSITORY_CONFIG": frozenset((Action.READ_SETTINGS,)),
    "UPDATE_REPOSITORY_CONFIG": frozenset((Action.WRITE_SETTINGS,)),
}
"""Nessie's check types."""

_VIEW: Final = frozenset((Action.VIEW_REFERENCE,))
_CREATE: Final = frozenset((Action.CREATE_REFERENCE,))
_DELETE: Final = frozenset((Action.DELETE_REFERENCE,))
_READ_SETTINGS: Final = frozenset((Action.READ_SETTINGS,))
_WRITE_SETTINGS: Final = frozenset((Action.WRITE_SETTINGS,))
_READ_ACCESS: Final = frozenset((Action.READ_ACCESS,))
_MANAGE_ACCESS: Final = frozenset((Action.MANAGE_ACCESS,))
_OWN_TOKENS: Final = frozenset((Action.MANAGE_OWN_TOKENS,))

LAKEFS: Final[dict[str, frozenset[Action]]] = {
    "fs:ReadObject": frozenset((Action.READ_CONTENT,)),
    "fs:WriteObject": frozenset((Action.WRITE_CONTENT,)),
    "fs:DeleteObject": frozenset((Action.DELETE_CONTENT,)),
    "fs:ListObjects": frozenset((Action.READ_ENTRIES,)),
    "fs:ImportFromStorage": frozenset((Action.IMPORT_FILES,)),
    "fs:ImportObject": frozenset((Action.WRITE_CONTENT,)),
    "fs:LinkToStorage": frozenset((Action.WRITE_CONTENT,)),
    "fs:CreateCommit": frozenset((Action.COMMIT, Action.MERGE)),
    "fs:ReadCommit": frozenset((Action.READ_LOG,)),
    "fs:ListCommits": frozenset((Action.READ_LOG,)),
    "fs:CreateBranch": _CREATE,
    "fs:DeleteBranch": _DELETE,
    "fs:ReadBranch": _VIEW,
    "fs:ListBranches": _VIEW,
    # A reset moves the branch, a revert commits on it.
    "fs:RevertBranch": frozenset((Action.ASSIGN_REFERENCE, Action.COMMIT)),
    "fs:CreateTag": _CREATE,
    "fs:DeleteTag": _DELETE,
    "fs:ReadTag": _VIEW,
    "fs:ListTags": _VIEW,
    "fs:ReadRepository": _READ_SETTINGS,
    "fs:ListRepositories": frozenset((Action.LIST_REPOSITORIES,)),
    "fs:CreateRepository": frozenset((Action.CREATE_REPOSITORY,)),
    "fs:DeleteRepository": frozenset((Action.DELETE_REPOSITORY,)),
    "fs:UpdateRepository": _WRITE_SETTINGS,
    "fs:ReadConfig": _READ_SETTINGS,
    "auth:ReadUser": _READ_ACCESS,
    "auth:ListUsers": _READ_ACCESS,
    "auth:CreateUser": _MANAGE_ACCESS,
    "auth:DeleteUser": _MANAGE_ACCESS,
    "auth:ReadGroup": _READ_ACCESS,
    "auth:ListGroups": _READ_ACCESS,
    "auth:CreateGroup": _MANAGE_ACCESS,
    "auth:DeleteGroup": _MANAGE_ACCESS,
    "auth:AddGroupMember": _MANAGE_ACCESS,
    "auth:RemoveGroupMember": _MANAGE_ACCESS,
    "auth:ReadPolicy": _READ_ACCESS,
    "auth:ListPolicies": _READ_ACCESS,
    "auth:CreatePolicy": _MANAGE_ACCESS,
    "auth:UpdatePolicy": _MANAGE_ACCESS,
    "auth:DeletePolicy": _MANAGE_ACCESS,
    "auth:AttachPolicy": _MANAGE_ACCESS,
    "auth:DetachPolicy": _MANAGE_ACCESS,
    # The least that these can mean: credentials of the caller, not of others.
    "auth:ReadCredentials": _OWN_TOKENS,
    "auth:ListCredentials": _OWN_TOKENS,
    "auth:CreateCredentials": _OWN_TOKENS,
    "auth:DeleteCredentials": _OWN_TOKENS,
}
"""lakeFS's actions, as far as there is something like them here."""

_NAMES: Final[dict[str, frozenset[Action]]] = {
    **{action.value: frozenset((action,)) for action in Action},
    **GROUPS,
    **NESSIE,
    **LAKEFS,
}

_OWN_CHECKS: Final[dict[Action, tuple[str, ...]]] = {action: (action.name,) for action in Action}

CHECKS: Final[dict[Action, tuple[str, ...]]] = {
    **_OWN_CHECKS,
    **{
        action: tuple(name for name, means in NESSIE.items() if action in means)
        for action in frozenset().union(*NESSIE.values())
    },
}
"""What `op` is in conditions: Nessie's names of an action, all of which must be allowed."""


def actions_of(name: str) -> frozenset[Action]:
    """Returns the actions that a name in a policy means; Invalid for an unknown one."""
    found = _NAMES.get(name)
    if found is None and name.endswith("*"):
        begin = name[:-1]
        found = frozenset().union(
            *(means for other, means in LAKEFS.items() if ":" in begin and other.startswith(begin))
        )
    if not found:
        ours = ", ".join(action.value for action in Action)
        raise Invalid(
            f"there is no action {name[:80]!r}; known are {ours}, the groups "
            f"{', '.join(GROUPS)}, Nessie's check types and lakeFS's fs:… and auth:… actions"
        )
    return found
