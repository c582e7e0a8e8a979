from __future__ import annotations

import pytest

from nicrails import GpuUuid, NodeUid, PathClass, RailId, RecordError, read_records
from tests.shared.records import EXAMPLE_JSON, GPU0, GPU1, NIC0, NIC1, example


def test_order_of_path_classes() -> None:
    """Path classes rank from PIX, the best, to SYS, the worst."""
    best_first = [PathClass.PIX, PathClass.PXB, PathClass.PHB, PathClass.NODE, PathClass.SYS]
    assert sorted(PathClass) == best_first
    assert min(PathClass) is PathClass.PIX
    assert max(PathClass) is PathClass.SYS
    assert PathClass.PIX <= PathClass.PIX < PathClass.NODE
    assert PathClass.NODE >= PathClass.NODE > PathClass.PHB


def test_a_path_class_does_not_compare_with_text() -> None:
    """A class and a text have no order, since the order of the letters is not that of the distances."""
    with pytest.raises(TypeError):
        PathClass.PIX < "NODE"  # noqa: B015  (the comparison is the test)


def test_rails() -> None:
    """A record knows all rails of its Node."""
    assert example().rails == ("rail0", "rail1")


def test_candidates() -> None:
    """A consumer gets all NICs that are tied for a GPU on a rail."""
    assert [c.nic for c in example().candidates(GPU1, "rail0")] == [NIC0, NIC1]
    with pytest.raises(KeyError, match="no GPU GPU-x"):
        example().candidates("GPU-x", "rail0")
    with pytest.raises(KeyError, match=r"no rail rail7 for GPU .*it has rail0, rail1"):
        example().candidates(GPU0, "rail7")


@pytest.mark.parametrize("text", ["", " rail", "rail ", "a\nb", "\x9b", "r" * 254])
def test_rail_id_form(text: str) -> None:
    """A rail ID is printable, has no blanks at its ends and at most 253 characters."""
    with pytest.raises(ValueError, match="not a rail ID"):
        RailId.parse(text)


@pytest.mark.parametrize(
    "text", ["GPU-8d1f", "8d1f0000-0000-0000-0000-000000000000", "MIG-8d1f0000-0000-0000-0000-000000000000"]
)
def test_gpu_uuid_form(text: str) -> None:
    """A GPU's UUID is complete, and a MIG slice is no GPU."""
    with pytest.raises(ValueError, match="not a GPU UUID"):
        GpuUuid.parse(text)


@pytest.mark.parametrize("text", ["", "a b", "ü"])
def test_node_uid_form(text: str) -> None:
    """A Node's UID has visible ASCII characters only."""
    with pytest.raises(ValueError, match="not a Node UID"):
        NodeUid.parse(text)


def test_reading_a_cluster() -> None:
    """One unreadable record does not hide the others, and asking for it says why it can not be read."""
    uid = example().node_uid
    records = read_records({"node1": EXAMPLE_JSON.decode(), "node2": "{}"})
    assert dict(records) == {"node1": example()}
    assert [c.nic for c in records.candidates("node1", GPU0, "rail1", node_uid=uid)] == [NIC1]
    with pytest.raises(RecordError, match=r"\$\.schemaVersion: missing"):
        records.candidates("node2", GPU0, "rail1", node_uid=uid)
    with pytest.raises(KeyError, match="no record of Node node3"):
        records.candidates("node3", GPU0, "rail1", node_uid=uid)


def test_a_record_of_a_former_node_is_not_used() -> None:
    """A consumer that knows the Node's UID never gets NICs of a former Node of the same name."""
    with pytest.raises(RecordError, match="the record is of Node UID"):
        read_records({"node1": EXAMPLE_JSON.decode()}).candidates("node1", GPU0, "rail1", node_uid="another")


def test_no_data() -> None:
    """A ConfigMap without data is a cluster without records."""
    assert len(read_records(None)) == 0
