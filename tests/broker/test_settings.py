"""The broker's settings file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nicrails.settings import SettingsError
from nicrails_broker.settings import Identity, load_settings, read_identity, read_settings, with_overrides

EXAMPLE = r"""
nodeMetadata:
  plugins:
    gpuNicRailMapping:
      enabled: true
      configMapName: topograph-nic-rails
      railSource:
        name: host-lldp
        hostLLDP:
          interfaceRegex: '^eth_r([0-9]+)_p[0-9]+$'
          railID: 'rail$1'
      gpuSource:
        gpuOperatorNamespace: gpu-operator
        daemonSet: nvidia-device-plugin-daemonset
"""


def faults(document: str) -> list[str]:
    """All faults of a document."""
    with pytest.raises(SettingsError) as caught:
        load_settings(document)
    return [str(fault) for fault in caught.value.faults]


def lldp(regex: str, rail: str) -> str:
    """A document with this rule."""
    return (
        "nodeMetadata: {plugins: {gpuNicRailMapping: {railSource: {hostLLDP: "
        f"{{interfaceRegex: '{regex}', railID: '{rail}'}}}}}}}}}}"
    )


def test_the_documented_example_is_good() -> None:
    """The example of the documentation loads, with the documented defaults for all that it leaves out."""
    settings = load_settings(EXAMPLE)
    mapping = settings.node_metadata.plugins.gpu_nic_rail_mapping
    assert mapping.rail_source is not None
    assert mapping.rail_source.host_lldp.rail_id == "rail$1"
    waits = (mapping.refresh_interval, mapping.verify_interval, mapping.start_jitter)
    assert [float(wait) for wait in waits] == [300, 60, 10]
    assert (mapping.observer_deployment, mapping.gpu_source.gpu_node) == ("nicrails-observer", "auto")
    assert (settings.host.sysfs_root, settings.host.lldpctl, settings.server.port) == ("/sys", "lldpctl", 8080)
    assert settings.node_metadata.provider.name == "none"


def test_all_faults_are_told_at_once() -> None:
    """Every fault of a file is told with its dotted path: unknown keys, wrong types, ranges, names and expressions."""
    found = faults(
        """
        nodeMetadata:
          provider: {name: ipmi}
          plugins:
            gpuNicRailMapping:
              enabled: "yes"
              configMapName: Not_A_Name
              refreshIntervall: 5m
              verifyInterval: 10ms
              railSource:
                name: host-lldp
                hostLLDP: {interfaceRegex: '(?=x)', railID: ''}
              gpuSource: {gpuOperatorNamespace: a.b, gpuNode: perhaps, timeout: 1h}
        server: {port: 70000}
        logging: {level: loud}
        hostt: {}
        """
    )
    assert [fault.split(":")[0] for fault in found] == [
        "nodeMetadata.plugins.gpuNicRailMapping.enabled",
        "nodeMetadata.plugins.gpuNicRailMapping.configMapName",
        "nodeMetadata.plugins.gpuNicRailMapping.verifyInterval",
        "nodeMetadata.plugins.gpuNicRailMapping.railSource.hostLLDP.interfaceRegex",
        "nodeMetadata.plugins.gpuNicRailMapping.railSource.hostLLDP.railID",
        "nodeMetadata.plugins.gpuNicRailMapping.gpuSource.gpuOperatorNamespace",
        "nodeMetadata.plugins.gpuNicRailMapping.gpuSource.gpuNode",
        "nodeMetadata.plugins.gpuNicRailMapping.gpuSource.timeout",
        "nodeMetadata.plugins.gpuNicRailMapping.refreshIntervall",
        "nodeMetadata.provider.name",
        "server.port",
        "logging.level",
        "hostt",
    ]


def test_xplane_is_refused_with_the_reason() -> None:
    """The known name ``xplane`` is refused, and the sentence says what is missing for it."""
    (fault,) = faults(EXAMPLE.replace("host-lldp", "xplane"))
    assert fault.startswith("nodeMetadata.plugins.gpuNicRailMapping.railSource.name: xplane is not supported yet")
    assert all(word in fault for word in ("API", "transport", "authentication", "host PCI mapping"))


def test_an_unknown_rail_source_is_refused_with_the_known_ones() -> None:
    """A name that no source has is refused, and the sentence lists those that there are."""
    (fault,) = faults(EXAMPLE.replace("host-lldp", "lldp"))
    assert "expected one of host-lldp, found 'lldp'" in fault


@pytest.mark.parametrize("regex", ["(", "a(?!b)", r"(a)\1", "(?<=a)b", "a{2000}"])
def test_an_expression_that_re2_refuses_is_a_fault(regex: str) -> None:
    """Look-around, back-references and broken expressions are faults of interfaceRegex."""
    (fault,) = faults(lldp(regex, "rail0"))
    assert re.match(r"nodeMetadata\.plugins\.gpuNicRailMapping\.railSource\.hostLLDP\.interfaceRegex: .*RE2", fault)


@pytest.mark.parametrize(("regex", "rail"), [("eth(.)", "$2"), ("eth(?P<n>.)", "${m}"), ("eth", "$1"), ("(a)", "$1x")])
def test_a_rail_id_that_can_only_be_empty_is_a_fault(regex: str, rail: str) -> None:
    """A template that names only groups which the expression has not is refused before it fails on a Node."""
    (fault,) = faults(lldp(regex, rail))
    assert "always empty" in fault
    assert fault.startswith("nodeMetadata.plugins.gpuNicRailMapping.railSource.hostLLDP: railID")


@pytest.mark.parametrize(
    ("regex", "rail"), [("eth(.)?", "$1"), ("eth", "$0"), ("e(?P<n>.)", "$n"), ("e", "r$9"), ("e", "$$")]
)
def test_a_rail_id_that_can_be_something_is_none(regex: str, rail: str) -> None:
    """A template that may expand to something is accepted."""
    load_settings(lldp(regex, rail))


@pytest.mark.parametrize(
    "document",
    [
        "",
        "nodeMetadata:",
        "nodeMetadata: {plugins: {gpuNicRailMapping: {enabled: true}}}",
        "nodeMetadata: {plugins: {gpuNicRailMapping: {railSource: null}}}",
    ],
)
def test_an_enabled_mapping_needs_a_rail_source(document: str) -> None:
    """The rail source has no default, and its absence is told with its path."""
    (fault,) = faults(document)
    assert fault.startswith("nodeMetadata.plugins.gpuNicRailMapping.railSource: missing")


def test_a_missing_rail_source_is_told_with_the_other_faults() -> None:
    """The absence of the rail source is not hidden by other faults."""
    assert len(faults("foo: 1\nserver: {port: x}\n")) == 3


def test_a_disabled_mapping_needs_none() -> None:
    """Who only wants annotations needs no rail source."""
    settings = load_settings("nodeMetadata: {provider: {name: lldp}, plugins: {gpuNicRailMapping: {enabled: false}}}")
    assert settings.node_metadata.provider.lldp.interface_regex == ".*"


def test_the_observers_section_is_let_through() -> None:
    """Both services may be given the same file."""
    load_settings(EXAMPLE + "observer: {anything: [1, 2], brake: {x: y}}\n")


def test_a_file_that_can_not_be_read_is_a_fault(tmp_path: Path) -> None:
    """A missing file, a folder and bytes that are no text are told as faults of the file."""
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    for path, problem in ((tmp_path / "none", "No such file"), (tmp_path, "Is a directory"), (binary, "not UTF-8")):
        with pytest.raises(SettingsError, match=problem):
            read_settings(path)


def test_the_environment_says_where_the_broker_runs() -> None:
    """The Node's name and the namespace come from the environment."""
    environ = {"NODE_NAME": "gpu-1.example", "POD_NAMESPACE": "nicrails"}
    assert read_identity(environ) == Identity(node="gpu-1.example", namespace="nicrails")


def test_all_faults_of_the_environment_are_told_at_once() -> None:
    """Missing and impossible variables are all told, with where the pod gets them from."""
    with pytest.raises(SettingsError) as caught:
        read_identity({"POD_NAMESPACE": "../x"})
    node, namespace = map(str, caught.value.faults)
    assert "NODE_NAME" in node
    assert "spec.nodeName" in node
    assert "POD_NAMESPACE" in namespace


def test_the_command_line_goes_before_the_file() -> None:
    """``--kubeconfig`` and ``--sysfs-root`` replace what the file says."""
    settings = with_overrides(load_settings(EXAMPLE), kubeconfig="/k", sysfs_root="/s")
    assert (settings.kubernetes.kubeconfig, settings.host.sysfs_root) == ("/k", "/s")
    assert with_overrides(settings) == settings
