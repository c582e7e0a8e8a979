"""What a GPU can be cut into: the shapes of slices, and the profiles that they are on a product.

Source: NVIDIA's Multi-Instance GPU User Guide, "Supported MIG Profiles", and ``nvidia-smi mig -lgip`` and ``-lgipp``.
"""

from __future__ import annotations

from dataclasses import dataclass

RESOURCE_PREFIX = "nvidia.com/mig-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A slice without a size in GB; the same on all GPUs of one layout.

    Attributes:
        profile_id: That of ``nvidia-smi mig -cgi``.
        compute: Compute slices.
        memory: Memory slots, the size of its placement.
        at_most: The most of them on one GPU.
        starts: The memory slots at which it may start, ascending.
        media: It has the media engines (``+me``); a GPU has one set of them.
    """

    profile_id: int
    compute: int
    memory: int
    at_most: int
    starts: tuple[int, ...]
    media: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How GPUs of one kind are divided.

    Attributes:
        memory: Memory slots of the GPU.
        compute: Compute slices of the GPU.
        shapes: The smallest first.
    """

    memory: int
    compute: int
    shapes: tuple[Shape, ...]


SEVEN_SLICES = Layout(
    memory=8,
    compute=7,
    shapes=(
        Shape(profile_id=19, compute=1, memory=1, at_most=7, starts=(0, 1, 2, 3, 4, 5, 6)),
        Shape(profile_id=20, compute=1, memory=1, at_most=1, starts=(0, 1, 2, 3, 4, 5, 6), media=True),
        Shape(profile_id=15, compute=1, memory=2, at_most=4, starts=(0, 2, 4, 6)),
        Shape(profile_id=14, compute=2, memory=2, at_most=3, starts=(0, 2, 4)),
        Shape(profile_id=9, compute=3, memory=4, at_most=2, starts=(0, 4)),
        Shape(profile_id=5, compute=4, memory=4, at_most=1, starts=(0,)),
        Shape(profile_id=0, compute=7, memory=8, at_most=1, starts=(0,)),
    ),
)
"""A100, H100, H200, GH200 and Blackwell."""

FOUR_SLICES = Layout(
    memory=4,
    compute=4,
    shapes=(
        Shape(profile_id=14, compute=1, memory=1, at_most=4, starts=(0, 1, 2, 3)),
        Shape(profile_id=21, compute=1, memory=1, at_most=1, starts=(0, 1, 2, 3), media=True),
        Shape(profile_id=5, compute=2, memory=2, at_most=2, starts=(0, 2)),
        Shape(profile_id=6, compute=2, memory=2, at_most=1, starts=(0, 2), media=True),
        Shape(profile_id=0, compute=4, memory=4, at_most=1, starts=(0,)),
    ),
)
"""A30."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A shape on a product, under the name that it has there.

    Attributes:
        name: Such as ``1g.5gb+me``; what it means depends on the product.
        memory_gb: The GB of the name.
        shape: Its slots, slices and legal starts.
    """

    name: str
    memory_gb: int
    shape: Shape

    @property
    def resource(self) -> str:
        """The Kubernetes resource of such a slice in the strategy ``mixed``."""
        return resource_name(self.name)


def resource_name(profile: str) -> str:
    """The Kubernetes resource of a profile; it has ``.`` where the profile's name has ``+``.

    Source: NVIDIA's k8s-device-plugin, ``internal/rm/device_map.go``.
    """
    return RESOURCE_PREFIX + profile.replace("+", ".")


def profiles_of(layout: Layout, memory_gb: int) -> tuple[Profile, ...]:
    """The profiles of a GPU with so much memory, the smallest first."""
    return tuple(_profile(layout, shape, memory_gb) for shape in layout.shapes)


def _profile(layout: Layout, shape: Shape, memory_gb: int) -> Profile:
    # The share of the memory, half rounded up: this is how the driver makes the names.
    gb = (2 * shape.memory * memory_gb + layout.memory) // (2 * layout.memory)
    return Profile(name=f"{shape.compute}g.{gb}gb{'+me' if shape.media else ''}", memory_gb=gb, shape=shape)
