"""Rails from LLDP: a NIC is on a rail when its interface has a neighbour and a name that says which rail it is.

The neighbour proves that the cable is in; the name, which the host's administrator gave, says which rail. Nothing that
a neighbour says about itself has an influence on the rails.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from nicrails import PciAddress, RailId
from nicrails.text import excerpt
from nicrails_broker.events import CommandWarned, Emit, WithoutNeighbor
from nicrails_broker.failures import SourceError
from nicrails_broker.host import LldpctlError, Sysfs, SysfsError
from nicrails_broker.naming import RailNameError, RailNaming
from nicrails_broker.parsers.errors import ParseError
from nicrails_broker.parsers.lldp import Neighbor, interfaces, parse_json0
from nicrails_broker.sources.rails import Rails

NAME = "host-lldp"

Ask = Callable[[], Awaitable[tuple[bytes, str]]]
"""Gives lldpctl's standard output, and what it said on standard error: :meth:`Lldpctl.neighbors`, or a file."""


async def read_neighbors(ask: Ask, emit: Emit) -> tuple[Neighbor, ...]:
    """All neighbours of all interfaces.

    Raises:
        SourceError: lldpd could not be asked, or its answer is not what it prints.
    """
    try:
        output, said = await ask()
        if said:
            emit(CommandWarned(command="lldpctl", said=said))
        return parse_json0(output)
    except (LldpctlError, ParseError) as error:
        raise SourceError(str(error)) from error


class HostLldp:
    """The rail source ``host-lldp``.

    Args:
        ask: Where lldpd's answer comes from.
        naming: Which interfaces are on which rail.
        sysfs: Of the host.
        emit: Is told about interfaces that are selected but have no neighbour.
        confirm: Seconds after which a loss is looked at once more; 0 to believe it at once, as of a file.
    """

    name = NAME

    def __init__(self, *, ask: Ask, naming: RailNaming, sysfs: Sysfs, emit: Emit, confirm: float = 0.0) -> None:
        self._ask = ask
        self._confirm = confirm
        self._before: frozenset[str] | None = None
        self._naming = naming
        self._sysfs = sysfs
        self._emit = emit

    async def discover(self) -> Rails:
        """See :class:`nicrails_broker.sources.rails.RailSource`."""
        connected = await self._connected()
        found: dict[PciAddress, set[RailId]] = {}
        try:
            for interface in sorted(connected):
                rail = self._naming.match(interface)
                if rail is not None:
                    found.setdefault(self._sysfs.interface_pci(interface), set()).add(rail)
            idle = tuple(name for name in self._sysfs.interfaces() if name not in connected and self._selects(name))
        except (RailNameError, SysfsError) as error:
            raise SourceError(excerpt(str(error), 512)) from error
        self._emit(WithoutNeighbor(interfaces=idle))
        self._before = frozenset(connected)
        return {address: tuple(sorted(rails)) for address, rails in sorted(found.items())}

    async def _connected(self) -> tuple[str, ...]:
        """The interfaces with a neighbour.

        A lldpd that ends while lldpctl reads makes it print a part of the list, or nothing, with status 0. So an answer
        that lacks a rail interface of the one before, or at first has none at all, must come twice.
        """
        connected = interfaces(await read_neighbors(self._ask, self._emit))
        selected = {name for name in connected if self._selects(name)}
        lost = (
            not selected if self._before is None else {name for name in self._before if self._selects(name)} - selected
        )
        if lost and self._confirm > 0:
            await asyncio.sleep(self._confirm)
            if interfaces(await read_neighbors(self._ask, self._emit)) != connected:
                raise SourceError(
                    "lldpd gave two different answers within a moment, as it does while it restarts; it is asked again"
                )
        return connected

    def _selects(self, interface: str) -> bool:
        try:
            return self._naming.match(interface) is not None
        except RailNameError:
            # It is selected; that its rail ID would be empty matters once it has a neighbour.
            return True
