"""Simulated machines: a sysfs tree, an ``lldpctl`` and an ``nvidia-smi`` that answer from captures.

>>> from pathlib import Path
>>> from nicrails_faker.machines import Answer, shipped, write
>>> machine = write(shipped("h100-8gpu-dualport"), Path("/tmp/machine"))  # doctest: +SKIP
>>> machine.answer(Answer.TOPO, b"", exit_status=255)  # the command fails from now on  # doctest: +SKIP
>>> machine.heal()  # and answers again  # doctest: +SKIP
"""

from nicrails_faker.machines.folder import MachineError, load
from nicrails_faker.machines.installed import InstalledMachine, write
from nicrails_faker.machines.model import (
    BondNetdev,
    Captures,
    ChildNetdev,
    Machine,
    Netdev,
    PciNetdev,
    RailSettings,
    VirtualFunctionNetdev,
)
from nicrails_faker.machines.programs import Answer, Completed
from nicrails_faker.machines.shipped import find, names, shipped

__all__ = [
    "Answer",
    "BondNetdev",
    "Captures",
    "ChildNetdev",
    "Completed",
    "InstalledMachine",
    "Machine",
    "MachineError",
    "Netdev",
    "PciNetdev",
    "RailSettings",
    "VirtualFunctionNetdev",
    "find",
    "load",
    "names",
    "shipped",
    "write",
]
