"""Which records go; decisions only, no I/O.

The rules are the same for a cached view of the Nodes, which finds suspects, and for a live read, which convicts them.
A document is judged by the Node that bears its key as name: it is never removed on a guess.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from nicrails import RecordError, decode
from nicrails.settings import dns_name


class Verdict(enum.StrEnum):
    """What is to be done with a record."""

    CURRENT = "current"
    """It is of the Node that exists: keep it."""
    UNREADABLE = "unreadable"
    """The Node exists and the document can not be judged; a newer broker may have written it: keep it."""
    NODE_GONE = "node-gone"
    """There is no Node of this name: remove it, whatever it says."""
    NODE_REPLACED = "node-replaced"
    """It is of a former Node of the same name: remove it."""

    @property
    def removes(self) -> bool:
        """Whether the record goes."""
        return self in (Verdict.NODE_GONE, Verdict.NODE_REPLACED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """A record that goes: exactly this document under exactly this key."""

    node: str
    document: str
    verdict: Verdict


def judge(document: str, uid: str | None) -> Verdict:
    """Judge one record.

    Args:
        document: The value in the ConfigMap.
        uid: The UID of the Node that bears the record's key as name, or None if there is none.
    """
    if uid is None:
        return Verdict.NODE_GONE
    try:
        record = decode(document)
    except RecordError:
        return Verdict.UNREADABLE
    return Verdict.CURRENT if record.node_uid == uid else Verdict.NODE_REPLACED


def suspects(records: Iterable[tuple[str, str]], uids: Mapping[str, str]) -> Iterator[Removal]:
    """The records that would go if a view of the Nodes were the truth.

    Args:
        records: Key and value of each record; a key that no Node can have is never a suspect.
        uids: The UID of every Node by its name.
    """
    for node, document in records:
        uid = uids.get(node)
        # Decoding whole records costs too much to do it for those that plainly name their Node.
        if uid is not None and _names(document, uid):
            continue
        if uid is None and not is_node_name(node):
            continue
        verdict = judge(document, uid)
        if verdict.removes:
            yield Removal(node=node, document=document, verdict=verdict)


def is_node_name(key: str) -> bool:
    """Whether a Node can have this name."""
    try:
        dns_name(key)
    except ValueError:
        return False
    return True


def _names(document: str, uid: str) -> bool:
    try:
        root = orjson.loads(document)
    except orjson.JSONDecodeError:
        return False
    return isinstance(root, dict) and root.get("nodeUID") == uid


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """What a live read says about suspects.

    Attributes:
        removals: Those that go, with the verdict of the live read.
        contradicted: Names of Nodes that the view lacked, or had with another UID, and that exist as their record says.
    """

    removals: tuple[Removal, ...]
    contradicted: tuple[str, ...]


def confirm(suspected: Iterable[Removal], uids: Mapping[str, str | None]) -> Confirmation:
    """Judge suspects by a live read that began after their documents were read.

    Args:
        suspected: The suspects.
        uids: What was read: Node UIDs by name; a name that is absent or None has no Node.
    """
    removals, contradicted = [], []
    for suspect in suspected:
        verdict = judge(suspect.document, uids.get(suspect.node))
        if verdict.removes:
            removals.append(Removal(node=suspect.node, document=suspect.document, verdict=verdict))
        elif verdict is Verdict.CURRENT:
            contradicted.append(suspect.node)
    return Confirmation(removals=tuple(removals), contradicted=tuple(contradicted))


MAX_BODY = 2 * 1024 * 1024
"""Bytes of a patch's values; the API server takes requests of at most 3 MiB."""


def batches(removals: Iterable[Removal], size: int) -> Iterator[tuple[Removal, ...]]:
    """Divide removals into patches.

    Args:
        removals: What goes.
        size: The most removals in one patch.
    """
    batch: list[Removal] = []
    length = 0
    for removal in removals:
        # Written as JSON a document grows by its escapes, up to sixfold.
        added = len(json.dumps(removal.document)) + 2 * len(removal.node) + 100
        if batch and (len(batch) == size or length + added > MAX_BODY):
            yield tuple(batch)
            batch, length = [], 0
        batch.append(removal)
        length += added
    if batch:
        yield tuple(batch)


def patch(uid: str, removals: Sequence[Removal]) -> list[dict[str, Any]]:
    """The JSON Patch that removes records: all of them, or none if the ConfigMap or one document is another one.

    Args:
        uid: ``metadata.uid`` of the ConfigMap that the documents were read from.
        removals: What goes.
    """
    operations: list[dict[str, Any]] = [{"op": "test", "path": "/metadata/uid", "value": uid}]
    for removal in removals:
        # RFC 6901: ~ and / are the two characters that a JSON pointer escapes.
        at = f"/data/{removal.node.replace('~', '~0').replace('/', '~1')}"
        operations += [{"op": "test", "path": at, "value": removal.document}, {"op": "remove", "path": at}]
    return operations
