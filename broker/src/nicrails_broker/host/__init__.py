"""The host as the broker sees it: sysfs below a root, and commands that are run with limits."""

from nicrails_broker.host.command import CommandError, CommandTimeoutError, Output, run_command
from nicrails_broker.host.lldpctl import Lldpctl, LldpctlError
from nicrails_broker.host.sysfs import Sysfs, SysfsError

__all__ = [
    "CommandError",
    "CommandTimeoutError",
    "Lldpctl",
    "LldpctlError",
    "Output",
    "Sysfs",
    "SysfsError",
    "run_command",
]
