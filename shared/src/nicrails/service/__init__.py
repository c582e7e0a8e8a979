"""What makes a program a service: health, logs, metrics, endpoints and a bounded life cycle."""

from nicrails.service.health import Duty, Failure, Health
from nicrails.service.http import application, serving
from nicrails.service.lifecycle import ServiceError, run_until, stop_on_signals
from nicrails.service.metrics import LoopMonitor, registry

__all__ = [
    "Duty",
    "Failure",
    "Health",
    "LoopMonitor",
    "ServiceError",
    "application",
    "registry",
    "run_until",
    "serving",
    "stop_on_signals",
]
