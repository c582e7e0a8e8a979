"""The files that the fake ``nvidia-smi`` reads.

They are lines of fields between ``|``, for a shell to read. What comes from the document has no ``|``, no line feed and
no control character in them, so it stays one field.
"""

from __future__ import annotations

from collections.abc import Mapping

from nicrails_faker.mig import MigInstance, NodeTopology, Product, ProductError, find_product, gpu_instance_id
from nicrails_faker.mig.attributes import slice_attributes
from nicrails_faker.smi.hardware import Hardware

MAX_FIELD = 200
UNKNOWN = "N/A"

_MAKERS = ("NVIDIA-", "Tesla-", "Quadro-")
_ENGINES = ("copy", "encoder", "decoder", "ofa", "jpeg")


def render(topology: NodeTopology, hardware: Hardware) -> Mapping[str, str]:
    """The files, by their names in the folder.

    Args:
        topology: The Node's.
        hardware: What its GPUs are in.
    """
    product = _product(topology)
    files = {
        "versions": f"{_field(topology.driver_version or UNKNOWN)}\n{_field(topology.cuda_version or UNKNOWN)}\n",
        "gpus": "".join(
            _line(
                gpu.id,
                _bus_id(address),
                _name(topology.gpu_product),
                _number(topology.gpu_memory or None),
                "[N/A]" if product is None and not gpu.mig_enabled else "Enabled" if gpu.mig_enabled else "Disabled",
            )
            for gpu, address in zip(topology.gpus, hardware.addresses, strict=True)
        ),
        "topo": hardware.topo if hardware.topo.endswith("\n") else f"{hardware.topo}\n",
        "matrix": _matrix(hardware),
        "legend": hardware.matrix.legend,
    }
    for index, gpu in enumerate(topology.gpus):
        if gpu.mig_enabled and gpu.mig_instances:
            lines = sorted((_slice(topology, product, one) for one in gpu.mig_instances), key=lambda pair: pair[0])
            files[f"slices/{index}"] = "".join(line for _, line in lines)
    return files


def _slice(topology: NodeTopology, product: Product | None, one: MigInstance) -> tuple[int, str]:
    """A slice's place in the list, which is that of its GPU instance, and its line."""
    attributes = slice_attributes(topology, one.profile)
    profile = None if product is None or attributes is None else product.profile(one.profile)
    if profile is None or attributes is None or product is None:
        return one.index, _line(one.uuid, one.profile, "", str(one.index), *[""] * 9)
    size = profile.shape.memory
    instance = gpu_instance_id(product.layout.memory, size, one.index)
    return instance, _line(
        one.uuid,
        one.profile,
        str(instance),
        str(one.index),
        str(size),
        str(profile.shape.profile_id),
        _number(attributes.memory),
        _number(attributes.multiprocessors),
        *(_number(attributes.engines.get(name)) for name in _ENGINES),
    )


def _matrix(hardware: Hardware) -> str:
    matrix = hardware.matrix
    rows = [("", " ".join(matrix.labels), matrix.heading)]
    rows += [
        (label, " ".join(cells), tail)
        for label, cells, tail in zip(matrix.labels, matrix.cells, matrix.tails, strict=True)
    ]
    return "".join(f"{'|'.join(row)}\n" for row in rows)


def _product(topology: NodeTopology) -> Product | None:
    try:
        return find_product(topology.gpu_product, topology.gpu_memory)
    except ProductError:
        return None


def _name(product: str) -> str:
    """The name that the driver gives: the document has it as a label's value, which takes no blank."""
    maker = next((maker for maker in _MAKERS if product.startswith(maker)), "")
    return f"{maker[:-1]} {product[len(maker) :]}" if maker else product or UNKNOWN


def _bus_id(address: str) -> str:
    """As NVML spells it: eight digits of domain, upper case."""
    domain, _, rest = address.partition(":")
    return f"{domain.rjust(8, '0')}:{rest}".upper()


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


def _line(*fields: str) -> str:
    return "|".join(map(_field, fields)) + "\n"


def _field(text: str) -> str:
    """A text as one field: printable ASCII without the separator."""
    return "".join(char if " " <= char <= "~" and char != "|" else "?" for char in text[:MAX_FIELD])
