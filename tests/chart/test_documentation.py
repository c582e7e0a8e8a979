"""The values files in the documentation are good."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.chart.combinations import RECORDS
from tests.chart.helm import CHART, Helm, merged

pytestmark = pytest.mark.needs("helm")

DOCS = Path(__file__).parent.parent.parent / "docs"
SNIPPETS = re.findall(r"^```yaml\n(.*?)^```$", (DOCS / "installation.md").read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_the_values_in_the_instructions_are_accepted(helm: Helm, snippet: str) -> None:
    """Each values file of the installation instructions can be installed as it stands there, or over the usual one."""
    values = yaml.safe_load(snippet)
    assert helm.template(merged(RECORDS, values)).one("DaemonSet")
    helm.run("lint", "--strict", str(CHART), values=merged(RECORDS, values))


def test_the_notes_for_nothing_give_values_that_install_something(helm: Helm) -> None:
    """Who follows the advice after an installation of nothing gets brokers and an observer."""
    said = helm.run("install", "x", str(CHART), "--dry-run=client").partition("say where rails come from:\n")[2]
    assert helm.template(yaml.safe_load(said)).kinds() >= {"DaemonSet", "Deployment"}
