"""What a listener raises to choose what becomes of an event that it did not take.

    DeliveryFailed           is tried again, as after any other exception
        RetryLater           is tried again, but not before `after_ms` have passed
        EventRefused         is never tried again: the receiver will not take this event
            ReceiverRefused  the same, and the receiver will take no other event either

Their texts are shown to operators, in the status and with dead letters, so they never contain a
secret or a content. Of all other exceptions only the name is shown.

With delivery at most once both refusals make a dead letter at once. With delivery at least once
only `EventRefused` does: it is about one event, which must not hold up those behind it.
`ReceiverRefused` is about the receiver or its settings, which an operator can correct, so the event
stays the next one and is tried again after the time of the breaker.
"""

from __future__ import annotations

from lochan.base.limits.events import EVENT_ERROR_CHARACTERS_MAX, EVENT_RETRY_AFTER_MS_MAX


class DeliveryFailed(Exception):
    """The event was not taken; its text may be shown to operators."""


class RetryLater(DeliveryFailed):
    """The receiver asks for a pause before the next attempt."""

    def __init__(self, text: str, after_ms: float) -> None:
        super().__init__(text)
        self.after_ms = min(max(after_ms, 0.0), float(EVENT_RETRY_AFTER_MS_MAX))


class EventRefused(DeliveryFailed):
    """The receiver will never take this event."""


class ReceiverRefused(EventRefused):
    """The receiver takes no event as it is set up at the moment."""


def error_text(error: BaseException) -> str:
    """Returns what an operator may see of an exception."""
    name = type(error).__name__
    if isinstance(error, DeliveryFailed) and str(error):
        return f"{name}: {error}"[:EVENT_ERROR_CHARACTERS_MAX]
    return name


def pause_after(error: BaseException) -> float:
    """Returns for how many milliseconds an exception asks before the next attempt."""
    return error.after_ms if isinstance(error, RetryLater) else 0.0
