from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from nicrails.settings import (
    Duration,
    LoggingSettings,
    ServerSettings,
    SettingsError,
    dns_label,
    dns_name,
    load,
    read_document,
    setting,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    interface_regex: str
    rail_id: str = setting(key="railID")
    interval: Duration = Duration(300)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settings:
    host_lldp: _Source = setting(key="hostLLDP")
    server: ServerSettings = field(default_factory=ServerSettings)
    logging: LoggingSettings = field(default_factory=LoggingSettings)
    kubeconfig: str | None = None
    names: tuple[str, ...] = ()
    share: float = 0.5


def _faults(document: str) -> list[str]:
    with pytest.raises(SettingsError) as error:
        load(document, _Settings)
    return [str(fault) for fault in error.value.faults]


def test_defaults_and_values() -> None:
    """Keys are the fields in camelCase or their own spelling; what is left out or left empty has its default."""
    settings = load("hostLLDP: {interfaceRegex: a, railID: b, interval: 1m30s}\nserver:\nkubeconfig: null\n", _Settings)
    assert settings == _Settings(host_lldp=_Source(interface_regex="a", rail_id="b", interval=Duration(90)))
    assert dataclasses.asdict(settings)["server"]["port"] == 8080


def test_all_faults_at_once() -> None:
    """Every fault of a file is told in one go, each with its dotted path in the spelling of the file."""
    document = """
hostLLDP: {interfaceRegex: 1, rail: x, interval: 5q}
server: {port: 99999, address: no}
logging: {level: loud}
names: [a, 1]
share: "0.5"
extra: 1
"""
    assert _faults(document) == [
        "hostLLDP.interfaceRegex: expected a string, found 1",
        "hostLLDP.railID: missing; it has no default",
        "hostLLDP.interval: expected a duration such as 5m, 90s or 0, found '5q'",
        "hostLLDP.rail: unknown key; known here: interfaceRegex, interval, railID",
        "server.address: expected a string, found a boolean (False)",
        "server.port: expected a port between 0 and 65535, found 99999",
        "logging.level: expected one of debug, info, warning, error, found 'loud'",
        "names[1]: expected a string, found 1",
        "share: expected a number, found '0.5'",
        "extra: unknown key; known here: hostLLDP, kubeconfig, logging, names, server, share",
    ]


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ("", "hostLLDP: missing"),
        ("[1]", "expected a mapping, found a list"),
        ("a: [", "not YAML"),
        ("a: 1\na: 2", "key 'a' is given twice"),
        ("a: &x [1]\nb: [*x, *x]", "aliases are not supported"),
        ("{[1]: 2}", "a key must be a string"),
        ("!!python/object/apply:os.system [id]", "not YAML"),
        ("x" * 1_100_000, "larger than"),
        ("[" * 3000, "not YAML"),
        ("hostLLDP: 5", "hostLLDP: expected a mapping, found 5"),
    ],
)
def test_documents_that_are_not_settings(document: str, problem: str) -> None:
    """What is not a mapping of known keys, or abuses YAML, is one clear fault."""
    assert any(problem in fault for fault in _faults(document)), _faults(document)


@pytest.mark.parametrize(
    ("text", "seconds"), [("5m", 300), ("1h30m", 5400), ("250ms", 0.25), ("0", 0), (7, 7), (0.5, 0.5)]
)
def test_durations(text: object, seconds: float) -> None:
    """Durations are written as in Kubernetes or as a number of seconds."""
    assert Duration.parse(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "m", "-5m", "5 m", -1, True, None, "1e9h", float("nan")])
def test_what_is_no_duration(text: object) -> None:
    """A unit is required, and a duration is neither negative nor endless."""
    with pytest.raises(ValueError, match="expected a duration"):
        Duration.parse(text)


def test_a_file_that_can_not_be_read(tmp_path: Path) -> None:
    """A file that is missing or not text is one fault that names it."""
    file = tmp_path / "settings"
    with pytest.raises(SettingsError, match=r"can not read .*settings: No such file"):
        read_document(file)
    file.write_bytes(b"\xff")
    with pytest.raises(SettingsError, match="settings is not UTF-8"):
        read_document(file)


def test_names() -> None:
    """Names of objects and namespaces have the form that Kubernetes requires."""
    assert dns_name("topograph-nic-rails.v1") == "topograph-nic-rails.v1"
    assert dns_label("gpu-operator") == "gpu-operator"
    for bad in ("", "A", "a_b", "-a", "a..b", "a" * 254):
        with pytest.raises(ValueError, match="expected a DNS subdomain name"):
            dns_name(bad)
    for bad in ("", "a.b", "a" * 64):
        with pytest.raises(ValueError, match="expected a DNS label"):
            dns_label(bad)
