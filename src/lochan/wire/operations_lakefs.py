"""The operations of the lakeFS API, below `/api/v1` of the port for files, by lakeFS's own names.

What open-source lakeFS answers with "not implemented" is in `UNSUPPORTED`; so are parts of it that
Lochan does not have.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from lochan.access.policy import Action
from lochan.wire.operations import ApiOperation

LAKEFS_PREFIX: Final = "/api/v1"

_R: Final = "/repositories/{repository}"
_REF: Final = f"{_R}/refs/{{ref}}"
_BRANCH: Final = f"{_R}/branches/{{branch}}"
_PARTS: Final = f"{_BRANCH}/staging/pmpu"
_UPLOAD: Final = f"{_PARTS}/{{upload}}"
_USER: Final = "/auth/users/{user}"


def _operation(
    name: str, method: str, path: str, action: Action | None, **more: Any
) -> ApiOperation:
    return ApiOperation(
        f"lakefs.{name}", method, path, f"lakeFS: {name}", beyond=True, action=action, **more
    )


_open = partial(_operation, action=None, needs="nothing")
_known = partial(_operation, action=None, needs="credentials")
_seen = partial(_operation, action=None, needs="repository")

_SERVER: Final = (
    _open("healthCheck", "GET", "/healthcheck"),
    _open("getSetupState", "GET", "/setup_lakefs"),
    _open("setup", "POST", "/setup_lakefs"),
    _open("login", "POST", "/auth/login"),
    _open("getAuthCapabilities", "GET", "/auth/capabilities"),
    _known("getCurrentUser", "GET", "/user"),
    _known("getConfig", "GET", "/config"),
    _known("getLakeFSVersion", "GET", "/config/version"),
    _known("getStorageConfig", "GET", "/config/storage"),
    _known("getGarbageCollectionConfig", "GET", "/config/garbage-collection"),
    _known("postStatsEvents", "POST", "/statistics"),
)

_ACCESS: Final = (
    _operation("listUsers", "GET", "/auth/users", Action.READ_ACCESS),
    _operation("createUser", "POST", "/auth/users", Action.MANAGE_ACCESS),
    _operation("getUser", "GET", _USER, Action.READ_ACCESS),
    _operation("deleteUser", "DELETE", _USER, Action.MANAGE_ACCESS),
    _operation("listUserCredentials", "GET", f"{_USER}/credentials", Action.READ_ACCESS),
    _operation("createCredentials", "POST", f"{_USER}/credentials", Action.MANAGE_ACCESS),
    _operation("getCredentials", "GET", f"{_USER}/credentials/{{key}}", Action.READ_ACCESS),
    _operation("deleteCredentials", "DELETE", f"{_USER}/credentials/{{key}}", Action.MANAGE_ACCESS),
)

_REPOSITORIES: Final = (
    _operation("listRepositories", "GET", "/repositories", Action.LIST_REPOSITORIES),
    _operation("createRepository", "POST", "/repositories", Action.CREATE_REPOSITORY),
    _seen("getRepository", "GET", _R),
    _operation("deleteRepository", "DELETE", _R, Action.DELETE_REPOSITORY),
    _operation("getRepositoryMetadata", "GET", f"{_R}/metadata", Action.READ_SETTINGS),
    _operation("setRepositoryMetadata", "POST", f"{_R}/metadata", Action.WRITE_SETTINGS),
    _operation("deleteRepositoryMetadata", "DELETE", f"{_R}/metadata", Action.WRITE_SETTINGS),
    _operation("getGCRules", "GET", f"{_R}/settings/gc_rules", Action.READ_SETTINGS),
    _operation("setGCRules", "PUT", f"{_R}/settings/gc_rules", Action.WRITE_SETTINGS),
    _operation("deleteGCRules", "DELETE", f"{_R}/settings/gc_rules", Action.WRITE_SETTINGS),
    _operation(
        "getBranchProtectionRules", "GET", f"{_R}/settings/branch_protection", Action.READ_SETTINGS
    ),
    _operation(
        "setBranchProtectionRules", "PUT", f"{_R}/settings/branch_protection", Action.WRITE_SETTINGS
    ),
)

_REFERENCES: Final = (
    _seen("listBranches", "GET", f"{_R}/branches"),
    _operation("createBranch", "POST", f"{_R}/branches", Action.CREATE_REFERENCE),
    _operation("getBranch", "GET", _BRANCH, Action.VIEW_REFERENCE),
    _operation("deleteBranch", "DELETE", _BRANCH, Action.DELETE_REFERENCE),
    _operation("resetBranch", "PUT", _BRANCH, Action.ASSIGN_REFERENCE),
    _operation("hardResetBranch", "PUT", f"{_BRANCH}/hard_reset", Action.ASSIGN_REFERENCE),
    _seen("listTags", "GET", f"{_R}/tags"),
    _operation("createTag", "POST", f"{_R}/tags", Action.CREATE_REFERENCE),
    _operation("getTag", "GET", f"{_R}/tags/{{tag}}", Action.VIEW_REFERENCE),
    _operation("deleteTag", "DELETE", f"{_R}/tags/{{tag}}", Action.DELETE_REFERENCE),
)

_COMMITS: Final = (
    _operation("logCommits", "GET", f"{_REF}/commits", Action.READ_LOG),
    _operation("getCommit", "GET", f"{_R}/commits/{{commit}}", Action.READ_LOG),
    _operation("commit", "POST", f"{_BRANCH}/commits", Action.COMMIT),
    _operation("revertBranch", "POST", f"{_BRANCH}/revert", Action.COMMIT),
    _operation("cherryPick", "POST", f"{_BRANCH}/cherry-pick", Action.MERGE),
    _operation("mergeIntoBranch", "POST", f"{_REF}/merge/{{branch}}", Action.MERGE),
    _operation("findMergeBase", "GET", f"{_REF}/merge/{{branch}}", Action.READ_LOG),
    _operation("diffBranch", "GET", f"{_BRANCH}/diff", Action.READ_ENTRIES),
    _operation("diffRefs", "GET", f"{_REF}/diff/{{right}}", Action.READ_ENTRIES),
)

_OBJECTS: Final = (
    _operation("getObject", "GET", f"{_REF}/objects", Action.READ_CONTENT, bytes_out=True),
    _operation("uploadObject", "POST", f"{_BRANCH}/objects", Action.WRITE_CONTENT, bytes_in=True),
    _operation("deleteObject", "DELETE", f"{_BRANCH}/objects", Action.DELETE_CONTENT),
    _operation("deleteObjects", "POST", f"{_BRANCH}/objects/delete", Action.DELETE_CONTENT),
    _operation("copyObject", "POST", f"{_BRANCH}/objects/copy", Action.WRITE_CONTENT),
    _operation("statObject", "GET", f"{_REF}/objects/stat", Action.READ_CONTENT),
    _operation("listObjects", "GET", f"{_REF}/objects/ls", Action.READ_ENTRIES),
    _operation(
        "updateObjectUserMetadata",
        "PUT",
        f"{_BRANCH}/objects/stat/user_metadata",
        Action.WRITE_CONTENT,
    ),
    _operation(
        "getUnderlyingProperties",
        "GET",
        f"{_REF}/objects/underlyingProperties",
        Action.READ_CONTENT,
    ),
    _operation(
        "uploadObjectPreflight", "GET", f"{_BRANCH}/objects/stage_allowed", Action.VIEW_REFERENCE
    ),
    _operation("getPhysicalAddress", "GET", f"{_BRANCH}/staging/backing", Action.WRITE_CONTENT),
    _operation("linkPhysicalAddress", "PUT", f"{_BRANCH}/staging/backing", Action.WRITE_CONTENT),
    _operation("stageObject", "PUT", f"{_BRANCH}/objects", Action.WRITE_CONTENT),
    _operation("createPresignMultipartUpload", "POST", _PARTS, Action.WRITE_CONTENT),
    _operation("uploadPart", "PUT", f"{_UPLOAD}/parts/{{part}}", Action.WRITE_CONTENT),
    _operation("completePresignMultipartUpload", "PUT", _UPLOAD, Action.WRITE_CONTENT),
    _operation("abortPresignMultipartUpload", "DELETE", _UPLOAD, Action.WRITE_CONTENT),
    _operation("importStart", "POST", f"{_BRANCH}/import", Action.COMMIT),
    _operation("importStatus", "GET", f"{_BRANCH}/import", Action.READ_LOG),
    _operation("importCancel", "DELETE", f"{_BRANCH}/import", Action.IMPORT_FILES),
)

UNSUPPORTED: Final = (
    ("createGroup", "POST", "/auth/groups"),
    ("listGroups", "GET", "/auth/groups"),
    ("getGroup", "GET", "/auth/groups/{group}"),
    ("deleteGroup", "DELETE", "/auth/groups/{group}"),
    ("listGroupMembers", "GET", "/auth/groups/{group}/members"),
    ("addGroupMembership", "PUT", "/auth/groups/{group}/members/{user}"),
    ("deleteGroupMembership", "DELETE", "/auth/groups/{group}/members/{user}"),
    ("listGroupPolicies", "GET", "/auth/groups/{group}/policies"),
    ("attachPolicyToGroup", "PUT", "/auth/groups/{group}/policies/{policy}"),
    ("detachPolicyFromGroup", "DELETE", "/auth/groups/{group}/policies/{policy}"),
    ("setGroupACL", "POST", "/auth/groups/{group}/acl"),
    ("getGroupACL", "GET", "/auth/groups/{group}/acl"),
    ("listPolicies", "GET", "/auth/policies"),
    ("createPolicy", "POST", "/auth/policies"),
    ("getPolicy", "GET", "/auth/policies/{policy}"),
    ("updatePolicy", "PUT", "/auth/policies/{policy}"),
    ("deletePolicy", "DELETE", "/auth/policies/{policy}"),
    ("listUserGroups", "GET", f"{_USER}/groups"),
    ("listUserPolicies", "GET", f"{_USER}/policies"),
    ("attachPolicyToUser", "PUT", f"{_USER}/policies/{{policy}}"),
    ("detachPolicyFromUser", "DELETE", f"{_USER}/policies/{{policy}}"),
    ("externalPrincipalLogin", "POST", "/auth/external/principal/login"),
    ("stsLogin", "POST", "/sts/login"),
    ("uploadPartCopy", "PUT", f"{_UPLOAD}/parts/{{part}}/copy"),
    ("createSymlinkFile", "POST", f"{_REF}/symlink"),
    ("dumpRefs", "PUT", f"{_R}/refs/dump"),
    ("restoreRefs", "PUT", f"{_R}/refs/restore"),
    ("createCommitRecord", "POST", f"{_R}/commits"),
    ("listRepositoryRuns", "GET", f"{_R}/actions/runs"),
    ("listPullRequests", "GET", f"{_R}/pulls"),
    ("createPullRequest", "POST", f"{_R}/pulls"),
    ("getMetaRange", "GET", f"{_R}/metadata/meta_range/{{range}}"),
    ("getRange", "GET", f"{_R}/metadata/range/{{range}}"),
    ("prepareGarbageCollectionCommits", "POST", f"{_R}/gc/prepare_commits"),
    ("getUsageReportSummary", "GET", "/usage-report/summary"),
)
"""Name, method and path of what is answered with 501."""

OPERATIONS_LAKEFS: Final = (
    *_SERVER,
    *_ACCESS,
    *_REPOSITORIES,
    *_REFERENCES,
    *_COMMITS,
    *_OBJECTS,
)
"""The operations that Lochan has."""
