from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicrails_observer.verdicts import MAX_BODY, Removal, Verdict, batches, confirm, judge, patch, suspects
from tests.observer.documents import record

UNKNOWN_VERSION = record("old").replace("v1alpha1", "v2")
MALFORMED = '{"schemaVersion":"v1alpha1","nodeUID":"old","nics":[]}'
WITHOUT_UID = record("old").replace('"nodeUID":"old",', "")


@pytest.mark.parametrize(
    ("document", "uid", "expected"),
    [
        (record("old"), None, Verdict.NODE_GONE),
        ("", None, Verdict.NODE_GONE),
        (UNKNOWN_VERSION, None, Verdict.NODE_GONE),
        (WITHOUT_UID, None, Verdict.NODE_GONE),
        (record("old"), "old", Verdict.CURRENT),
        (record("old"), "new", Verdict.NODE_REPLACED),
        ("", "new", Verdict.UNREADABLE),
        ("null", "new", Verdict.UNREADABLE),
        (UNKNOWN_VERSION, "new", Verdict.UNREADABLE),
        (UNKNOWN_VERSION, "old", Verdict.UNREADABLE),
        (MALFORMED, "new", Verdict.UNREADABLE),
        (WITHOUT_UID, "new", Verdict.UNREADABLE),
    ],
)
@pytest.mark.fault("O9")
def test_judges_a_record_by_the_node_of_its_name(document: str, uid: str | None, expected: Verdict) -> None:
    """O9: a record goes if its Node is absent or if it plainly is of another Node; what can not be read of a live Node stays."""
    assert judge(document, uid) is expected


def test_suspects_are_what_would_go() -> None:
    """Of all records just those of absent and of replaced Nodes are suspected."""
    records = {
        "current": record("a"),
        "gone": record("b"),
        "replaced": record("c"),
        "unreadable": MALFORMED,
        "unreadable-gone": MALFORMED,
        "newer": UNKNOWN_VERSION,
    }
    uids = {"current": "a", "replaced": "c2", "unreadable": "d", "newer": "old"}
    assert {removal.node: removal.verdict for removal in suspects(records.items(), uids)} == {
        "gone": Verdict.NODE_GONE,
        "replaced": Verdict.NODE_REPLACED,
        "unreadable-gone": Verdict.NODE_GONE,
    }


@pytest.mark.parametrize("key", ["README", "a_b", "-a", "a.", ".", "x" * 254])
def test_a_key_that_no_node_can_have_is_no_suspect(key: str) -> None:
    """A key that can not be the name of a Node is somebody's own and left alone."""
    assert list(suspects([(key, record("a"))], {})) == []


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from("1234"), min_size=1), st.data())
def test_the_record_of_an_existing_node_is_never_removed(nodes: dict[str, str], data: st.DataObject) -> None:
    """Whatever the watch's view was: what a live read shows to exist as its record says is not removed."""
    view = data.draw(st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from("1234")))
    records = {name: record(data.draw(st.sampled_from("1234"))) for name in "abcdefgh"}
    confirmation = confirm(suspects(records.items(), view), nodes)
    removed = {removal.node for removal in confirmation.removals}
    assert not {name for name in removed if name in nodes and records[name] == record(nodes[name])}
    assert all(name in nodes and records[name] == record(nodes[name]) for name in confirmation.contradicted)


def test_a_live_read_overrules_the_suspicion() -> None:
    """O8: the live read decides: it may acquit, and it may find another reason than the watch's view."""
    suspected = [
        Removal(node="back", document=record("new"), verdict=Verdict.NODE_GONE),
        Removal(node="replaced", document=record("old"), verdict=Verdict.NODE_GONE),
        Removal(node="gone", document=record("old"), verdict=Verdict.NODE_REPLACED),
        Removal(node="unreadable", document=MALFORMED, verdict=Verdict.NODE_GONE),
    ]
    confirmation = confirm(suspected, {"back": "new", "replaced": "new", "gone": None, "unreadable": "new"})
    assert {removal.node: removal.verdict for removal in confirmation.removals} == {
        "replaced": Verdict.NODE_REPLACED,
        "gone": Verdict.NODE_GONE,
    }
    assert confirmation.contradicted == ("back",)


def test_a_patch_tests_the_whole_object_and_every_value() -> None:
    """A patch applies to this very ConfigMap and to exactly the documents that were read, or not at all."""
    removals = [Removal(node="a", document="1", verdict=Verdict.NODE_GONE)]
    assert patch("uid-1", removals) == [
        {"op": "test", "path": "/metadata/uid", "value": "uid-1"},
        {"op": "test", "path": "/data/a", "value": "1"},
        {"op": "remove", "path": "/data/a"},
    ]


def test_a_patch_escapes_its_pointers() -> None:
    """RFC 6901: ``~`` becomes ``~0`` and ``/`` becomes ``~1``, in this order."""
    (_, test, remove) = patch("u", [Removal(node="a/b~1", document="", verdict=Verdict.NODE_GONE)])
    assert test["path"] == remove["path"] == "/data/a~1b~01"


def _removals(count: int, document: str) -> list[Removal]:
    return [Removal(node=f"n{number}", document=document, verdict=Verdict.NODE_GONE) for number in range(count)]


@pytest.mark.fault("O16")
def test_batches_are_as_large_as_allowed() -> None:
    """O16: removals fill patches up to the given number, in order, and none is lost."""
    removals = _removals(1001, "x")
    divided = list(batches(removals, 500))
    assert [len(batch) for batch in divided] == [500, 500, 1]
    assert [removal for batch in divided for removal in batch] == removals
    assert list(batches([], 500)) == []


def test_batches_stay_below_the_size_that_the_api_server_takes() -> None:
    """No patch grows beyond 3 MiB, also with documents that JSON escapes sixfold."""
    divided = list(batches(_removals(256, "\x01" * 4096), 500))
    assert sum(map(len, divided)) == 256
    assert all(len(json.dumps(patch("u", batch))) < 3 * 1024 * 1024 for batch in divided)
    assert len(divided) == 1 + 256 * 4096 * 6 // MAX_BODY
