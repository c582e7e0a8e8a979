"""nvidia-smi in the GPU Operator's pod on this Node, by exec through the API server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nicrails.kube import ApiError, ExecError, ExecExitError, ExecTimeoutError, KubeClient, exec_in_pod
from nicrails.text import excerpt
from nicrails_broker.events import CommandHung, CommandWarned, Emit
from nicrails_broker.failures import Retry, SourceError, api_failure
from nicrails_broker.host import Sysfs
from nicrails_broker.sources.nvidia_smi import Command, software_rdma
from nicrails_broker.sources.operator_pod import Place, Workload, find_place

NAME = "gpu-operator"
MAX_OUTPUT = 4 * 1024 * 1024
"""Bytes; the largest matrix seen has 36,000."""


class OperatorSmi:
    """A place where nvidia-smi runs: the one pod that :func:`find_place` finds.

    Args:
        client: The API server.
        workload: Whose pods have nvidia-smi.
        node: This Node's name.
        time_limit: Seconds for one command.
        sysfs: Of the host, to name the cause of a known failure.
        emit: Is told about warnings and hangs.
    """

    def __init__(
        self, *, client: KubeClient, workload: Workload, node: str, time_limit: float, sysfs: Sysfs, emit: Emit
    ) -> None:
        self._client = client
        self._workload = workload
        self._node = node
        self._time_limit = time_limit
        self._sysfs = sysfs
        self._emit = emit

    async def outputs(self, commands: Sequence[Command]) -> Mapping[Command, bytes]:
        """See :class:`nicrails_broker.sources.nvidia_smi.Smi`; one command at a time."""
        place = await find_place(self._client, self._workload, self._node)
        return {command: await self._output(place, command) for command in commands}

    async def _output(self, place: Place, command: Command) -> bytes:
        words = " ".join(command.argv)
        try:
            output = await exec_in_pod(
                self._client,
                namespace=place.namespace,
                pod=place.pod,
                container=place.container,
                command=command.argv,
                time_limit=self._time_limit,
                max_output=MAX_OUTPUT,
            )
        except ExecTimeoutError as error:
            self._emit(CommandHung(command=words))
            raise SourceError(
                f"{error}; a GPU or the driver may hang: see the kernel log for Xid errors", retry=Retry.AFTER_HANG
            ) from error
        except ExecExitError as error:
            raise SourceError(f"{error}{self._known_cause(error)}") from error
        except ExecError as error:
            raise SourceError(str(error)) from error
        except ApiError as error:
            reason, retry, after = api_failure(
                error,
                f"can not run {words!r} in pod {place.namespace}/{place.pod}",
                grant="get and create on pods/exec in that namespace",
            )
            raise SourceError(reason, retry=retry, retry_after=after) from error
        if output.stderr.strip():
            self._emit(CommandWarned(command=words, said=excerpt(output.stderr)))
        return output.stdout

    def _known_cause(self, error: ExecExitError) -> str:
        if b"Failed to run topology matrix" not in error.stdout + error.stderr:
            return ""
        devices = software_rdma(self._sysfs)
        named = f" here {', '.join(devices[:4])}" if devices else " such as siw or rxe"
        return f"; a software RDMA device,{named}, makes the whole matrix fail: remove it from the host"
