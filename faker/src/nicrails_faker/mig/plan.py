"""What a Node's topology becomes when a request is met, or why it cannot be met.

A request says all about a Node: GPUs that it does not select have MIG off. It is met as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from nicrails.text import excerpt
from nicrails_faker.mig.errors import GeometryError, PlanError, ProductError
from nicrails_faker.mig.geometry import Slice, Wanted, place
from nicrails_faker.mig.identity import mig_uuid
from nicrails_faker.mig.products import Product, find_product
from nicrails_faker.mig.request import MigRequest, Selection, WantedSlices
from nicrails_faker.mig.topology import Gpu, MigInstance, NodeTopology


def plan(topology: NodeTopology, request: MigRequest | None) -> NodeTopology:
    """The topology with the request met; the same object where nothing changes.

    A slice that stays where it is keeps its UUID, its status and everything else. One that goes must not be in use, and
    neither must a GPU whose layout changes.

    Args:
        topology: As it is.
        request: What is asked for; None turns MIG off.

    Raises:
        PlanError: The request cannot be met; the message says where in it, which GPU and why.
    """
    wanted = {} if request is None else _wanted(topology, request)
    gpus = tuple(_cut(index, gpu, wanted.get(index)) for index, gpu in enumerate(topology.gpus))
    return topology if gpus == topology.gpus else replace(topology, gpus=gpus)


@dataclass(slots=True)
class _Cut:
    """What one GPU is cut into, collected from the entries that select it."""

    path: str
    enabled: bool
    counted: bool
    slices: list[WantedSlices] = field(default_factory=list)
    places: tuple[Slice, ...] = ()


def _wanted(topology: NodeTopology, request: MigRequest) -> Mapping[int, _Cut]:
    """The GPUs that the request selects, and the places of their slices."""
    cuts: dict[int, _Cut] = {}
    meant = [one for one in request.selections if _is_meant(one, topology)]
    if request.selections and not meant:
        raise PlanError(f"{request.path}: no entry's device-filter is for {_shown(topology)}")
    for selection in meant:
        for index in _indices(selection, len(topology.gpus)):
            _add(cuts, index, selection)
    for index, cut in cuts.items():
        if cut.enabled:
            cut.places = _places(topology, index, cut)
    return cuts


def _is_meant(selection: Selection, topology: NodeTopology) -> bool:
    if selection.pci_ids is None:
        return True
    try:
        product = find_product(topology.gpu_product, topology.gpu_memory)
    except ProductError:
        return False
    return bool(selection.pci_ids & product.pci_ids)


def _indices(selection: Selection, gpus: int) -> tuple[int, ...]:
    if selection.devices is None:
        return tuple(range(gpus))
    for path, index in selection.devices:
        if index >= gpus:
            there = f"its GPUs are 0 to {gpus - 1}" if gpus > 1 else f"it has {'only GPU 0' if gpus else 'no GPUs'}"
            raise PlanError(f"{path}: the Node has no GPU {index}; {there}")
    return tuple(index for _, index in selection.devices)


def _add(cuts: dict[int, _Cut], index: int, selection: Selection) -> None:
    """Slices of several entries add up, as for fake-gpu-operator; counts and MIG off say all about a GPU, once."""
    cut = cuts.setdefault(index, _Cut(selection.path, selection.enabled, selection.counted))
    if cut.path != selection.path:
        if cut.counted or selection.counted or not (cut.enabled and selection.enabled):
            raise PlanError(f"{selection.path}: GPU {index} is selected by {cut.path} already")
        cut.path = selection.path
    cut.slices.extend(selection.slices)


def _places(topology: NodeTopology, index: int, cut: _Cut) -> tuple[Slice, ...]:
    try:
        product = find_product(topology.gpu_product, topology.gpu_memory)
    except ProductError as error:
        raise PlanError(f"{cut.path}: GPU {index}: {error}") from error
    wanted = [one for item in cut.slices for one in _resolved(product, item)]
    try:
        return place(product, wanted)
    except GeometryError as error:
        raise PlanError(f"{cut.path}: GPU {index}: {error}") from error


def _resolved(product: Product, item: WantedSlices) -> list[Wanted]:
    try:
        profile = product.profile(item.profile)
    except ProductError as error:
        raise PlanError(f"{item.path}: {error}") from error
    # Run:ai's size is that of the placement. Some count the compute slices of 3g and 7g, which says the same.
    if item.size not in (None, profile.shape.memory, profile.shape.compute):
        raise PlanError(
            f"{item.path}: {profile.name} with size {item.size}; on {product.name} it has size {profile.shape.memory}"
        )
    return [Wanted(profile=profile, start=item.position)] * item.count


def _cut(index: int, gpu: Gpu, cut: _Cut | None) -> Gpu:
    enabled = cut is not None and cut.enabled
    now = {(one.profile, one.index): one for one in gpu.mig_instances} if gpu.mig_enabled else {}
    then = [(piece.profile.name, piece.start) for piece in cut.places] if cut else []
    if gpu.mig_enabled == enabled and now.keys() == set(then):
        return gpu
    _check_free(f"{cut.path}: GPU {index}" if cut else f"GPU {index}", gpu, now.keys() - set(then))
    instances = tuple(
        now.get((profile, start)) or MigInstance(profile=profile, index=start, uuid=mig_uuid(gpu.id, profile, start))
        for profile, start in then
    )
    return replace(gpu, mig_enabled=enabled, mig_instances=instances)


def _check_free(where: str, gpu: Gpu, gone: AbstractSet[tuple[str, int]]) -> None:
    """Neither a slice that goes nor the GPU itself may be in use; NVIDIA's driver refuses both as well."""
    for one in gpu.mig_instances:
        if (one.profile, one.index) in gone and one.status.in_use:
            raise PlanError(
                f"{where}: the slice {excerpt(one.profile, 40)} at position {one.index} is in use by"
                f" {excerpt(one.status.users, 120)}; it cannot be taken away before that ends"
            )
    if gpu.status.in_use:
        raise PlanError(
            f"{where} is in use by {excerpt(gpu.status.users, 120)}; it cannot be cut anew before that ends"
        )


def _shown(topology: NodeTopology) -> str:
    return f'"{excerpt(topology.gpu_product, 80)}"' if topology.gpu_product else "GPUs without a product"
