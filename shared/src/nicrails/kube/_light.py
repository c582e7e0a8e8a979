"""Makes importing single modules of ``kubernetes_asyncio`` cheap.

``import kubernetes_asyncio.client.api_client`` runs the package's ``__init__``, which imports some 800 generated model
modules. A DaemonSet would pay that memory on every Node for classes that it never uses. So the packages on the way are
registered without running their ``__init__``; whoever asks one of them for a name that is not a loaded submodule makes
it run after all, so the library keeps working as documented for everybody else in the process.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any

_PACKAGES = (
    "kubernetes_asyncio",
    "kubernetes_asyncio.client",
    "kubernetes_asyncio.client.models",
    "kubernetes_asyncio.config",
    "kubernetes_asyncio.stream",
)


_HOME = {
    "kubernetes_asyncio.client": {
        "ApiClient": "api_client",
        "ApiException": "exceptions",
        "Configuration": "configuration",
    },
    "kubernetes_asyncio.stream": {"WsApiClient": "ws_client"},
}
"""The modules that define the few names which the library's own light modules take from a package."""


class _DeferredPackage(ModuleType):
    """A package whose ``__init__`` runs at the first use of a name that only it can define."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  (whatever the package defines)
        if name.startswith("__"):
            raise AttributeError(name)
        spec = self.__spec__
        if type(self) is ModuleType or spec is None or spec.loader is None:
            raise AttributeError(name)
        home = _HOME.get(self.__name__, {}).get(name)
        if home is not None:
            return getattr(importlib.import_module(f"{self.__name__}.{home}"), name)
        if importlib.util.find_spec(f"{self.__name__}.{name}") is not None:
            return importlib.import_module(f"{self.__name__}.{name}")
        self.__class__ = ModuleType  # type: ignore[assignment]  # no second run, also while this one is under way
        spec.loader.exec_module(self)
        return getattr(self, name)


def register() -> None:
    """Register the packages, unless the process has imported the library in the ordinary way before."""
    if "kubernetes_asyncio" in sys.modules:
        return
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        package = _DeferredPackage(name)
        package.__spec__ = spec
        package.__loader__ = spec.loader
        package.__path__ = list(spec.submodule_search_locations or ())
        package.__package__ = name
        package.__file__ = spec.origin
        sys.modules[name] = package
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, package)
