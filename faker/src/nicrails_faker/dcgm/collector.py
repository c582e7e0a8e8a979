"""The series as metrics, under the names of DCGM's exporter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import Metric
from prometheus_client.registry import Collector

from nicrails_faker.dcgm.series import FULL, Series

_FAMILIES: Sequence[tuple[str, str, Callable[[Series], float | None]]] = (
    ("DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).", lambda one: one.utilization),
    ("DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB).", lambda one: one.memory_used),
    ("DCGM_FI_DEV_FB_FREE", "Framebuffer memory free (in MiB).", lambda one: one.memory_free),
    (
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
        "Ratio of time the graphics engine is active.",
        lambda one: one.utilization / FULL,
    ),
)


class DcgmCollector(Collector):
    """Gives the present series each time that it is asked.

    Args:
        series: The present series.
    """

    def __init__(self, series: Callable[[], Iterable[Series]]) -> None:
        self._series = series

    def collect(self) -> Iterator[Metric]:
        """The families with their samples; a value that is not known has none."""
        present = tuple(self._series())
        for name, text, value_of in _FAMILIES:
            family = Metric(name, text, "gauge")
            for one in present:
                value = value_of(one)
                if value is not None:
                    family.add_sample(name, dict(one.labels), value)
            yield family
