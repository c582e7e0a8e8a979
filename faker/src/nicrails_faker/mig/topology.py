"""The topology of one Node: its GPUs, their slices, and who holds them.

Every part has ``extra``: the entries of the document that are not known here, which belong to other components and are
written back. :mod:`nicrails_faker.mig.topology_yaml` reads and writes the document.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from nicrails_faker.mig.document import YamlMapping
from nicrails_faker.mig.identity import gpu_uuid

NOTHING = YamlMapping()


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The container that a device is allocated to; three empty strings are nobody."""

    namespace: str = ""
    pod: str = ""
    container: str = ""
    extra: YamlMapping = NOTHING

    def __bool__(self) -> bool:
        return bool(self.namespace or self.pod or self.container)

    def __str__(self) -> str:
        return "/".join(part for part in (self.namespace, self.pod, self.container) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Who holds a GPU or a slice.

    Attributes:
        allocated_by: The container that has it.
        pod_usage: Usage by pod UID, also of pods that share it; kept as it is.
        extra: What else stands there in the document.
    """

    allocated_by: Holder = field(default_factory=Holder)
    pod_usage: YamlMapping = NOTHING
    extra: YamlMapping = NOTHING

    @property
    def in_use(self) -> bool:
        """Whether taking it away would take it from somebody."""
        return bool(self.allocated_by or self.pod_usage)

    @property
    def users(self) -> str:
        """Who that is, in words."""
        if self.allocated_by:
            return str(self.allocated_by)
        return ", ".join(f"pod with UID {key.text}" for key, _ in self.pod_usage.entries[:3]) or "nobody"


@dataclass(frozen=True, slots=True, kw_only=True)
class MigInstance:
    """A slice.

    Attributes:
        profile: Such as ``1g.5gb``.
        index: Its first memory slot.
        uuid: ``MIG-…``, the ID of its device.
        status: Who holds it.
        extra: What else stands there in the document.
    """

    profile: str
    index: int
    uuid: str
    status: Status = field(default_factory=Status)
    extra: YamlMapping = NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A physical GPU.

    Attributes:
        id: ``GPU-…``, the ID of its device while it is whole.
        status: Who holds it.
        mig_enabled: It is in MIG mode, with or without slices.
        mig_instances: Its slices, in the order of the document.
        extra: What else stands there in the document.
    """

    id: str
    status: Status = field(default_factory=Status)
    mig_enabled: bool = False
    mig_instances: tuple[MigInstance, ...] = ()
    extra: YamlMapping = NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherDevice:
    """Devices of another resource that the Node has besides, such as ``rdma/hca``."""

    name: str
    count: int
    extra: YamlMapping = NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTopology:
    """What one Node has.

    Attributes:
        gpu_memory: MiB of each GPU.
        gpu_product: The product of all its GPUs, as GPU Feature Discovery writes it.
        gpus: By their index.
        mig_strategy: ``none``, ``single`` or ``mixed``, as it stands in the document.
        driver_version: "" where nothing is said.
        cuda_version: "" where nothing is said.
        other_devices: What it has besides.
        extra: What else stands there in the document.
    """

    gpu_memory: int
    gpu_product: str
    gpus: tuple[Gpu, ...]
    mig_strategy: str = ""
    driver_version: str = ""
    cuda_version: str = ""
    other_devices: tuple[OtherDevice, ...] = ()
    extra: YamlMapping = NOTHING

    @classmethod
    def create(
        cls,
        node: str,
        *,
        gpu_product: str,
        gpu_count: int,
        gpu_memory: int = 0,
        mig_strategy: str = "",
        driver_version: str = "",
        cuda_version: str = "",
        other_devices: tuple[OtherDevice, ...] = (),
    ) -> Self:
        """The topology of a new Node: whole GPUs that nobody holds."""
        return cls(
            gpu_memory=gpu_memory,
            gpu_product=gpu_product,
            gpus=tuple(Gpu(id=gpu_uuid(node, index)) for index in range(gpu_count)),
            mig_strategy=mig_strategy,
            driver_version=driver_version,
            cuda_version=cuda_version,
            other_devices=other_devices,
        )
