from __future__ import annotations

import argparse
import io
import re
import shlex
from pathlib import Path

import pytest

from nicrails_faker.mig import PRODUCTS, command, find_product, parse_request

PAGE = (Path(__file__).parents[3] / "docs" / "mig.md").read_text()
REQUESTS = [block for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if block.startswith("version: v1")]


@pytest.mark.parametrize("request_", REQUESTS)
def test_requests_of_the_page_are_read(request_: str) -> None:
    """Every request that the page shows is one, and says something."""
    assert parse_request(request_).selections


def test_the_example_prints_what_the_page_says() -> None:
    """The first command of the page gives the table below it."""
    (line,) = re.findall(r"^nicrails-faker mig-plan (request\.yaml .*)$", PAGE, re.MULTILINE)
    (table,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    arguments = parser.parse_args(["-", *shlex.split(line)[1:]])
    out = io.StringIO()
    assert command.run(arguments, io.StringIO(REQUESTS[0]), out, io.StringIO()) == 0
    assert out.getvalue().startswith(table + "\n")


def test_the_table_of_products_is_right() -> None:
    """The products, names and profiles of the page are those of the code."""
    rows = re.findall(r"^\| ((?:A|H|GH|B|GB)[0-9]+-[0-9]+.*?) \| (.*?) \| (.*) \|$", PAGE, re.MULTILINE)
    told = {}
    for products, names, profiles in rows:
        for product in products.split(", "):
            told[product] = profiles.split(" | ")
        found = {find_product(name).name for name in re.findall(r"`(.*?)`", names)}
        assert found <= set(products.split(", "))
    assert told == {
        product.name: [profile.name for profile in product.profiles if "+me" not in profile.name]
        for product in PRODUCTS
        if product.name != "A30-24"
    }
