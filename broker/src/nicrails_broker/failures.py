"""How a step of the broker fails, and how soon trying again makes sense."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from nicrails.kube.errors import ApiError, ForbiddenError


class Retry(enum.Enum):
    """When a failed step is worth another try."""

    SOON = "soon"
    """With exponential back-off: the cause may pass by itself at any moment."""
    SLOWLY = "slowly"
    """Somebody has to grant a permission or change an object; asking often helps nobody."""
    AFTER_HANG = "after-hang"
    """A command was given up that may still run in its container; several at once would make it worse."""
    RARELY = "rarely"
    """The server has refused the content for good, and will do so until somebody changes something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The lengths of all waits that are no settings, in seconds.

    Attributes:
        initial: The first upper bound of the exponential back-off.
        cap: Its greatest upper bound.
        slowly: The least wait of :attr:`Retry.SLOWLY`.
        after_hang: The least wait of :attr:`Retry.AFTER_HANG`.
        rarely: The least wait of :attr:`Retry.RARELY`.
        settle: The wait for another discovery after one that lost a NIC; lldpd announces itself every 30 s by default.
    """

    initial: float = 0.8
    cap: float = 30.0
    slowly: float = 20.0
    after_hang: float = 120.0
    rarely: float = 300.0
    settle: float = 45.0

    def at_least(self, failure: BrokerError) -> float | None:
        """The least wait after a failure, or None where the back-off alone decides."""
        floor = {Retry.SLOWLY: self.slowly, Retry.AFTER_HANG: self.after_hang, Retry.RARELY: self.rarely}.get(
            failure.retry
        )
        if floor is None or failure.retry_after is None:
            return failure.retry_after if floor is None else floor
        return max(floor, failure.retry_after)


class BrokerError(Exception):
    """Something was not done; the message is one sentence for an operator.

    Attributes:
        retry: When to try again.
        retry_after: Seconds that a server asked to wait at least.
    """

    def __init__(self, reason: str, *, retry: Retry = Retry.SOON, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.retry = retry
        self.retry_after = retry_after


class SourceError(BrokerError):
    """A source of rails or GPUs could not look, or refuses what it saw."""


class NodeError(BrokerError):
    """The broker's own Node could not be read or written."""


class PublishError(BrokerError):
    """The record could not be brought to its place; what stood there still stands."""


class Step(enum.StrEnum):
    """The steps that ``/healthz`` names."""

    DISCOVER_RAILS = "discover-rails"
    DISCOVER_GPUS = "discover-gpus"
    READ_NODE = "read-node"
    JOIN = "join"
    PUBLISH = "publish"
    READ_NEIGHBORS = "read-neighbors"
    CHOOSE_CHASSIS = "choose-chassis"
    ANNOTATE_NODE = "annotate-node"
    UNEXPECTED = "unexpected"


class StepError(BrokerError):
    """A step failed.

    Attributes:
        step: Which one.
    """

    def __init__(self, step: Step, cause: BrokerError) -> None:
        super().__init__(str(cause), retry=cause.retry, retry_after=cause.retry_after)
        self.step = step


def api_failure(error: ApiError, doing: str, *, grant: str) -> tuple[str, Retry, float | None]:
    """The sentence and the pace of a failed request.

    Args:
        error: What the client raised.
        doing: What was tried, such as "can not read Node gpu-1".
        grant: The permission that it needs, told when it is missing.
    """
    if isinstance(error, ForbiddenError):
        return f"{doing}: {error}; the broker's ServiceAccount needs {grant}", Retry.SLOWLY, error.retry_after
    return f"{doing}: {error}", Retry.SOON, error.retry_after
