"""What the chart's tests share: Helm, and what each combination of values renders."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

from tests.chart.combinations import COMBINATIONS
from tests.chart.helm import Helm, Rendered
from tests.support.needs import require


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm without a cluster."""
    require("helm")
    return Helm(tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="session")
def rendered(helm: Helm) -> Callable[[str], Rendered]:
    """What a combination renders, by its name; rendered once, so nobody may change it."""
    return functools.cache(lambda name: helm.template(COMBINATIONS[name]))
