"""Sources that read files, for one discovery on captures or on another machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from nicrails_broker.failures import SourceError
from nicrails_broker.sources.host_lldp import Ask
from nicrails_broker.sources.nvidia_smi import Command, Smi

MAX_SIZE = 16 * 1024 * 1024


def read_input(path: Path) -> bytes:
    """A file's bytes.

    Raises:
        SourceError: It can not be read, or is larger than any of our inputs.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_SIZE + 1)
    except OSError as error:
        raise SourceError(f"can not read {path}: {error.strerror}") from error
    if len(data) > MAX_SIZE:
        raise SourceError(f"{path} is larger than {MAX_SIZE} bytes")
    return data


def ask_file(path: Path) -> Ask:
    """The answer of lldpctl from a file."""

    async def ask() -> tuple[bytes, str]:
        return read_input(path), ""

    return ask


class FileSmi:
    """nvidia-smi's answers from files, and those that have none from elsewhere.

    Args:
        files: Per command.
        rest: Where the other commands run, or None if nowhere.
    """

    def __init__(self, files: Mapping[Command, Path], rest: Smi | None) -> None:
        self._files = files
        self._rest = rest

    async def outputs(self, commands: Sequence[Command]) -> Mapping[Command, bytes]:
        """See :class:`nicrails_broker.sources.nvidia_smi.Smi`."""
        outputs = {command: read_input(self._files[command]) for command in commands if command in self._files}
        missing = [command for command in commands if command not in outputs]
        if not missing:
            return outputs
        if self._rest is None:
            words = " and ".join(repr(" ".join(command.argv)) for command in missing)
            raise SourceError(f"no output of {words}: give its file, or access to an API server and NODE_NAME")
        return outputs | dict(await self._rest.outputs(missing))
