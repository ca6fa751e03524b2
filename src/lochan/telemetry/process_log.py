"""The log of a server process: warnings and errors on standard error, without secrets."""

from __future__ import annotations

import logging
from typing import Final

from lochan.base.masks import mask_text

_FORM: Final = "%(levelname)s %(name)s: %(message)s"


class MaskingFormatter(logging.Formatter):
    """Writes a record, its traceback included, and hides what has the form of a secret."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the text of a record."""
        return mask_text(super().format(record))


def start_log() -> logging.Handler | None:
    """Lets the loggers of this package write; None if the process has set them up itself."""
    logger = logging.getLogger("lochan")
    if logger.handlers:
        return None
    handler = logging.StreamHandler()
    handler.setLevel(logging.WARNING)
    handler.setFormatter(MaskingFormatter(_FORM))
    logger.addHandler(handler)
    return handler


def stop_log(handler: logging.Handler | None) -> None:
    """Ends what `start_log` has started."""
    if handler is not None:
        logging.getLogger("lochan").removeHandler(handler)
