"""The settings file that the chart makes: one for both programs, and right for both."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest
import yaml

from nicrails.settings.loader import _key
from nicrails_broker.__main__ import main as broker
from nicrails_broker.settings import BrokerSettings, load_settings
from nicrails_observer.cli import main as observer
from nicrails_observer.settings import Settings as ObserverSettings
from tests.chart.combinations import COMBINATIONS, MAPPING, NO_GPU_SOURCE, RECORDS
from tests.chart.helm import CHART, Helm, Rendered, at, merged

pytestmark = pytest.mark.needs("helm")

INSTALLED = [name for name in COMBINATIONS if name not in {"nothing", "faker-minimal", "faker-with-other-names"}]


@pytest.mark.parametrize("name", INSTALLED)
def test_both_programs_accept_the_settings(
    rendered: Callable[[str], Rendered], name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``check-config`` of the broker and of the observer finds no fault in what the chart renders."""
    file = tmp_path / "settings.yaml"
    file.write_text(rendered(name).settings())
    assert broker(["check-config", "--config", str(file)]) == 0, capsys.readouterr().err
    assert observer(["check-config", "--config", str(file)]) == 0, capsys.readouterr().err


def test_the_chart_s_defaults_are_the_programs_own(helm: Helm) -> None:
    """A setting that nobody touches is what it would be without the chart, but for where the host's things are mounted."""
    rendered = load_settings(helm.template(RECORDS).settings())
    bare = load_settings(yaml.safe_dump({"nodeMetadata": RECORDS["nodeMetadata"]}))
    assert rendered.node_metadata == bare.node_metadata
    assert (rendered.server, rendered.logging, rendered.kubernetes) == (bare.server, bare.logging, bare.kubernetes)
    assert rendered.host.lldpctl == bare.host.lldpctl


def test_a_value_arrives_in_the_settings_as_it_was_given(helm: Helm) -> None:
    """Expressions with quotes, backslashes, dollars, colons and hashes go through the chart unchanged."""
    expressions = {"interfaceRegex": "^e'\"\\d+[:#]{1}$|%x", "railID": "${0}: #$$ 'r'"}
    values = merged(RECORDS, at(f"{MAPPING}.railSource.hostLLDP", expressions))
    settings = load_settings(helm.template(values).settings())
    source = settings.node_metadata.plugins.gpu_nic_rail_mapping.rail_source
    assert source is not None
    assert source.host_lldp.interface_regex == expressions["interfaceRegex"]
    assert source.host_lldp.rail_id == expressions["railID"]


@pytest.mark.parametrize(
    "values",
    [NO_GPU_SOURCE, at(f"{MAPPING}.gpuSource", {}), at(f"{MAPPING}.gpuSource.gpuNode", "never")],
    ids=["null", "empty", "never"],
)
def test_without_a_gpu_source_the_broker_asks_for_no_gpus(helm: Helm, values: Mapping[str, object]) -> None:
    """``gpuSource: null`` and ``gpuNode: never`` are one thing to the broker; an empty section leaves the defaults."""
    settings = load_settings(helm.template(merged(RECORDS, values)).settings())
    wanted = "auto" if values == at(f"{MAPPING}.gpuSource", {}) else "never"
    assert settings.node_metadata.plugins.gpu_nic_rail_mapping.gpu_source.gpu_node == wanted


def keys_of(kind: type, prefix: str = "") -> Iterator[str]:
    """The dotted keys of a tree of settings classes; what a program leaves to the other one is not looked into."""
    hints = typing.get_type_hints(kind)
    for field in fields(kind):
        key = prefix + _key(field)
        hint = hints[field.name]
        inner = [part for part in (hint, *typing.get_args(hint)) if isinstance(part, type) and is_dataclass(part)]
        if inner:
            yield from keys_of(inner[0], f"{key}.")
        elif hint is not typing.Any:
            yield key


def keys_in(document: object, prefix: str = "") -> Iterator[str]:
    """The dotted keys of a YAML document."""
    if isinstance(document, dict) and document:
        for name, value in document.items():
            yield from keys_in(value, f"{prefix}.{name}" if prefix else name)
    else:
        yield prefix


def test_every_setting_can_be_given_as_a_value(helm: Helm) -> None:
    """Each key of the programs' settings is a key of the values at the same place; only a kubeconfig is not for pods."""
    values = set(keys_in(yaml.safe_load((CHART / "values.yaml").read_text())))
    settings = {*keys_of(BrokerSettings), *keys_of(ObserverSettings)}
    assert settings - values == {"kubernetes.kubeconfig"}
    named = at(MAPPING, {"observerDeployment": "a", "gpuSource": {"container": "b"}})
    file = yaml.safe_load(helm.template(merged(RECORDS, named)).settings())
    assert set(keys_in(file)) == settings - {"kubernetes.kubeconfig"}
