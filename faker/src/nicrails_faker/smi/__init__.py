"""The ``nvidia-smi`` of a Node with fake GPUs: a shell script for any container, and the files that it reads.

>>> from pathlib import Path
>>> from nicrails_faker.smi import write
>>> write(Path("/var/lib/nicrails-faker"), topology)  # doctest: +SKIP

The folder of the files is meant to be mounted where the script looks for it, :data:`CONTAINER_DATA`.
"""

from __future__ import annotations

from nicrails_faker.smi.hardware import Hardware, hardware_of
from nicrails_faker.smi.install import CONTAINER_DATA, CONTAINER_PROGRAM, DATA, PROGRAM, write
from nicrails_faker.smi.render import render

__all__ = ["CONTAINER_DATA", "CONTAINER_PROGRAM", "DATA", "PROGRAM", "Hardware", "hardware_of", "render", "write"]
