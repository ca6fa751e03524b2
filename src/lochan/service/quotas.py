"""Limits of one repository that an operator sets."""

from __future__ import annotations

from typing import Final

import msgspec

from lochan.base.errors import Invalid

_SECOND_US: Final = 1_000_000


class ReferenceQuota(msgspec.Struct, frozen=True):
    """How many branches a repository may have, and how long a new branch may live; None: no limit.

    With a longest life, a branch must be created with an expiry. That holds for every caller, and
    for no branch that exists already, so never for the default branch.
    """

    branches_max: int | None = None
    ttl_us_max: int | None = None

    def check_expiry(self, expires_us: int | None, now_us: int) -> None:
        """Raises Invalid if a new branch would live too long."""
        if self.ttl_us_max is None:
            return
        if expires_us is None or expires_us - now_us > self.ttl_us_max:
            raise Invalid(
                f"a branch of this repository lives at most {self.ttl_us_max // _SECOND_US} "
                "seconds; name an earlier time at which it expires"
            )


NO_QUOTA: Final = ReferenceQuota()
