from __future__ import annotations

from dataclasses import fields

import pytest

from nicrails.settings import SettingsError, load
from nicrails_broker import settings as broker
from nicrails_broker.settings import BrokerSettings
from nicrails_observer.settings import (
    Identity,
    NodeMetadataSettings,
    PluginsSettings,
    RailMappingSettings,
    Settings,
    identity,
)

SHARED = """
nodeMetadata:
  provider: lldp
  plugins:
    gpuNicRailMapping:
      enabled: true
      configMapName: rails
      refreshInterval: 5m
      observerDeployment: nicrails-observer
      railSource: {name: host-lldp, hostLLDP: {interfaceRegex: '^eth', railID: 'rail$1'}}
      gpuSource: {gpuOperatorNamespace: gpu-operator, daemonSet: plugin}
host: {sysfsRoot: /host/sys}
server: {port: 9000}
logging: {level: debug}
observer: {checkInterval: 5s, brake: {fraction: 0.25, minimum: 3, delay: 1m}}
"""


def test_takes_the_file_that_brokers_use() -> None:
    """The observer reads its own keys in the file that it shares with the brokers, and leaves theirs alone."""
    settings = load(SHARED, Settings)
    assert (settings.mapping.enabled, settings.mapping.config_map_name) == (True, "rails")
    assert (settings.server.port, settings.logging.level) == (9000, "debug")
    assert float(settings.observer.check_interval) == 5
    brake = settings.observer.brake
    assert (brake.fraction, brake.minimum, float(brake.delay)) == (0.25, 3, 60)


@pytest.mark.parametrize("text", ["", "{}", "observer:", "nodeMetadata: {plugins: {gpuNicRailMapping: }}"])
def test_everything_has_a_default(text: str) -> None:
    """An empty file is a good one; a ConfigMap that was deleted by hand is back within a minute by default."""
    settings = load(text, Settings)
    assert settings.mapping.config_map_name == "topograph-nic-rails"
    assert settings.observer.check_interval <= 45
    assert settings.observer.brake.fraction == 0.5


def test_knows_every_key_of_the_brokers() -> None:
    """Both services can be given one file: no key of a broker is unknown to the observer, nor the other way round."""
    for theirs, ours in (
        (BrokerSettings, Settings),
        (broker.NodeMetadataSettings, NodeMetadataSettings),
        (broker.PluginsSettings, PluginsSettings),
        (broker.RailMappingSettings, RailMappingSettings),
    ):
        assert {field.name for field in fields(theirs)} == {field.name for field in fields(ours)}


def test_lists_all_faults_with_their_paths() -> None:
    """Every fault is told at once, unknown keys included, each with its dotted path."""
    text = """
nodeMetadata: {plugins: {gpuNicRailMapping: {configMapName: Rails, enabled: 1, railsource: {}}}}
observer: {batchSize: 0, checkInterval: 2m, fullInterval: 0, brake: {fraction: 1.5, minimum: -1, delay: soon}}
server: {port: 70000}
"""
    with pytest.raises(SettingsError) as caught:
        load(text, Settings)
    mapping = "nodeMetadata.plugins.gpuNicRailMapping"
    assert {fault.path for fault in caught.value.faults} == {
        f"{mapping}.configMapName",
        f"{mapping}.enabled",
        f"{mapping}.railsource",
        "observer.batchSize",
        "observer.checkInterval",
        "observer.fullInterval",
        "observer.brake.fraction",
        "observer.brake.minimum",
        "observer.brake.delay",
        "server.port",
    }


def test_the_environment_names_the_deployment() -> None:
    """Namespace and Deployment come from the environment; the Deployment's name has a default."""
    assert identity({"POD_NAMESPACE": "ns"}) == Identity(namespace="ns", deployment="nicrails-observer")
    assert identity({"POD_NAMESPACE": "ns", "DEPLOYMENT_NAME": "x"}) == Identity(namespace="ns", deployment="x")


@pytest.mark.parametrize(
    ("environ", "expected", "paths"),
    [
        ({}, None, ["POD_NAMESPACE"]),
        ({"POD_NAMESPACE": "A"}, None, ["POD_NAMESPACE"]),
        ({"DEPLOYMENT_NAME": "A/b"}, None, ["POD_NAMESPACE", "DEPLOYMENT_NAME"]),
        ({"POD_NAMESPACE": "ns"}, "other", ["DEPLOYMENT_NAME"]),
    ],
)
def test_tells_all_faults_of_the_environment(environ: dict[str, str], expected: str | None, paths: list[str]) -> None:
    """A missing or impossible name is told, and a Deployment that brokers would not take the ConfigMap of."""
    faults = identity(environ, expected)
    assert not isinstance(faults, Identity)
    assert [fault.path for fault in faults] == paths
