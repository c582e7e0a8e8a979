"""The provider annotation: which switch a Node hangs on, told on the Node itself.

It is independent of rails: another regular expression, another duty, another failure. A Node whose interfaces lead to
several chassis gets none, for any choice would be a guess.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterable
from typing import Protocol

from nicrails.text import excerpt
from nicrails_broker.events import Annotated, Emit, Found, SourceLooked
from nicrails_broker.failures import BrokerError, NodeError, SourceError, Step, StepError
from nicrails_broker.loop import FOREVER, jittered
from nicrails_broker.parsers.lldp import Neighbor
from nicrails_broker.sources.host_lldp import Ask, read_neighbors

CHASSIS_ID = "topograph.run/lldp-chassis-id"
_SUBTYPE = re.compile(r"[a-z][a-z0-9-]{0,31}", re.ASCII)
MAX_CHASSIS_ID = 255
"""Characters; an LLDP chassis ID has at most 255 octets (IEEE 802.1AB, 8.5.2)."""
MAX_SHOWN = 4


class AnnotatedNode(Protocol):
    """The Node that gets the annotation."""

    async def annotation(self, key: str) -> str | None:
        """Its value, or None.

        Raises:
            NodeError: It could not be read.
        """

    async def annotate(self, key: str, value: str) -> None:
        """Set it.

        Raises:
            NodeError: It is not known to be set.
        """


class ChassisAnnotation:
    """The provider ``lldp``: keeps ``topograph.run/lldp-chassis-id`` on the Node.

    Args:
        ask: Where lldpd's answer comes from.
        selects: Whether an interface counts.
        node: The Node.
        refresh: Seconds between two looks; 0 for one at the start only.
        emit: Is told how it went.
        rng: For jitter.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        *,
        ask: Ask,
        selects: Callable[[str], bool],
        node: AnnotatedNode,
        refresh: float,
        emit: Emit,
        rng: random.Random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask = ask
        self._selects = selects
        self._node = node
        self._refresh = refresh
        self._emit = emit
        self._rng = rng
        self._clock = clock

    async def once(self) -> float:
        """Look once and set the annotation where it differs; returns the seconds until the next look.

        Raises:
            StepError: A step failed; the annotation is as it was.
        """
        value = await self._look()
        if value is not None:
            try:
                changed = await self._node.annotation(CHASSIS_ID) != value
                if changed:
                    await self._node.annotate(CHASSIS_ID, value)
            except NodeError as error:
                raise StepError(Step.ANNOTATE_NODE, error) from error
            self._emit(Annotated(value=value, changed=changed))
        return jittered(self._refresh, self._rng) if self._refresh else FOREVER

    async def _look(self) -> str | None:
        started = self._clock()
        found = Found.FAILED
        try:
            neighbors = await read_neighbors(self._ask, self._emit)
            value = chassis(n for n in neighbors if n.via in (None, "LLDP") and self._selects(n.interface))
            found = Found.NOTHING if value is None else Found.FOUND
        except SourceError as error:
            raise StepError(Step.READ_NEIGHBORS, error) from error
        except BrokerError as error:
            raise StepError(Step.CHOOSE_CHASSIS, error) from error
        finally:
            self._emit(SourceLooked(kind="chassis", source="lldp", found=found, seconds=self._clock() - started))
        return value


def chassis(neighbors: Iterable[Neighbor]) -> str | None:
    """The annotation's value: ``<subtype>:<value>`` of the one chassis; None without a neighbour.

    Raises:
        BrokerError: There are several, or one whose ID can not be shown in an annotation. A neighbour writes these texts.
    """
    seen: dict[str, str] = {}
    for neighbor in neighbors:
        seen.setdefault(_value(neighbor), neighbor.interface)
    if len(seen) > 1:
        shown = ", ".join(
            f"{excerpt(value, 60)} on {interface}" for value, interface in sorted(seen.items())[:MAX_SHOWN]
        )
        more = f" and {len(seen) - MAX_SHOWN} more" if len(seen) > MAX_SHOWN else ""
        raise BrokerError(
            f"the interfaces have neighbours of {len(seen)} different chassis: {shown}{more}; "
            "let nodeMetadata.provider.lldp.interfaceRegex select the ports of one switch"
        )
    return next(iter(seen), None)


def _value(neighbor: Neighbor) -> str:
    subtype, identity = neighbor.chassis_id_subtype or "", neighbor.chassis_id or ""
    if (
        _SUBTYPE.fullmatch(subtype) is None
        or not 0 < len(identity) <= MAX_CHASSIS_ID
        or not identity.isprintable()
        or "\ufffd" in identity
        or identity != identity.strip()
    ):
        raise BrokerError(
            f"the neighbour of {neighbor.interface} has a chassis ID that is no plain text: "
            f"“{excerpt(subtype, 40)}:{excerpt(identity, 60)}”; correct the switch's LLDP settings"
        )
    return f"{subtype}:{identity}"
