"""The broker's log: a sink of its events, one line a fact."""

from __future__ import annotations

import structlog

from nicrails_broker.events import (
    Annotated,
    CommandHung,
    CommandWarned,
    Done,
    Event,
    Failed,
    Publication,
    Published,
    SourceLooked,
    WithoutNeighbor,
)

_QUIET = (Publication.UNCHANGED, Publication.FAILED)
"""Nothing happened, or the step's failure is told by an event of its own."""


def log(event: Event) -> None:
    """Write what an operator wants to read; repetitions are held back by the log's own filter."""
    logger = structlog.get_logger()
    match event:
        case Failed(duty=duty, step=step, reason=reason, pause=pause):
            logger.warning("step-failed", duty=duty, step=step.value, reason=reason, retry_seconds=round(pause, 1))
        case Done(duty=duty, recovered=True):
            logger.info("duty-done", duty=duty)
        case Published(result=result, size=size, rails=rails, nics=nics, gpus=gpus) if result not in _QUIET:
            logger.info("record-published", result=result.value, size_bytes=size, rails=rails, nics=nics, gpus=gpus)
        case WithoutNeighbor(interfaces=interfaces) if interfaces:
            logger.warning(
                "interfaces-without-neighbor",
                reason=f"{', '.join(interfaces[:16])}: no LLDP neighbour; check the cable, the switch port and lldpd",
                count=len(interfaces),
            )
        case CommandWarned(command=command, said=said):
            logger.warning("command-warned", command=command, reason=said)
        case CommandHung(command=command):
            logger.error("command-hung", command=command, reason="no end in time; it may still run in its container")
        case Annotated(value=value, changed=True):
            logger.info("node-annotated", value=value)
        case SourceLooked(kind=kind, source=source, found=found, seconds=seconds):
            logger.debug("source-looked", kind=kind, source=source, found=found.value, seconds=round(seconds, 3))
        case _:
            pass
