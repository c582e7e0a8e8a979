"""The demonstration: the real broker and observer programs on an embedded cluster of simulated machines."""

from nicrails_faker.demo.run import run
from nicrails_faker.demo.screen import Promise, Screen, Style
from nicrails_faker.demo.stage import Commands

__all__ = ["Commands", "Promise", "Screen", "Style", "run"]
