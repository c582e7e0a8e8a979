"""Settings files: YAML with the keys of the Helm values, checked whole, every fault told with its dotted path."""

from nicrails.settings.common import KubernetesSettings, LoggingSettings, ServerSettings
from nicrails.settings.duration import Duration
from nicrails.settings.loader import Fault, SettingsError, load, read_document, setting
from nicrails.settings.names import dns_label, dns_name

__all__ = [
    "Duration",
    "Fault",
    "KubernetesSettings",
    "LoggingSettings",
    "ServerSettings",
    "SettingsError",
    "dns_label",
    "dns_name",
    "load",
    "read_document",
    "setting",
]
