"""A machine read from its folder.

The folder's files are described in ``docs/demo.md``; ``machine.json`` is read strictly, so a misspelt key is an error
and not a machine that lacks a device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.resources.abc import Traversable
from typing import Any

import orjson

from nicrails.pci import PciAddress
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


class MachineError(ValueError):
    """The folder does not describe a machine; the message names the file and the key."""


def load(folder: Traversable) -> Machine:
    """Read a machine.

    Args:
        folder: A path, or a folder of a package's data.

    Raises:
        MachineError: A file is missing, is not what it should be, or contradicts another.
    """
    return Machine(
        **_hardware(f"{folder.name}/machine.json", _json(folder, "machine.json")),
        settings=_settings(f"{folder.name}/settings.json", _json(folder, "settings.json")),
        captures=_captures(folder),
        **_expectation(folder),
    )


def _hardware(at: str, document: object) -> dict[str, Any]:
    fields = _object(at, document, {"description", "node", "netdevs", "infiniband", "gpus"})
    node = _object(f"{at}: node", fields["node"], {"name"})
    gpus = fields["gpus"]
    if not isinstance(gpus, list):
        raise MachineError(f"{at}: gpus: expected a list of PCI addresses")
    return {
        "name": _text(f"{at}: node.name", node["name"]),
        "description": _text(f"{at}: description", fields["description"]),
        "netdevs": {
            _file_name(f"{at}: netdevs", name): _netdev(f"{at}: netdevs.{name}", netdev)
            for name, netdev in _object(f"{at}: netdevs", fields["netdevs"]).items()
        },
        "infiniband": {
            _file_name(f"{at}: infiniband", name): None if pci is None else _pci(f"{at}: infiniband.{name}", pci)
            for name, pci in _object(f"{at}: infiniband", fields["infiniband"]).items()
        },
        "gpus": tuple(_pci(f"{at}: gpus[{index}]", gpu) for index, gpu in enumerate(gpus)),
    }


def _netdev(at: str, value: object) -> Netdev:
    kind = _object(at, value).get("kind")
    makers: Mapping[object, tuple[set[str], Callable[[Mapping[str, Any]], Netdev]]] = {
        "pci": ({"pci"}, lambda f: PciNetdev(pci=_pci(f"{at}.pci", f["pci"]))),
        "vf": (
            {"pci", "physfn"},
            lambda f: VirtualFunctionNetdev(pci=_pci(f"{at}.pci", f["pci"]), physfn=_pci(f"{at}.physfn", f["physfn"])),
        ),
        "virtio": ({"pci", "device"}, lambda f: _child(at, f, "virtio")),
        "sf": ({"pci", "device"}, lambda f: _child(at, f, "auxiliary")),
        "bond": (set(), lambda _: BondNetdev()),
    }
    if kind not in makers:
        raise MachineError(f"{at}.kind: expected one of {', '.join(map(str, makers))}, found {kind!r}")
    keys, make = makers[kind]
    return make(_object(at, value, keys | {"kind"}))


def _child(at: str, fields: Mapping[str, Any], bus: str) -> ChildNetdev:
    device = _file_name(f"{at}.device", _text(f"{at}.device", fields["device"]))
    return ChildNetdev(pci=_pci(f"{at}.pci", fields["pci"]), device=device, bus=bus)


def _settings(at: str, document: object) -> RailSettings:
    fields = _object(at, document, {"interfaceRegex", "railID", "nodeUID"})
    return RailSettings(
        interface_regex=_text(f"{at}: interfaceRegex", fields["interfaceRegex"]),
        rail_id=_text(f"{at}: railID", fields["railID"]),
        node_uid=_text(f"{at}: nodeUID", fields["nodeUID"]),
    )


def _captures(folder: Traversable) -> Captures:
    topo, inventory = (_optional(folder, name) for name in ("topo.txt", "inventory.txt"))
    if (topo is None) != (inventory is None):
        raise MachineError(f"{folder.name}: topo.txt and inventory.txt belong together, one is missing")
    return Captures(lldp=_bytes(folder, "lldp.json"), topo=topo, inventory=inventory)


def _expectation(folder: Traversable) -> dict[str, Any]:
    record, refusal = (_optional(folder, name) for name in ("record.json", "refusal.txt"))
    if (record is None) == (refusal is None):
        raise MachineError(f"{folder.name}: exactly one of record.json and refusal.txt must be there")
    return {
        "record": None if record is None else record.removesuffix(b"\n"),
        "refusal": () if refusal is None else tuple(refusal.decode().splitlines()),
    }


def _json(folder: Traversable, name: str) -> object:
    try:
        return orjson.loads(_bytes(folder, name))
    except orjson.JSONDecodeError as error:
        raise MachineError(f"{folder.name}/{name}: not JSON: {error}") from error


def _bytes(folder: Traversable, name: str) -> bytes:
    data = _optional(folder, name)
    if data is None:
        raise MachineError(f"{folder.name}/{name}: there is no such file")
    return data


def _optional(folder: Traversable, name: str) -> bytes | None:
    file = folder / name
    return file.read_bytes() if file.is_file() else None


def _object(at: str, value: object, keys: set[str] | None = None) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise MachineError(f"{at}: expected an object")
    if keys is not None and value.keys() != keys:
        wrong = ", ".join(sorted(value.keys() ^ keys))
        raise MachineError(f"{at}: expected exactly the keys {', '.join(sorted(keys))}; missing or unknown: {wrong}")
    return value


def _text(at: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise MachineError(f"{at}: expected a string that is not empty")
    return value


def _file_name(at: str, name: str) -> str:
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise MachineError(f"{at}: {name!r} can not be the name of a device")
    return name


def _pci(at: str, value: object) -> PciAddress:
    text = _text(at, value)
    try:
        address = PciAddress.parse(text)
    except ValueError as error:
        raise MachineError(f"{at}: {error}") from error
    if address != text:
        raise MachineError(f"{at}: {text!r} is not how sysfs spells it, which is {address!r}")
    return address
