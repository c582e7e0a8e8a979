from __future__ import annotations

import argparse

import pytest

from nicrails_faker.cli import main
from nicrails_faker.dcgm.command import add_arguments


def test_help_names_socket_and_port(capsys: pytest.CaptureFixture[str]) -> None:
    """The defaults are the kubelet's socket and the port of DCGM's exporter."""
    assert main(["metrics", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "/var/lib/kubelet/pod-resources/kubelet.sock" in text
    assert "(9400)" in text


@pytest.mark.parametrize("interval", ["0", "-1", "nan", "inf", "soon", "3601"])
def test_an_interval_is_checked(interval: str) -> None:
    """What is no pause is refused as an argument."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_arguments(parser)
    with pytest.raises(argparse.ArgumentError, match=r"0\.1 to 3600 seconds"):
        parser.parse_args(["--interval", interval])
    assert parser.parse_args(["--interval", "0.5"]).interval == 0.5
