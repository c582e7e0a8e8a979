from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import pytest

from nicrails_faker.mig import MigInstance, NodeTopology, Strategy, advertised_resources, parse_request, plan
from nicrails_faker.mig.labels import feature_labels, is_feature_label, label_value

_A100 = "NVIDIA A100-SXM4-40GB"
_WHOLE = {
    "run.ai/fake.gpu": "true",
    "nvidia.com/gpu.present": "true",
    "nvidia.com/mig.capable": "true",
    "nvidia.com/gpu.count": "2",
    "nvidia.com/gpu.memory": "40960",
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB",
    "nvidia.com/gpu.replicas": "1",
    "nvidia.com/gpu.sharing-strategy": "none",
}
_ONE_5GB = {
    "count": "7",
    "product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb",
    "replicas": "1",
    "sharing-strategy": "none",
    "memory": "4864",
    "multiprocessors": "14",
    "slices.gi": "1",
    "slices.ci": "1",
    "engines.copy": "1",
    "engines.decoder": "0",
    "engines.encoder": "0",
    "engines.jpeg": "0",
    "engines.ofa": "0",
}


def _node(strategy: str, *gpus: str, product: str = _A100, memory: int = 40960, count: int = 2) -> NodeTopology:
    """A Node whose first GPUs are cut into these slices, written ``7 x 1g.5gb`` and joined by ``, ``."""
    node = NodeTopology.create("n", gpu_product=product, gpu_count=count, gpu_memory=memory, mig_strategy=strategy)
    entries = []
    for index, slices in enumerate(gpus):
        devices = ", ".join(
            f'"{name}": {number}' for number, name in (one.split(" x ") for one in slices.split(", ") if one)
        )
        entries.append(f"  - {{devices: [{index}], mig-enabled: true, mig-devices: {{{devices}}}}}\n")
    return plan(node, parse_request("version: v1\nmig-configs:\n  it:\n" + "".join(entries))) if entries else node


def _prefixed(prefix: str, labels: Mapping[str, str]) -> dict[str, str]:
    return {f"{prefix}.{key}": value for key, value in labels.items()}


def test_whole_gpus() -> None:
    """Whole GPUs have the labels of GPU Feature Discovery, and a strategy's only where there is one."""
    assert feature_labels(_node("none")) == _WHOLE
    assert feature_labels(_node("")) == _WHOLE
    assert feature_labels(_node("unknown")) == _WHOLE
    assert feature_labels(_node("Single")) == _WHOLE | {"nvidia.com/mig.strategy": "single"}
    assert feature_labels(_node("mixed")) == _WHOLE | {"nvidia.com/mig.strategy": "mixed"}


def test_mixed_has_labels_for_each_profile() -> None:
    """With ``mixed`` each profile has its own labels; the GPUs' own count the physical ones."""
    labels = feature_labels(_node("mixed", "7 x 1g.5gb"))
    assert labels == _WHOLE | {"nvidia.com/mig.strategy": "mixed"} | _prefixed("nvidia.com/mig-1g.5gb", _ONE_5GB)
    labels = feature_labels(_node("mixed", "1 x 1g.5gb+me, 1 x 2g.10gb", "1 x 2g.10gb"))
    assert labels["nvidia.com/mig-1g.5gb.me.product"] == "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb.me"
    assert labels["nvidia.com/mig-1g.5gb.me.engines.ofa"] == "1"
    assert labels["nvidia.com/mig-2g.10gb.count"] == "2"
    assert (labels["nvidia.com/mig-2g.10gb.memory"], labels["nvidia.com/mig-2g.10gb.multiprocessors"]) == ("9856", "28")
    assert (labels["nvidia.com/gpu.count"], labels["nvidia.com/gpu.replicas"]) == ("2", "0")


def test_single_makes_slices_look_like_gpus() -> None:
    """With ``single`` and slices that are alike the labels of the GPUs are those of the slices."""
    labels = feature_labels(_node("single", "7 x 1g.5gb", "7 x 1g.5gb"))
    assert labels == {
        "run.ai/fake.gpu": "true",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/mig.capable": "true",
        "nvidia.com/mig.strategy": "single",
    } | _prefixed("nvidia.com/gpu", _ONE_5GB | {"count": "14"})


@pytest.mark.parametrize("gpus", [("7 x 1g.5gb",), ("7 x 1g.5gb", ""), ("7 x 1g.5gb", "3 x 2g.10gb"), ("", "")])
def test_single_on_a_node_that_nvidia_refuses(gpus: tuple[str, ...]) -> None:
    """Where NVIDIA's plugin refuses ``single`` the strict labels say INVALID, and the others the number advertised."""
    node = _node("single", *gpus)
    strict = feature_labels(node, strict=True)
    assert strict["nvidia.com/gpu.product"] == "NVIDIA-A100-SXM4-40GB-MIG-INVALID"
    assert {strict[f"nvidia.com/gpu.{key}"] for key in ("count", "replicas", "memory")} == {"0"}
    assert strict["nvidia.com/gpu.sharing-strategy"] == ""
    labels = feature_labels(node)
    assert labels["nvidia.com/gpu.count"] == str(len(advertised_resources(node)["nvidia.com/gpu"]))
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-A100-SXM4-40GB"


def test_none_ignores_slices() -> None:
    """With ``none`` slices have no labels; only the replicas tell, as in GPU Feature Discovery."""
    assert feature_labels(_node("none", "7 x 1g.5gb")) == _WHOLE
    assert feature_labels(_node("none", "7 x 1g.5gb", "")) == _WHOLE | {"nvidia.com/gpu.replicas": "0"}


def test_products() -> None:
    """What is known of a product's slices is told, what is not known is left out."""
    h100 = feature_labels(_node("mixed", "1 x 3g.40gb", product="NVIDIA H100 80GB HBM3", memory=81559))
    assert h100["nvidia.com/mig-3g.40gb.memory"] == "40448"
    assert h100["nvidia.com/mig-3g.40gb.multiprocessors"] == "60"
    h200 = feature_labels(_node("mixed", "1 x 3g.71gb", product="NVIDIA H200", memory=143771))
    assert h200["nvidia.com/mig-3g.71gb.memory"] == "71885", "half of the GPU's, since its own is not known"
    assert h200["nvidia.com/mig-3g.71gb.engines.jpeg"] == "3"
    b200 = feature_labels(_node("mixed", "1 x 7g.180gb", product="NVIDIA B200", memory=0))
    assert b200["nvidia.com/mig-7g.180gb.engines.copy"] == "16"
    assert not {f"nvidia.com/mig-7g.180gb.{key}" for key in ("memory", "multiprocessors", "engines.ofa")} & b200.keys()
    assert "nvidia.com/gpu.memory" not in b200
    a30 = feature_labels(_node("mixed", "1 x 2g.12gb+me", product="NVIDIA A30", memory=24576))
    assert a30["nvidia.com/mig-2g.12gb.me.slices.gi"] == "2"
    assert a30["nvidia.com/mig-2g.12gb.me.memory"] == "12288"
    t4 = feature_labels(_node("mixed", product="Tesla T4"))
    assert (t4["nvidia.com/mig.capable"], t4["nvidia.com/gpu.product"]) == ("false", "Tesla-T4")


def test_without_gpus() -> None:
    """A Node without GPUs is fake, and that is all."""
    assert feature_labels(_node("none", count=0)) == {"run.ai/fake.gpu": "true", "nvidia.com/mig.capable": "true"}


@pytest.mark.parametrize("strategy", list(Strategy))
def test_every_label_is_one_and_can_be_one(strategy: Strategy) -> None:
    """Every label that is given is recognized as such, and the API server takes key and value, whatever stands there."""
    odd = _node(strategy, "7 x 1g.5gb")
    made_up = [MigInstance(profile=name, index=0, uuid="MIG-x") for name in ("x" * 80, "x\n+\u202e", "", "+")]
    for node in (
        odd,
        replace(odd, gpu_product="a" * 62 + ". ∆ b"),
        replace(odd, gpu_product="\x00"),
        *(replace(odd, gpus=(replace(odd.gpus[0], mig_instances=(one,)), odd.gpus[1])) for one in made_up),
    ):
        for strict in (False, True):
            for key, value in feature_labels(node, strict=strict).items():
                assert is_feature_label(key), key
                assert re.fullmatch(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?", value), value
                assert re.fullmatch(r"[a-z.]+/[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", key), key


@pytest.mark.parametrize(
    "key",
    [
        "nvidia.com/mig.config.state",
        "nvidia.com/mig.config",
        "nvidia.com/gpu.deploy.device-plugin",
        "nvidia.com/gpu.family",
        "nvidia.com/mig-parted.foo",
        "node-role.kubernetes.io/runai-dynamic-mig",
        "run.ai/simulated-gpu-node-pool",
    ],
)
def test_labels_of_others_are_none(key: str) -> None:
    """Labels that somebody else gives are not taken for these, so they are never removed."""
    assert not is_feature_label(key)


def test_label_values_are_made_as_gpu_feature_discovery_makes_them() -> None:
    """Spaces become dashes, what can not be in a value is left out, and it ends where a value has to."""
    assert label_value("NVIDIA A100-SXM4-40GB") == "NVIDIA-A100-SXM4-40GB"
    assert label_value("NVIDIA  (R)  A100", "MIG", "1g.5gb") == "NVIDIA-R-A100-MIG-1g.5gb"
    assert label_value("x" * 62 + "-y") == "x" * 62
    assert label_value("", "") == ""
