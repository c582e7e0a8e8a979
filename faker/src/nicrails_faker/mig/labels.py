"""The labels that GPU Feature Discovery gives a Node with these GPUs and slices.

Source: NVIDIA's k8s-device-plugin, ``internal/lm`` (``mig-strategy.go``, ``resource.go``). Which labels there are and what
they say follows it, also where it surprises: ``nvidia.com/gpu.count`` counts the physical GPUs, cut or not, except with
the strategy ``single``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from nicrails_faker.mig.advertised import GPU_RESOURCE, Strategy, advertised_resources, refusals, strategy_of
from nicrails_faker.mig.attributes import slice_attributes
from nicrails_faker.mig.errors import ProductError
from nicrails_faker.mig.products import find_product
from nicrails_faker.mig.profiles import resource_name
from nicrails_faker.mig.topology import NodeTopology

FAKE_LABEL = "run.ai/fake.gpu"
PRESENT_LABEL = "nvidia.com/gpu.present"
CAPABLE_LABEL = "nvidia.com/mig.capable"
STRATEGY_LABEL = "nvidia.com/mig.strategy"
STATE_LABEL = "nvidia.com/mig.config.state"
"""Not one of these labels: it is the state of a request, not of the GPUs."""

MAX_VALUE = 63

_KEY = re.compile(r"[a-z.]+/[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)
_SUFFIXES = ("count", "product", "replicas", "sharing-strategy", "memory", "multiprocessors")
_ATTRIBUTES = ("slices.gi", "slices.ci", *(f"engines.{name}" for name in ("copy", "decoder", "encoder", "jpeg", "ofa")))
_MIG = re.compile(r"nvidia\.com/mig-.*\.(?:" + "|".join(map(re.escape, (*_SUFFIXES, *_ATTRIBUTES))) + r")")
_GPU = frozenset(f"{GPU_RESOURCE}.{suffix}" for suffix in (*_SUFFIXES, *_ATTRIBUTES))
_ALWAYS = frozenset({FAKE_LABEL, PRESENT_LABEL, CAPABLE_LABEL, STRATEGY_LABEL})


def feature_labels(topology: NodeTopology, *, strict: bool = False) -> dict[str, str]:
    """The labels of a Node.

    Args:
        topology: What the Node has.
        strict: The Node advertises what NVIDIA's plugin would (see ``advertised_resources``), and its labels say so.

    Returns:
        Values by label; no label that is not here holds for the Node (see :func:`is_feature_label`).
    """
    labels = {FAKE_LABEL: "true", CAPABLE_LABEL: "true" if _is_capable(topology) else "false"}
    strategy = strategy_of(topology)
    if strategy is not Strategy.NONE:
        labels[STRATEGY_LABEL] = strategy.value
    if not topology.gpus:
        return labels
    labels[PRESENT_LABEL] = "true"
    labels |= _whole(topology)
    slices = Counter(one.profile for gpu in topology.gpus if gpu.mig_enabled for one in gpu.mig_instances)
    if strategy is Strategy.MIXED:
        for profile, count in sorted(slices.items()):
            labels |= _sliced(resource_name(profile), topology, profile, count)
    elif strategy is Strategy.SINGLE and any(gpu.mig_enabled for gpu in topology.gpus):
        labels |= _single(topology, slices, strict=strict)
    # A profile that somebody made up may give a name that no label can have; the API server would refuse all of them.
    return {key: value for key, value in labels.items() if _KEY.fullmatch(key)}


def is_feature_label(key: str) -> bool:
    """Whether a label is one of those that :func:`feature_labels` gives, so that one that no longer holds can go."""
    return key in _ALWAYS or key in _GPU or _MIG.fullmatch(key) is not None


def _single(topology: NodeTopology, slices: Mapping[str, int], *, strict: bool) -> Mapping[str, str]:
    if not refusals(topology):
        ((profile, count),) = slices.items()
        return _sliced(GPU_RESOURCE, topology, profile, count)
    if strict:
        return {
            f"{GPU_RESOURCE}.product": label_value(topology.gpu_product, "MIG", "INVALID"),
            f"{GPU_RESOURCE}.count": "0",
            f"{GPU_RESOURCE}.replicas": "0",
            f"{GPU_RESOURCE}.memory": "0",
            f"{GPU_RESOURCE}.sharing-strategy": "",
        }
    # NVIDIA's stack knows no such Node. The count agrees with what is advertised.
    return {
        f"{GPU_RESOURCE}.count": str(len(advertised_resources(topology)[GPU_RESOURCE])),
        f"{GPU_RESOURCE}.replicas": "1",
    }


def _whole(topology: NodeTopology) -> Mapping[str, str]:
    labels = {
        f"{GPU_RESOURCE}.count": str(len(topology.gpus)),
        f"{GPU_RESOURCE}.replicas": "0" if all(gpu.mig_enabled for gpu in topology.gpus) else "1",
        f"{GPU_RESOURCE}.sharing-strategy": "none",
    }
    if product := label_value(topology.gpu_product):
        labels[f"{GPU_RESOURCE}.product"] = product
    if topology.gpu_memory:
        labels[f"{GPU_RESOURCE}.memory"] = str(topology.gpu_memory)
    return labels


def _sliced(resource: str, topology: NodeTopology, profile: str, count: int) -> Mapping[str, str]:
    labels = {
        f"{resource}.count": str(count),
        f"{resource}.product": label_value(topology.gpu_product, "MIG", profile.replace("+", ".")),
        f"{resource}.replicas": "1",
        f"{resource}.sharing-strategy": "none",
    }
    known = slice_attributes(topology, profile)
    if known is None:
        return labels
    numbers = {
        "memory": known.memory,
        "multiprocessors": known.multiprocessors,
        "slices.gi": known.compute,
        "slices.ci": known.compute,
    } | {f"engines.{name}": number for name, number in known.engines.items()}
    return labels | {f"{resource}.{name}": str(number) for name, number in numbers.items() if number is not None}


def label_value(*parts: str) -> str:
    """The parts as GPU Feature Discovery makes a label's value of them, cut to what a value may be.

    Words are joined by ``-``; characters that a value can not have are left out.
    """
    words = ["-".join(re.sub(r"[^A-Za-z0-9_. -]", "", part.replace("\t", " ")).split()) for part in parts]
    return "-".join(filter(None, words))[:MAX_VALUE].strip("-_.")


def _is_capable(topology: NodeTopology) -> bool:
    try:
        find_product(topology.gpu_product, topology.gpu_memory)
    except ProductError:
        return False
    return True
