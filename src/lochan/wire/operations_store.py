"""The operations on a whole store, below `/store/v1`; they are for its operators.

Who reads rows reads everything: all repositories, and credentials as they are stored.
"""

from __future__ import annotations

from typing import Final

from lochan.access.policy import Action
from lochan.wire.operations import ApiOperation
from lochan.wire.stores import CountsJson, ErasedJson, EraseIn, StoredRowsJson

STORE_PREFIX: Final = "/store/v1"

OPERATIONS_STORE: Final = (
    ApiOperation(
        "countStore",
        "GET",
        "/counts",
        "Rows and bytes by repository and kind, a part of the store at a time.",
        response=CountsJson,
        parameters=("exact", "page-token"),
        beyond=True,
        action=Action.READ_ACCESS,
    ),
    ApiOperation(
        "scanStore",
        "GET",
        "/scan",
        "Rows of one partition as they are stored, for a copy of the store.",
        response=StoredRowsJson,
        parameters=("partition", "start", "end", "max-records"),
        beyond=True,
        action=Action.MANAGE_ACCESS,
    ),
    ApiOperation(
        "walkStore",
        "GET",
        "/walk",
        "Rows of the partitions whose names begin so, in the order of the store.",
        response=StoredRowsJson,
        parameters=("partition", "cursor", "max-records"),
        beyond=True,
        action=Action.MANAGE_ACCESS,
    ),
    ApiOperation(
        "eraseRepository",
        "POST",
        "/erase",
        "Deletes a repository and erases its rows, a part at a time; without a token it returns "
        "the token and erases nothing.",
        response=ErasedJson,
        request=EraseIn,
        beyond=True,
        action=Action.DELETE_REPOSITORY,
    ),
)
