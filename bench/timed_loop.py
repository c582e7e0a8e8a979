"""Runs a service's ``main`` with every callback of the event loop timed: ``python -m bench.timed_loop FILE MODULE ARG…``.

The worst callback so far stands in FILE as JSON: its wall time, and its processor time, which does not count the
moments in which the machine ran something else.
"""

from __future__ import annotations

import asyncio.events
import importlib
import sys
import time
from pathlib import Path

import orjson

_run = asyncio.events.Handle._run  # noqa: SLF001  (there is no public hook)


def main() -> int:
    """Run it."""
    file, module, *arguments = sys.argv[1:]
    worst = {"wall_ms": 0.0, "cpu_ms": 0.0}

    def timed(handle: asyncio.events.Handle) -> None:
        wall, cpu = time.perf_counter(), time.thread_time()
        _run(handle)
        cpu, wall = time.thread_time() - cpu, time.perf_counter() - wall
        if wall * 1000 > worst["wall_ms"] or cpu * 1000 > worst["cpu_ms"]:
            worst["wall_ms"] = max(worst["wall_ms"], wall * 1000)
            worst["cpu_ms"] = max(worst["cpu_ms"], cpu * 1000)
            Path(file).write_bytes(orjson.dumps(worst))

    program = importlib.import_module(f"{module}.__main__")
    setattr(asyncio.events.Handle, "_run", timed)  # noqa: B010  (mypy knows the method as final)
    return int(program.main(arguments))


if __name__ == "__main__":
    sys.exit(main())
