"""``python -m bench [--json FILE] [NAME…]``: runs the benchmarks and prints a table; exit status 1 if a limit is exceeded."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import orjson

from bench import broker, fake_nodes, observer, parsing
from bench.report import Figure, table

BENCHMARKS: Mapping[str, Callable[[], Iterator[Figure]]] = {
    "parsing": parsing.run,
    "broker": broker.run,
    "observer": observer.run,
    "fake-nodes": fake_nodes.run,
}


def main(argv: list[str]) -> int:
    """Run it."""
    parser = argparse.ArgumentParser(prog="bench", description="Measure size and speed beside a floor of the same run.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}; all by default")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="also write the figures as JSON; - for standard output"
    )
    arguments = parser.parse_args(argv)
    if unknown := set(arguments.names) - set(BENCHMARKS):
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    figures: list[Figure] = []
    for name in arguments.names or BENCHMARKS:
        print(f"measuring {name} …", file=sys.stderr, flush=True)
        figures += BENCHMARKS[name]()
    document = orjson.dumps([figure.document() for figure in figures], option=orjson.OPT_INDENT_2).decode()
    if arguments.json is not None and str(arguments.json) != "-":
        arguments.json.write_text(document + "\n")
    print(document if str(arguments.json) == "-" else table(figures))
    return 0 if all(figure.within for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
