"""The real Helm on the project's chart, without anything of the machine's own Helm configuration."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.cluster import programs

CHART = Path(__file__).parent.parent.parent / "helm" / "nicrails"
RELEASE = "nicrails"

Json = dict[str, Any]


class HelmError(RuntimeError):
    """Helm refused; its own words, without the program's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """The objects that Helm would send, each a decoded document.

    Attributes:
        objects: In Helm's order; hooks included.
    """

    objects: tuple[Json, ...]

    def __iter__(self) -> Iterator[Json]:
        return iter(self.objects)

    def kinds(self) -> set[str]:
        """The kinds of all objects but hooks."""
        return {item["kind"] for item in self.objects if not is_hook(item)}

    def all(self, kind: str) -> list[Json]:
        """The objects of a kind."""
        return [item for item in self.objects if item["kind"] == kind]

    def one(self, kind: str, ending: str = "") -> Json:
        """The only object of a kind whose name has this ending; fails if there is not exactly one."""
        found = [item for item in self.all(kind) if item["metadata"]["name"].endswith(ending)]
        assert len(found) == 1, f"{len(found)} objects of kind {kind} end in {ending!r}"
        return found[0]

    def settings(self) -> str:
        """The text of the settings file."""
        text: str = self.one("ConfigMap", "-settings")["data"]["settings.yaml"]
        return text

    def pod(self, kind: str) -> Json:
        """The pod template's spec of the only object of a kind."""
        spec: Json = self.one(kind)["spec"]["template"]["spec"]
        return spec


def is_hook(item: Json) -> bool:
    """Whether an object is a hook, such as the pod of ``helm test``."""
    return "helm.sh/hook" in item["metadata"].get("annotations", {})


class Helm:
    """Helm with a folder of its own for everything that it keeps.

    Args:
        folder: An empty folder.
        kubeconfig: The cluster that it talks to; without one it has none.
    """

    def __init__(self, folder: Path, kubeconfig: Path | None = None) -> None:
        self._folder = folder
        self._values = 0
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("HELM_", "KUBE"))},
            **{f"HELM_{kind}_HOME": str(folder / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")},
            "KUBECONFIG": str(kubeconfig or folder / "no-cluster"),
        }

    def run(self, *arguments: str, values: Mapping[str, Any] | None = None) -> str:
        """Run a command; its output.

        Args:
            arguments: Of Helm.
            values: A values file.

        Raises:
            HelmError: It ended with another status than 0.
        """
        argv = [str(programs.find()["helm"]), *arguments]
        if values is not None:
            self._values += 1
            file = self._folder / f"values-{self._values}.yaml"
            # JSON is YAML, and nobody disagrees about which of its scalars are strings.
            file.write_text(json.dumps(values))
            argv += ["--values", str(file)]
        done = subprocess.run(
            argv,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=50,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode:
            raise HelmError(done.stderr.removeprefix("Error: ") or done.stdout)
        return done.stdout

    def template(
        self,
        values: Mapping[str, Any] | None = None,
        *options: str,
        release: str = RELEASE,
        namespace: str = "nicrails-system",
    ) -> Rendered:
        """What the chart renders."""
        text = self.run("template", release, str(CHART), "--namespace", namespace, *options, values=values or {})
        return Rendered(objects=tuple(item for item in yaml.safe_load_all(text) if item))

    def refusal(self, values: Mapping[str, Any], *options: str) -> str:
        """The words of a refusal; fails if the values are accepted."""
        try:
            self.template(values, *options)
        except HelmError as error:
            return str(error)
        raise AssertionError("these values are accepted")


def merged(*parts: Mapping[str, Any]) -> Json:
    """Values laid over each other, as Helm does it with several files; the parts stay as they are."""
    result: Json = {}
    for part in parts:
        for key, value in part.items():
            below = result.get(key)
            result[key] = merged(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return result


def at(path: str, value: object) -> Json:
    """Values with one key, given by its dotted path."""
    result: Any = value
    for key in reversed(path.split(".")):
        result = {key: result}
    return dict(result)


def rules(items: Sequence[Json]) -> list[Json]:
    """The rules of Roles and ClusterRoles."""
    return [rule for item in items for rule in item["rules"]]
