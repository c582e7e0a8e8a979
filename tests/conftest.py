"""What all tests share: needs, the real control plane, and the promise that no test leaves a task behind."""

from __future__ import annotations

pytest_plugins = [
    "tests.support.needs",
    "tests.support.stray_tasks",
    "tests.support.clean_logs",
    "tests.cluster.fixtures",
]
