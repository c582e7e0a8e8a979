"""What somebody asks for: the Node annotation ``run.ai/mig.config``.

Three forms are read. They differ in ``mig-devices`` of an entry:

* a list of slices, ``- {name: 1g.5gb, position: 0, size: 1}`` (Run:ai, from 2.9);
* positions and profiles, ``{0: 2g.10gb, 4: 1g.5gb}`` (Run:ai, before 2.9);
* profiles and counts, ``{"1g.5gb": 7}`` (NVIDIA's mig-parted, whose files have many named configurations).

Here only the form is checked; whether a GPU can be cut like that is for :mod:`nicrails_faker.mig.plan`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from nicrails.text import excerpt
from nicrails_faker.mig.document import YamlMapping, YamlScalar, YamlValue, child
from nicrails_faker.mig.errors import DocumentError
from nicrails_faker.mig.fields import Fields, expect_count, expect_items, expect_mapping, expect_text, found
from nicrails_faker.mig.yaml_text import parse

MAX_SIZE = 128 * 1024
"""Characters; half of the bytes that Kubernetes takes as annotations of a Node, which has to be told something too."""
MAX_COUNT = 64
MAX_POSITION = 63

SELECTED = "selected"
"""The name that Run:ai gives to the configuration that is meant."""
VERSION = "v1"

_INDEX = re.compile(r"0|[1-9][0-9]{0,5}", re.ASCII)
_PCI_ID = re.compile(r"0[xX]([0-9a-fA-F]{8})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedSlices:
    """Slices of one profile.

    Attributes:
        path: Where the profile stands in the document.
        profile: Its name, not looked up yet.
        count: How many.
        position: The first memory slot; None where the request leaves it open.
        size: The size that the request gives, None where it gives none.
    """

    path: str
    profile: str
    count: int = 1
    position: int | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """One entry of a configuration.

    Attributes:
        path: Where it stands in the document.
        devices: GPU indices and where each stands; None is every GPU.
        pci_ids: Only GPUs with one of these PCI device IDs are meant; None is no such filter.
        enabled: MIG on.
        slices: What each of the GPUs is cut into; may be empty with MIG on.
        counted: The slices were given as counts, which say all about a GPU.
    """

    path: str
    devices: tuple[tuple[str, int], ...] | None
    pci_ids: frozenset[int] | None
    enabled: bool
    slices: tuple[WantedSlices, ...] = ()
    counted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MigRequest:
    """One configuration; GPUs that none of its entries selects have MIG off.

    Attributes:
        path: Where it stands in the document.
        selections: Its entries, in order.
    """

    path: str
    selections: tuple[Selection, ...]


def parse_request(text: str, *, config: str | None = None) -> MigRequest:
    """Read a request.

    Args:
        text: The annotation, or a file of mig-parted.
        config: The name of the configuration that is meant. Without it, that is the one called ``selected``, else the only one.

    Raises:
        DocumentError: The text is not a request in any of the forms, or it is not clear which configuration is meant.
    """
    if not text.strip():
        raise DocumentError("", "empty; MIG is turned off by removing the request, not by emptying it")
    fields = Fields("", parse(text, max_size=MAX_SIZE))
    version = fields.need_text("version")
    if version != VERSION:
        raise DocumentError("version", f'unknown version "{excerpt(version, 40)}"; {VERSION} is known')
    at = fields.at("mig-configs")
    entries = expect_mapping(at, fields.need("mig-configs")).entries
    fields.done()
    # All are read before one is chosen: a file is right or wrong as a whole.
    configs = {key.text: _config(child(at, key.text), value) for key, value in entries}
    return configs[_choose(at, configs, config)]


def _choose(path: str, configs: dict[str, MigRequest], config: str | None) -> str:
    known = ", ".join(excerpt(name, 60) for name in list(configs)[:20]) or "none"
    if config is not None:
        if config not in configs:
            raise DocumentError(path, f'no configuration "{excerpt(config, 60)}"; known are {known}')
        return config
    if SELECTED in configs:
        return SELECTED
    if len(configs) != 1:
        raise DocumentError(path, f"which configuration is meant? None of them is called {SELECTED}; known are {known}")
    return next(iter(configs))


def _config(path: str, value: YamlValue) -> MigRequest:
    return MigRequest(path=path, selections=tuple(_selection(at, item) for at, item in expect_items(path, value)))


def _selection(path: str, value: YamlValue) -> Selection:
    fields = Fields(path, value)
    pci_ids = fields.take("device-filter")
    devices = _devices(fields.at("devices"), fields.need("devices"))
    fields.need("mig-enabled")
    enabled = fields.flag("mig-enabled")
    cut = fields.take("mig-devices")
    fields.done()
    at = fields.at("mig-devices")
    if enabled and cut is None:
        raise DocumentError(at, "missing, although mig-enabled is true; {} is MIG without slices")
    slices, counted = ((), False) if cut is None else _slices(at, cut)
    if slices and not enabled:
        raise DocumentError(at, "slices, although mig-enabled is false")
    return Selection(
        path=path,
        devices=devices,
        pci_ids=None if pci_ids is None else _pci_ids(fields.at("device-filter"), pci_ids),
        enabled=enabled,
        slices=slices,
        counted=counted,
    )


def _devices(path: str, value: YamlValue) -> tuple[tuple[str, int], ...] | None:
    if isinstance(value, YamlScalar) and value.text == "all":
        return None
    if isinstance(value, YamlScalar):
        raise DocumentError(path, f"expected all or a list of GPU indices, found {found(value)}")
    devices: dict[int, str] = {}
    is_all = False
    for at, item in expect_items(path, value):
        if isinstance(item, YamlScalar) and item.text == "all":
            is_all = True
        else:
            devices.setdefault(_index(at, item), at)
    return None if is_all else tuple((at, index) for index, at in devices.items())


def _index(path: str, value: YamlValue) -> int:
    # Run:ai writes indices as strings, mig-parted as numbers.
    if not isinstance(value, YamlScalar) or _INDEX.fullmatch(value.text) is None:
        raise DocumentError(path, f"expected a GPU index (0, 1, 2, …) or all, found {found(value)}")
    return int(value.text)


def _pci_ids(path: str, value: YamlValue) -> frozenset[int]:
    items = ((path, value),) if isinstance(value, YamlScalar) else expect_items(path, value)
    return frozenset(_pci_id(at, item) for at, item in items)


def _pci_id(path: str, value: YamlValue) -> int:
    match = _PCI_ID.fullmatch(value.text) if isinstance(value, YamlScalar) else None
    if match is None:
        raise DocumentError(path, f"expected a PCI device ID such as 0x20B010DE, found {found(value)}")
    return int(match[1], 16)


def _slices(path: str, value: YamlValue) -> tuple[tuple[WantedSlices, ...], bool]:
    """The slices, and whether they are given as counts."""
    if not isinstance(value, YamlMapping):
        return tuple(_listed(at, item) for at, item in expect_items(path, value)), False
    if all(_INDEX.fullmatch(key.text) for key, _ in value.entries):
        return tuple(_positioned(child(path, key.text), key, item) for key, item in value.entries), False
    return _counted(path, value), True


def _listed(path: str, value: YamlValue) -> WantedSlices:
    fields = Fields(path, value)
    profile = fields.need_text("name")
    position = fields.count("position", most=MAX_POSITION, default=-1)
    size = fields.count("size", most=MAX_POSITION, default=-1)
    fields.done()
    return WantedSlices(
        path=fields.at("name"),
        profile=profile,
        position=None if position < 0 else position,
        size=None if size < 0 else size,
    )


def _positioned(path: str, key: YamlScalar, value: YamlValue) -> WantedSlices:
    return WantedSlices(
        path=path,
        profile=expect_text(path, value),
        position=expect_count(path, YamlScalar(key.text, plain=True), most=MAX_POSITION),
    )


def _counted(path: str, value: YamlMapping) -> tuple[WantedSlices, ...]:
    slices = []
    for key, item in value.entries:
        at = child(path, key.text)
        if _INDEX.fullmatch(key.text):
            raise DocumentError(at, "positions and profiles as keys of one mapping")
        slices.append(WantedSlices(path=at, profile=key.text, count=expect_count(at, item, most=MAX_COUNT)))
    if all(item.count == 0 for item in slices):
        raise DocumentError(path, "no count is above 0; {} is MIG without slices")
    return tuple(item for item in slices if item.count)
