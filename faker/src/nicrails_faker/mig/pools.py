"""Pools of Nodes and what each Node of a pool has.

Both formats of fake-gpu-operator: a pool with a block ``gpu`` names a GPU profile and changes to it, another one says
everything in flat keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nicrails.text import excerpt
from nicrails_faker.mig.document import YamlMapping, YamlValue, mapping
from nicrails_faker.mig.errors import DocumentError
from nicrails_faker.mig.fields import Fields, expect_mapping
from nicrails_faker.mig.topology import NOTHING, OtherDevice
from nicrails_faker.mig.topology_yaml import MAX_GPUS, MAX_MEMORY
from nicrails_faker.mig.yaml_text import parse

_BYTES_PER_MIB = 1024 * 1024
_GPU = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSpec:
    """What each Node of a pool has, in whichever format it was said."""

    gpu_product: str = ""
    gpu_count: int = 0
    gpu_memory: int = 0
    driver_version: str = ""
    cuda_version: str = ""
    other_devices: tuple[OtherDevice, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatPool:
    """A pool of the old format.

    Attributes:
        gpu_product: As GPU Feature Discovery writes it.
        gpu_count: GPUs of each Node.
        gpu_memory: MiB of each GPU.
        other_devices: What each Node has besides.
        extra: What else stands there.
    """

    gpu_product: str
    gpu_count: int
    gpu_memory: int
    other_devices: tuple[OtherDevice, ...] = ()
    extra: YamlMapping = NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfilePool:
    """A pool of the new format.

    Attributes:
        backend: ``fake`` or ``mock``.
        profile: The name of a GPU profile; "" for none.
        overrides: What is different from the profile; with no profile, all there is.
        resources: Other resources of each Node and their counts, in their order.
        gpu_extra: What else stands under ``gpu``.
        extra: What else stands there, such as ``numa``.
    """

    backend: str
    profile: str
    overrides: YamlMapping = NOTHING
    resources: tuple[tuple[str, int], ...] = ()
    gpu_extra: YamlMapping = NOTHING
    extra: YamlMapping = NOTHING


Pool = FlatPool | ProfilePool


def spec_of(pool: Pool, profiles: Mapping[str, str]) -> PoolSpec:
    """What each Node of a pool has.

    Args:
        pool: Of either format.
        profiles: The text of ``profile.yaml`` by the name of the GPU profile.

    Raises:
        DocumentError: The pool's profile is not among them, or says something that cannot be.
    """
    if isinstance(pool, FlatPool):
        return PoolSpec(
            gpu_product=pool.gpu_product,
            gpu_count=pool.gpu_count,
            gpu_memory=pool.gpu_memory,
            other_devices=pool.other_devices,
        )
    base = NOTHING
    if pool.profile:
        if pool.profile not in profiles:
            known = ", ".join(sorted(profiles)) or "none"
            raise DocumentError("gpu.profile", f'no GPU profile "{excerpt(pool.profile, 60)}"; known are {known}')
        base = expect_mapping("", parse(profiles[pool.profile]))
    return _from_profile(_merged(base, pool.overrides), pool.resources)


def _merged(base: YamlMapping, overrides: YamlMapping) -> YamlMapping:
    """The base with the overrides: mappings are merged at every depth, everything else is replaced."""
    changes = {key.text: (key, value) for key, value in overrides.entries}
    entries: list[tuple[str, YamlValue]] = []
    for key, value in base.entries:
        _, change = changes.pop(key.text, (key, value))
        if isinstance(value, YamlMapping) and isinstance(change, YamlMapping):
            change = _merged(value, change)
        entries.append((key.text, change))
    entries += [(key, value) for key, (_, value) in changes.items()]
    return mapping(entries)


def _from_profile(profile: YamlMapping, resources: tuple[tuple[str, int], ...]) -> PoolSpec:
    """The parts of a GPU profile that a topology has; its paths are those of ``profile.yaml``."""
    fields = Fields("", profile)
    defaults, system = fields.fields("device_defaults"), fields.fields("system")
    memory = defaults.fields("memory")
    # A count of 0 is no count: the devices are counted, as fake-gpu-operator does.
    count = fields.count("device_count", most=MAX_GPUS) or len(fields.items("devices"))
    if count > MAX_GPUS:
        raise DocumentError("devices", f"{count} GPUs; {MAX_GPUS} are the most")
    return PoolSpec(
        gpu_product=defaults.text("name"),
        gpu_count=count,
        gpu_memory=memory.count("total_bytes", most=MAX_MEMORY * _BYTES_PER_MIB) // _BYTES_PER_MIB,
        driver_version=system.text("driver_version", numbers=True),
        cuda_version=system.text("cuda_version", numbers=True),
        other_devices=tuple(OtherDevice(name=name, count=number) for name, number in resources if name != _GPU),
    )
