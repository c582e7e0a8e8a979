"""Readers of what lldpctl and nvidia-smi print: text in, record out, or a :class:`ParseError`.

They are pure and have no default for what was not there: a text that is damaged, or that this version does not know, is
refused. Which damage no reader could notice stands in ``docs/parsing.md``.
"""

from nicrails_broker.parsers.errors import ParseError
from nicrails_broker.parsers.inventory import InventoryGpu, parse_inventory
from nicrails_broker.parsers.lldp import Neighbor, interfaces, parse_any, parse_json0
from nicrails_broker.parsers.topo import Topology, parse_topology

__all__ = [
    "InventoryGpu",
    "Neighbor",
    "ParseError",
    "Topology",
    "interfaces",
    "parse_any",
    "parse_inventory",
    "parse_json0",
    "parse_topology",
]
