"""What stands in the ConfigMap besides the records that go: how many, how large, and which can not be read."""

from __future__ import annotations

import enum
from collections.abc import Iterable

from nicrails import RecordError, UnknownSchemaVersionError, decode
from nicrails_observer.verdicts import is_node_name

CONFIG_MAP_LIMIT = 1024 * 1024
"""Bytes of all values of a ConfigMap, keys not counted.

Source: ``MaxSecretSize`` in ``k8s.io/kubernetes/pkg/apis/core``, which bounds ConfigMaps too.
"""


class Problem(enum.StrEnum):
    """Why a record that stands can not be judged."""

    UNKNOWN_VERSION = "unknown-version"
    """Its ``schemaVersion`` is not known; a newer broker may have written it."""
    MALFORMED = "malformed"
    """It is no record."""
    NOT_A_NODE_NAME = "not-a-node-name"
    """Its key can not be the name of a Node; a person or another program may have put it there."""


class Survey:
    """Finds records that can not be read; a document that was sound once is not decoded again while it stands."""

    def __init__(self) -> None:
        # Hashes instead of the documents: memory per Node is to stay a name and a UID.
        self._sound: set[int] = set()
        self._now: set[int] = set()

    def begin(self) -> None:
        """A new look at all records begins."""
        self._now = set()

    def problems(self, records: Iterable[tuple[str, str]]) -> dict[str, tuple[Problem, str]]:
        """The problem of each record that has one, and its cause in words.

        Args:
            records: Key and document of some of the records.
        """
        found: dict[str, tuple[Problem, str]] = {}
        for key, document in records:
            if not is_node_name(key):
                found[key] = (Problem.NOT_A_NODE_NAME, "the key can not be the name of a Node")
                continue
            known = hash(document)
            try:
                if known not in self._sound:
                    decode(document)
            except UnknownSchemaVersionError as error:
                found[key] = (Problem.UNKNOWN_VERSION, str(error))
            except RecordError as error:
                found[key] = (Problem.MALFORMED, str(error))
            else:
                self._now.add(known)
        return found

    def end(self) -> None:
        """All records were looked at; documents that are gone are forgotten."""
        self._sound, self._now = self._now, set()


class Fullness(enum.IntEnum):
    """How near the ConfigMap is to the size at which the API server refuses every growth."""

    FINE = 0
    HIGH = 80
    """Percent of the limit; above, it is told as a warning."""
    CRITICAL = 95
    """Percent of the limit; above, it is told as an error."""


def fullness(size: int) -> Fullness:
    """Judge the size of all values in bytes."""
    percent = 100 * size / CONFIG_MAP_LIMIT
    return next(level for level in sorted(Fullness, reverse=True) if percent > level or level is Fullness.FINE)
