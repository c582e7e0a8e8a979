"""Where the slices of one GPU lie.

Memory slots are what slices compete for: a slice takes a fixed number of them and may start at a few of them only.
Compute slices are limited in sum. So 3g+3g fills an 8-slot GPU although one compute slice is left.
Source: NVIDIA's Multi-Instance GPU User Guide, "Supported MIG Profiles".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nicrails_faker.mig.errors import GeometryError
from nicrails_faker.mig.products import Product
from nicrails_faker.mig.profiles import Profile

MOST_MEDIA = 1
"""Slices with media engines on one GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A slice that somebody asks for.

    Attributes:
        profile: Of the product that is to be cut.
        start: Its first memory slot; None leaves that to :func:`place`.
    """

    profile: Profile
    start: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """A slice at its place.

    Attributes:
        profile: What it is.
        start: Its first memory slot.
    """

    profile: Profile
    start: int

    @property
    def size(self) -> int:
        """Memory slots."""
        return self.profile.shape.memory

    @property
    def slots(self) -> frozenset[int]:
        """The memory slots that it takes."""
        return frozenset(range(self.start, self.start + self.size))


def gpu_instance_id(total: int, size: int, start: int) -> int:
    """The ID of a GPU instance; it is not the profile's ID, and unique on its GPU.

    The places of a GPU form a tree: the whole is 0, its halves are 1 and 2, its quarters 3 to 6. Published output of
    ``nvidia-smi mig -lgi`` on A100, H100 and A30 has these numbers for GPUs that are cut from the start.

    Args:
        total: Memory slots of the GPU.
        size: Memory slots of the slice.
        start: Its first memory slot.
    """
    return total // size - 1 + start // size


def place(product: Product, wanted: Iterable[Wanted]) -> tuple[Slice, ...]:
    """The places of slices, by their starts; equal requests get equal places, whatever their order.

    Given starts are kept. The others get the lowest legal places, larger slices first.

    Raises:
        GeometryError: The product cannot be cut like that.
    """
    slices = list(wanted)
    _check_sums(product, [item.profile for item in slices])
    fixed = [_fixed(product, item.profile, item.start) for item in slices if item.start is not None]
    _check_overlap(product, fixed)
    order = {profile: index for index, profile in enumerate(product.profiles)}
    free = sorted(
        (item.profile for item in slices if item.start is None),
        key=lambda profile: (-profile.shape.memory, -profile.shape.compute, order[profile]),
    )
    taken = frozenset().union(*(piece.slots for piece in fixed))
    found = _search(free, taken, 0)
    if found is None:
        raise GeometryError(f"{_list(product, slices)} cannot be placed on {product.name}: {_why(product, slices)}")
    return tuple(sorted([*fixed, *found], key=lambda piece: piece.start))


def _check_sums(product: Product, profiles: Sequence[Profile]) -> None:
    for profile, number in Counter(profiles).items():
        if number > profile.shape.at_most:
            raise GeometryError(
                f"{number} times {profile.name} on one {product.name}: at most {profile.shape.at_most} of them fit"
            )
    media = [profile.name for profile in profiles if profile.shape.media]
    if len(media) > MOST_MEDIA:
        raise GeometryError(f"{' and '.join(media)} on one {product.name}: it has media engines for one slice only")
    compute = sum(profile.shape.compute for profile in profiles)
    if compute > product.layout.compute:
        raise GeometryError(f"{compute} compute slices on one {product.name}: it has {product.layout.compute} of them")


def _fixed(product: Product, profile: Profile, start: int) -> Slice:
    if start not in profile.shape.starts:
        legal = ", ".join(map(str, profile.shape.starts))
        raise GeometryError(f"{profile.name} at position {start}: on {product.name} it may start at {legal}")
    return Slice(profile=profile, start=start)


def _check_overlap(product: Product, slices: Sequence[Slice]) -> None:
    owner: dict[int, Slice] = {}
    for piece in slices:
        for slot in sorted(piece.slots):
            if slot in owner:
                other = owner[slot]
                raise GeometryError(
                    f"{piece.profile.name} at position {piece.start} overlaps {other.profile.name} at position"
                    f" {other.start}: both take memory slot {slot} of the {product.name}"
                )
            owner[slot] = piece


def _search(profiles: Sequence[Profile], taken: frozenset[int], at_least: int) -> tuple[Slice, ...] | None:
    """The first placement in order of starts, by backtracking; at most seven slices at seven starts each."""
    if not profiles:
        return ()
    profile, *others = profiles
    for start in profile.shape.starts:
        piece = Slice(profile=profile, start=start)
        if start < at_least or piece.slots & taken:
            continue
        # Equal slices are placed in ascending order; their other orders are the same placement.
        found = _search(others, taken | piece.slots, start + 1 if others[:1] == [profile] else 0)
        if found is not None:
            return (piece, *found)
    return None


def _list(product: Product, slices: Sequence[Wanted]) -> str:
    """The slices in words, the largest first."""
    numbers = Counter(item.profile for item in slices)
    return " + ".join(
        f"{numbers[profile]} x {profile.name}" for profile in reversed(product.profiles) if profile in numbers
    )


def _why(product: Product, slices: Sequence[Wanted]) -> str:
    needed = sum(item.profile.shape.memory for item in slices)
    if needed > product.layout.memory:
        return f"they need {needed} memory slots of {product.layout.memory}"
    given = " beside those whose positions are given" if any(item.start is not None for item in slices) else ""
    return f"there are not enough legal places{given}"
