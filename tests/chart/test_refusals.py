"""Values that the chart refuses, and the words it does so with."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from nicrails_broker.settings import REFUSED_RAIL_SOURCES
from tests.chart.combinations import ANNOTATIONS, FAKER, FAKERS, MAPPING, NO_GPU_SOURCE, RECORDS
from tests.chart.helm import CHART, Helm, Json, at, merged

pytestmark = pytest.mark.needs("helm")

NO_SCHEMA = "--skip-schema-validation"
LLDP = f"{MAPPING}.railSource.hostLLDP"


def slashes(path: str) -> str:
    """A dotted path as the schema's messages have it."""
    return "/" + path.replace(".", "/")


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("bogus", 1, ["additional properties 'bogus' not allowed"]),
        ("broker.image.version", "1", ["'/broker/image'", "additional properties 'version' not allowed"]),
        ("broker.tolerations", [{"key": "a", "operater": "Exists"}], ["additional properties 'operater' not allowed"]),
        ("observer.configMapName", "a", ["'/observer'", "additional properties 'configMapName' not allowed"]),
        (f"{MAPPING}.refreshIntervall", "5m", ["additional properties 'refreshIntervall' not allowed"]),
        (f"{MAPPING}.enabled", "yes please", [slashes(f"{MAPPING}.enabled"), "got string, want boolean"]),
        (f"{MAPPING}.refreshInterval", "5 minutes", [slashes(f"{MAPPING}.refreshInterval"), "does not match pattern"]),
        (f"{MAPPING}.verifyInterval", 0, [slashes(f"{MAPPING}.verifyInterval"), "exclusiveMinimum"]),
        (f"{MAPPING}.configMapName", "Rails_", [slashes(f"{MAPPING}.configMapName"), "does not match pattern"]),
        (f"{MAPPING}.railSource", None, [slashes(MAPPING), "missing property 'railSource'"]),
        (f"{MAPPING}.railSource.name", "", ["value must be 'host-lldp, for enabled: true needs a source of rails'"]),
        (f"{MAPPING}.railSource.name", "lldp", [slashes(f"{MAPPING}.railSource.name"), "'host-lldp'"]),
        (f"{MAPPING}.railSource.name", "xplane", ["xplane is not supported yet", "no supported API, transport, auth"]),
        (f"{MAPPING}.railSource.hostLLDP", None, ["missing property 'hostLLDP'"]),
        (f"{LLDP}.interfaceRegex", "", [slashes(f"{LLDP}.interfaceRegex"), "minLength: got 0, want 1"]),
        (f"{LLDP}.railID", "", [slashes(f"{LLDP}.railID"), "minLength: got 0, want 1"]),
        (f"{LLDP}.interfaceRegex", "eth(?=_r)", [slashes(f"{LLDP}.interfaceRegex"), "RE2", "no look-around"]),
        (f"{LLDP}.interfaceRegex", "(?<!a)eth", ["RE2", "no look-around"]),
        (f"{LLDP}.interfaceRegex", r"(e)\1", ["RE2", "no back-references"]),
        (f"{LLDP}.interfaceRegex", "eth_(r", ["railSource.hostLLDP", "missing closing ): `eth_(r`"]),
        (f"{LLDP}.interfaceRegex", "eth_[r", ["railSource.hostLLDP", "missing closing ]: `[r`"]),
        (f"{LLDP}.interfaceRegex", "a**", ["railSource.hostLLDP", "invalid nested repetition operator"]),
        (f"{LLDP}.interfaceRegex", r"\k<x>", ["railSource.hostLLDP", "invalid escape sequence"]),
        ("nodeMetadata.provider.name", "xplane", ["'/nodeMetadata/provider/name'", "'none', 'lldp'"]),
        ("broker.lldpdGroup", 0, ["'/broker/lldpdGroup'", "minimum"]),
        ("broker.updateStrategy.maxUnavailable", 0, ["'/broker/updateStrategy/maxUnavailable'"]),
        ("broker.updateStrategy.maxUnavailable", "0%", ["'/broker/updateStrategy/maxUnavailable'"]),
        ("broker.hostPaths.lldpd", "run/lldpd", ["'/broker/hostPaths/lldpd'", "does not match pattern"]),
        ("broker.hostPaths.lldpd", "/run", ["/run also holds the container runtime's socket", "broker.lldpdGroup"]),
        ("broker.hostPaths.lldpd", "/var/run/", ["/var/run also holds the container runtime's socket"]),
        ("host.sysfsRoot", "/sys", ["host.sysfsRoot: /sys is the container's own"]),
        ("host.lldpdSocket", "/lldpd.socket", ["'/host/lldpdSocket'"]),
        (
            "host.lldpdSocket",
            "/host/sys/lldpd.socket",
            ["host.lldpdSocket: its folder /host/sys needs a place of its own"],
        ),
        (f"{MAPPING}.configMapName", "nicrails-settings", ["nicrails-settings is the ConfigMap of the settings"]),
        ("server.port", 80, ["'/server/port'", "minimum: got 80, want 1,024"]),
        ("logging.level", "verbose", ["'/logging/level'", "'debug', 'info', 'warning', 'error'"]),
        ("observer.batchSize", 5000, ["'/observer/batchSize'", "maximum"]),
        ("observer.brake.fraction", 1.5, ["'/observer/brake/fraction'", "maximum"]),
        ("faker.topolgy", {}, ["'/faker'", "additional properties 'topolgy' not allowed"]),
        ("faker.mig.strategy", "single", ["'/faker/mig'", "additional properties 'strategy' not allowed"]),
        ("faker.topology.migStrategy", "both", ["'/faker/topology/migStrategy'", "'none', 'single', 'mixed'"]),
        ("faker.topology.nodePools", {"a": 2}, ["'/faker/topology/nodePools/a'", "got number, want object"]),
        ("faker.topology.nodePoolLabelKey", "a b", ["'/faker/topology/nodePoolLabelKey'", "does not match pattern"]),
        (
            "faker.devicePlugin.hostDirectory",
            "fakes",
            ["'/faker/devicePlugin/hostDirectory'", "does not match pattern"],
        ),
        ("faker.mig.onChange", "reload", ["'/faker/mig/onChange'", "'follow', 'restart'"]),
        ("faker.mig.takenWithin", "1m", ["'/faker/mig/takenWithin'", "does not match pattern"]),
        ("faker.fakeNodes.label", "fake", ["'/faker/fakeNodes/label'", "does not match pattern"]),
        ("nodeMetadata.provider", None, ["'/nodeMetadata'", "missing property 'provider'"]),
    ],
)
def test_a_refusal_names_the_key_and_what_is_wrong(helm: Helm, path: str, value: object, words: list[str]) -> None:
    """A wrong value is refused before anything is sent, with its place and what was expected."""
    refusal = helm.refusal(merged(RECORDS, at(path, value)))
    for word in words:
        assert word in refusal


@pytest.mark.parametrize("options", [[], [NO_SCHEMA]], ids=["with-schema", "without-schema"])
def test_a_faker_of_nothing_is_refused(helm: Helm, options: list[str]) -> None:
    """The faker stands in for a GPU Operator, so without a GPU source it is refused, with what to set."""
    refusal = helm.refusal(merged(RECORDS, FAKER, NO_GPU_SOURCE), *options)
    assert "faker.enabled is true, but there is no GPU Operator to stand in for" in refusal
    assert f"set {MAPPING}.gpuSource" in refusal


def test_enabling_alone_is_refused(helm: Helm) -> None:
    """``enabled: true`` without a source of rails is refused, with all three keys that are missing."""
    refusal = helm.refusal(at(f"{MAPPING}.enabled", value=True))
    assert "needs a source of rails" in refusal
    assert slashes(f"{LLDP}.interfaceRegex") in refusal
    assert slashes(f"{LLDP}.railID") in refusal


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (at(f"{MAPPING}.railSource.name", "xplane"), REFUSED_RAIL_SOURCES["xplane"]),
        (at(f"{MAPPING}.railSource", None), "there is no source of rails: set railSource.name to host-lldp"),
        (at(f"{MAPPING}.railSource.name", ""), "there is no source of rails: set railSource.name to host-lldp"),
        (at(f"{MAPPING}.railSource.name", "lldp"), 'expected host-lldp, found "lldp"'),
        (at(LLDP, None), "interfaceRegex and railID must be set"),
        (at(f"{LLDP}.interfaceRegex", "a(?=b)"), "invalid or unsupported Perl syntax: `(?=`"),
    ],
)
def test_without_the_schema_the_templates_refuse(helm: Helm, values: Mapping[str, Any], words: str) -> None:
    """Who skips the schema gets the same refusals from the templates; xplane's reason is the broker's own sentence."""
    assert words in helm.refusal(merged(RECORDS, values), NO_SCHEMA)


def test_xplane_is_refused_where_nothing_is_enabled(helm: Helm) -> None:
    """The name is refused also while the records are off, so that it does not come as a surprise later."""
    assert "xplane is not supported yet" in helm.refusal(at(f"{MAPPING}.railSource.name", "xplane"))


def test_the_provider_s_expression_is_read_too(helm: Helm) -> None:
    """The provider's expression is judged by RE2 as the rails' is."""
    values = merged(ANNOTATIONS, at("nodeMetadata.provider.lldp.interfaceRegex", "a("))
    assert "provider.lldp" in helm.refusal(values)


@pytest.mark.parametrize("expression", [r"eth\(?=x", r"\\\\1", r"a\\1", "(?:a)(?P<n>b)(?i)", "[(]?=", r"\pL\d"])
def test_no_good_expression_is_refused(helm: Helm, expression: str) -> None:
    """What looks like look-around or a back-reference and is none is accepted."""
    helm.template(merged(RECORDS, at(f"{LLDP}.interfaceRegex", expression)))


def objects(schema: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    """Every schema of an object with its place."""
    if schema.get("type") == "object":
        yield path, schema
    for key in ("properties", "$defs"):
        for name, below in schema.get(key, {}).items():
            yield from objects(below, f"{path}.{name}")
    for key in ("items", "then", "else"):
        if isinstance(schema.get(key), dict):
            yield from objects(schema[key], f"{path}.{key}")


def test_the_schema_leaves_no_object_open() -> None:
    """Every object refuses unknown keys, but for labels and the like, and for parts that are Kubernetes' own."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    open_ones = {
        path
        for path, item in objects(schema)
        if item.get("additionalProperties") is not False and "properties" not in item
    }
    assert {re.sub(r".*\$defs\.", "", path).lstrip(".") for path in open_ones} == {
        "global",
        "strings",
        "quantities",
        *(f"affinity.{name}" for name in ("nodeAffinity", "podAffinity", "podAntiAffinity")),
        "networkPolicy.ingress.from.items",
        "networkPolicy.egress.to.items",
        "faker.topology.nodePools",
    }
    assert all(item.get("additionalProperties") is False for _, item in objects(schema) if "properties" in item)


def test_the_chart_is_linted(helm: Helm) -> None:
    """``helm lint --strict`` has nothing to say about the defaults, the values of the documentation and the faker."""
    for values in ({}, RECORDS, *FAKERS.values()):
        assert "0 chart(s) failed" in helm.run("lint", "--strict", str(CHART), values=values)
