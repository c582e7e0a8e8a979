from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import nicrails.kube
loaded = [name for name in sys.modules if name.startswith("kubernetes_asyncio.client.models.")]
assert not loaded, loaded
assert "kubernetes_asyncio.client.api.core_v1_api" not in sys.modules
{then}
"""


def _run(then: str) -> None:
    subprocess.run([sys.executable, "-c", PROGRAM.format(then=then)], check=True, timeout=50)


def test_no_models_are_loaded() -> None:
    """Importing our client does not load the library's hundreds of model classes."""
    _run("")


def test_the_library_still_works() -> None:
    """Whoever wants the library's ordinary names in the same process gets them, in any order."""
    _run(
        "from kubernetes_asyncio import client, config, watch\n"
        "assert client.V1Pod is client.models.V1Pod\n"
        "assert client.CoreV1Api and client.ApiClient and config.load_kube_config and watch.Watch\n"
        "from kubernetes_asyncio.client import ApiClient\n"
        "assert ApiClient is nicrails.kube.client.ApiClient\n"
        "try:\n    client.Nonsense\nexcept AttributeError:\n    pass\nelse:\n    raise SystemExit('a name out of nothing')\n"
    )


def test_the_ordinary_import_first() -> None:
    """A process that has imported the library in the ordinary way keeps it as it is."""
    program = "import kubernetes_asyncio\nbefore = kubernetes_asyncio.client\nimport nicrails.kube\nassert kubernetes_asyncio.client is before"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=50)
