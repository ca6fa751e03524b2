"""What a file may hold that one client alone writes."""

from __future__ import annotations

from threading import Lock

from tests.linearity.chain import Outcome


class FileRecord:
    """The values that one path may have; None stands for no file."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.may_be: set[str | None] = {None}
        self.refused: set[str] = set()
        self.sent: set[str] = set()

    def begin(self, value: str) -> None:
        """Notes a write before it is sent."""
        with self._lock:
            self.sent.add(value)

    def settle(self, value: str, outcome: Outcome) -> None:
        """Notes the outcome of a write: an unknown one may take effect at any time."""
        with self._lock:
            if outcome is Outcome.ACKNOWLEDGED:
                self.may_be = {value}
            elif outcome is Outcome.UNKNOWN:
                self.may_be.add(value)
            else:
                self.refused.add(value)

    def wrong(self, value: str | None) -> str:
        """Returns why a value that was read cannot be, "" if it can."""
        with self._lock:
            if value in self.may_be:
                return ""
            if value in self.refused:
                return f"holds {value!r}, whose write was refused"
            if value is None:
                return f"is gone; it may hold {sorted(map(str, self.may_be))}"
            return f"holds {value!r}; it may hold {sorted(map(str, self.may_be))}"
