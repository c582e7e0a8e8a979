"""What each megabyte of the images is for; ``python -m tests.images.sizes TAG`` prints the table of ``docs/images.md``.

A file counts for the package that brought it: Debian's database and the records of the Python distributions say which.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence

from tests.images.docker import PROGRAMS, Images, docker

BUDGET = {"broker": 150.0, "observer": 146.0, "faker": 172.0}
"""MB of each image's files, with room for Debian's and Python's updates."""
SHOWN = 1.0
"""MB from which on a package has a row of its own."""

PURPOSES = {
    "base image": "Debian as `BASE_IMAGE` has it, with OpenSSL: C library, shell, Perl, dpkg, apt",
    "python3.13": "the interpreter and its library",
    "libxml2": "a library of lldpctl",
    "aiohttp": "HTTP client and server",
    "multidict": "of aiohttp",
    "kubernetes-asyncio": "credentials and connections to the API server, without the generated API",
    "pyyaml": "settings and kubeconfig",
    "google-re2": "the regular expressions of the settings, in linear time",
    "grpcio": "the kubelet's device plugin and pod resources APIs",
    "protobuf": "messages of these APIs",
    "nicrails": "this project",
}
"""By the row's name."""

_ROWS = {
    "python3.13": ("python3", "libpython3"),
    "nicrails": ("nicrails",),
}
"""Packages that make one row, by the beginnings of their names; any other is a row of its own."""

_SCRIPT = r"""
import importlib.metadata as metadata, json, os, pathlib
owner = {}
for file in pathlib.Path('/var/lib/dpkg/info').glob('*.list'):
    for line in file.read_text().splitlines():
        owner[os.path.realpath(line)] = file.stem.partition(':')[0]
for distribution in metadata.distributions():
    name = 'python:' + distribution.name.lower().replace('_', '-')
    for file in distribution.files or ():
        owner[os.path.realpath(distribution.locate_file(file))] = name
def whose(place):
    folder, _, file = place.rpartition('/')
    if folder.endswith('/__pycache__'):
        place = f"{folder.removesuffix('__pycache__')}{file.partition('.')[0]}.py"
    if folder == '/var/lib/dpkg/info':
        return file.rpartition('.')[0].partition(':')[0]
    return owner.get(place, 'others')
sizes = {}
seen = set()
for top in os.listdir('/'):
    if top in {'proc', 'sys', 'dev', '.dockerenv'}:
        continue
    for folder, _, files in os.walk('/' + top):
        for file in files:
            place = f'{folder}/{file}'
            about = os.lstat(place)
            if not os.path.isfile(place) or os.path.islink(place) or (about.st_dev, about.st_ino) in seen:
                continue
            seen.add((about.st_dev, about.st_ino))
            name = whose(os.path.realpath(place))
            sizes[name] = sizes.get(name, 0) + about.st_size
print(json.dumps(sizes))
"""


def measure(images: Images, program: str) -> dict[str, float]:
    """MB (1e6 bytes) of an image by row; what is smaller than a row is in ``others``."""
    base = images.inspect(program)["Config"]["Labels"]["org.opencontainers.image.base.name"]
    listing = docker("run", "--rm", "--network=none", base, "dpkg-query", "-W", "-f", "${Package}\\n")
    in_base = set(listing.split())
    rows: dict[str, float] = {}
    for package, size in json.loads(images.python(program, _SCRIPT)).items():
        row = "base image" if package in in_base else _row(package.removeprefix("python:"))
        rows[row] = rows.get(row, 0.0) + size / 1e6
    small = {row for row, size in rows.items() if size < SHOWN and row != "nicrails"}
    shown = {row: size for row, size in rows.items() if row not in small | {"others"}}
    return shown | {"others": sum(rows[row] for row in small | {"others"} if row in rows)}


def _row(package: str) -> str:
    for row, beginnings in _ROWS.items():
        if package.startswith(beginnings):
            return row
    return package


def table(measured: Mapping[str, Mapping[str, float]]) -> str:
    """The table as Markdown, the largest first."""
    rows = {row for sizes in measured.values() for row in sizes}
    ordered = sorted(rows - {"others"}, key=lambda row: -max(sizes.get(row, 0.0) for sizes in measured.values()))
    lines = [f"| MB | {' | '.join(PROGRAMS)} | what for |", f"|---|{'---:|' * len(PROGRAMS)}---|"]
    for row in [*ordered, "others"]:
        purpose = PURPOSES.get(row, "each below 1 MB") if row == "others" else PURPOSES[row]
        lines.append(f"| {row} | {_cells(sizes.get(row, 0.0) for sizes in _of(measured))} | {purpose} |")
    lines.append(f"| **all** | {_cells(sum(sizes.values()) for sizes in _of(measured))} | |")
    return "\n".join(lines) + "\n"


def _of(measured: Mapping[str, Mapping[str, float]]) -> Iterable[Mapping[str, float]]:
    return [measured[program] for program in PROGRAMS]


def _cells(sizes: Iterable[float]) -> str:
    return " | ".join(f"{size:.1f}" if size else "" for size in sizes)


def main(argv: Sequence[str]) -> None:
    """Print the table for the images of a tag."""
    images = Images(tag=argv[0])
    sys.stdout.write(table({program: measure(images, program) for program in PROGRAMS}))


if __name__ == "__main__":
    main(sys.argv[1:])
