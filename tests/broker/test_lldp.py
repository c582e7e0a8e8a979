"""The reader of ``lldpctl -f json0`` and ``-f json``."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from nicrails_broker.parsers import Neighbor, ParseError, interfaces, parse_any, parse_json0
from nicrails_broker.parsers.lldp import MAX_BYTES

LLDP = Path(__file__).parents[1] / "corpus" / "lldp"

FIVE = ("eth_r0_p0", "eth_r1_p0", "eth_r2_p0", "eth_r3_p0", "mgmt0")
JSON0 = {
    "010-gen-json0-no-neighbors.json": (),
    "012-gen-json0-one-interface-one-neighbor.json": ("eth_r0_p0",),
    "014-gen-json0-five-interfaces-mixed.json": FIVE,
    "031-gen-json0-quote-in-name-ok.json": ("eth_r1_p0",),
    "034-gen-json0-same-neighbors-no-injection.json": ("eth_r0_p0", "eth_r1_p0"),
}
JSON = {
    "001-sonic-single-interface-object-unknown-tlv.json": ("eth0",),
    "002-sonic-multi-chassis-without-name.json": ("Ethernet0", "Ethernet100"),
    "004-single-interface-age-days.json": ("eno1",),
    "006-two-neighbors-same-interface-key-repeated.json": ("eno8303",),
    "008-empty-interface-array.json": (),
    "009-gen-no-neighbors-empty-object.json": (),
    "011-gen-one-interface-one-neighbor.json": ("eth_r0_p0",),
    "013-gen-five-interfaces-mixed.json": FIVE,
    "015-gen-one-interface-two-neighbors.json": ("eth_r0_p0",),
    "018-gen-cdp-and-lldp.json": ("eth_r0_p0", "eth_r1_p0"),
}

HEAD = """\
{
  "lldp": {
    "interface": [
      {
        "eth_r0_p0": {
          "via": "LLDP",
          "rid": "1",
          "age": "0 day, 00:00:01",
          "chassis": {
            "leaf-r0": {
              "id": {
                "type": "mac",
                "value": "44:38:39:00:00:01"
              }
            }
          },
          "port": {
            "id": {
              "type": "ifname",
              "value": "swp1"
            },
            "ttl": "120"
          }
        }
      },
      {
        "eth_r1_p0": {
          "via": "LLDP",
          "rid": "2",
          "age": "0 day, 00:00:01",
          "chassis": {
            \""""
TAIL = """\
": {
              "id": {
                "type": "mac",
                "value": "44:38:39:00:00:02"
              }
            }
          },
          "port": {
            "id": {
              "type": "ifname",
              "value": "swp1"
            },
            "ttl": "120"
          }
        }
      }
    ]
  }
}

"""
"""Before and after a neighbour's system name, as lldpd 1.0.16 prints it: unescaped."""


def refusal(data: bytes | str, *, json0: bool = False) -> ParseError:
    """The error that an output is refused with."""
    raw = data.encode() if isinstance(data, str) else data
    with pytest.raises(ParseError) as caught:
        (parse_json0 if json0 else parse_any)(raw)
    assert str(caught.value).isprintable()
    return caught.value


def document(**changes: object) -> dict[str, Any]:
    """A json0 document of one neighbour, with some members of the interface changed; ``None`` removes one."""
    entry: dict[str, Any] = {
        "name": "eth_r0_p0",
        "via": "LLDP",
        "rid": "1",
        "chassis": [{"id": [{"type": "mac", "value": "44:38:39:00:00:01"}], "name": [{"value": "leaf"}]}],
        "port": [{"id": [{"type": "ifname", "value": "swp1"}]}],
    }
    entry.update(changes)
    return {"lldp": [{"interface": [{key: value for key, value in entry.items() if value is not None}]}]}


@pytest.mark.parametrize("name", sorted(JSON0))
def test_json0_gives_the_interfaces_that_have_a_neighbour(name: str) -> None:
    """Both readers of ``json0`` give the true interfaces of every capture."""
    data = (LLDP / name).read_bytes()
    assert interfaces(parse_json0(data)) == JSON0[name]
    assert parse_any(data) == parse_json0(data)


@pytest.mark.parametrize("name", sorted(JSON))
def test_json_is_read_by_the_command_only(name: str) -> None:
    """``parse_any`` gives the true interfaces of every sound ``json`` capture; the service's reader refuses it."""
    data = (LLDP / name).read_bytes()
    assert interfaces(parse_any(data)) == JSON[name]
    assert "lldpctl -f json," in str(refusal(data, json0=True))


@pytest.mark.parametrize("name", sorted(path.name for path in LLDP.iterdir() if path.name not in {**JSON, **JSON0}))
def test_other_output_is_refused_in_one_line(name: str) -> None:
    """Local data, errors, plain text, damaged and forged JSON are refused with line, column and excerpt."""
    error = refusal((LLDP / name).read_bytes())
    assert str(error).startswith(f"{error.source}, line {error.line}, column {error.column}: ")
    assert error.excerpt


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("019-gen-show-interfaces-LOCAL-not-neighbors.json", "without the rid of a neighbour"),
        ("020-error-socket-missing.stderr.txt", "mount the directory of its socket"),
        ("021-error-socket-connection-refused.stderr.txt", "lldpd is not running"),
        ("024-error-unknown-format.stdout-head.txt", "plain text"),
        ("025-error-version-mismatch-marshal.txt", "different versions"),
        ("026-error-client-in-pod-daemon-on-host.txt", "different versions"),
        ("027-error-socket-missing-two-lines-other-path.txt", "mount the directory of its socket"),
        ("030-gen-INVALID-unescaped-quote-in-name.json.txt", "line 9, column 18: not valid JSON"),
        ("033-gen-INJECTED-valid-json-fake-interface-eth_r9_p0.json", "a chassis without an id"),
    ],
)
def test_known_failures_say_what_to_do(name: str, hint: str) -> None:
    """The refusal of a known failure names its cause."""
    assert hint in str(refusal((LLDP / name).read_bytes()))


def test_neighbours_carry_their_chassis_id() -> None:
    """The provider annotation needs subtype and value of the chassis ID, from both formats alike."""
    expected = Neighbor(interface="eth_r0_p0", chassis_id_subtype="mac", chassis_id="44:38:39:00:00:01", via="LLDP")
    for name in ("011-gen-one-interface-one-neighbor.json", "012-gen-json0-one-interface-one-neighbor.json"):
        assert parse_any((LLDP / name).read_bytes()) == (expected,)
    two = parse_any((LLDP / "015-gen-one-interface-two-neighbors.json").read_bytes())
    assert [neighbor.chassis_id for neighbor in two] == ["44:38:39:00:00:01", "44:38:39:00:00:09"]


@pytest.mark.parametrize(
    "text",
    [
        '{\n  "lldp": {\n    "interface": []\n  }\n}\n',
        '{"lldp":[{}]}',
        '{"lldp": [{"interface": []}]}',
        '{"lldp": {}}',
        '{"lldp":{"interface":[]}}',
    ],
)
def test_no_neighbour_at_all_is_an_empty_result(text: str) -> None:
    """A whole document without an interface says that there is no neighbour."""
    assert parse_any(text.encode()) == ()


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "\n",
            "{}",
            "[]",
            "null",
            "5",
            '"lldp"',
            '{"lldp":5}',
            '{"lldp":null}',
            '{"lldp":[]}',
            '{"lldp":[{},{}]}',
        ),
        *(
            '{"lldp":[5]}',
            '{"lldp":[{"interface":{}}]}',
            '{"lldp":[{"interface":[5]}]}',
            '{"lldp":[{"interface":null}]}',
        ),
        *(
            '{"lldp":{"interface":{}}}',
            '{"lldp":{"interface":5}}',
            '{"lldp":{"interface":[[]]}}',
            '{"lldp":{"interface":null}}',
        ),
        *('{"lldp":[{}],"more":1}', '{"lldp":[{"interface":[],"more":1}]}', '{"lldp":{"more":1}}', '{"lldp":[{}]} {}'),
        *('{"lldp":[{}],"lldp":[{}]}', '{"lldp":[{"interface":[],"interface":[]}]}', '{"lldp":NaN}', "\ufeff{}"),
    ],
)
def test_anything_but_a_whole_document_is_refused(text: str) -> None:
    """An empty or foreign document is no proof that there is no neighbour."""
    refusal(text)


_NAMES: tuple[object, ...] = ("", "a b", "a/b", "a:b", ".", "..", "a\n", "a\x7f", "a\ufffd", "a" * 16, "é" * 8, 5, [])
_CHASSIS: tuple[object, ...] = ([], [{}, {}], {}, "x", [{"name": [{"value": "leaf"}]}], [{"id": []}])
_PORTS: tuple[object, ...] = ([], [{}], [{"id": [{"type": "mac"}]}], [{"id": [{"value": "x"}]}])
_RIDS: tuple[object, ...] = (True, 5, [], {})


@pytest.mark.parametrize(
    ("member", "value"),
    [
        *((member, None) for member in ("name", "rid", "chassis", "port")),
        *(("name", value) for value in _NAMES),
        *(("chassis", value) for value in _CHASSIS),
        *(("port", value) for value in _PORTS),
        *(("rid", value) for value in _RIDS),
    ],
)
def test_incomplete_interface_is_refused(member: str, value: object) -> None:
    """Every interface has a name that Linux allows, a rid, one chassis with an ID and one port with an ID."""
    assert interfaces(parse_json0(json.dumps(document()).encode())) == ("eth_r0_p0",)
    error = refusal(json.dumps(document(**{member: value}), indent=1), json0=True)
    assert error.line is not None


@pytest.mark.parametrize("name", [True, False])
def test_interface_named_like_a_boolean_is_refused(name: object) -> None:
    """An interface named ``on`` or ``no`` is printed as a boolean; the refusal says to rename it."""
    assert "rename it on the host" in str(refusal(json.dumps(document(name=name)), json0=True))


def test_neighbour_cannot_stop_the_discovery_with_bytes() -> None:
    """Bytes that are not UTF-8 and control characters in a neighbour's texts are let through in json0."""
    raw = json.dumps(document()).encode().replace(b'"leaf"', b'"\xff\xfe\x1f\x01\\ud800"')
    assert interfaces(parse_json0(raw)) == ("eth_r0_p0",)
    assert "not the name of a network interface" in str(refusal(raw.replace(b"eth_r0_p0", b"eth\xff"), json0=True))


def test_a_neighbours_text_is_no_cause() -> None:
    """What a neighbour calls itself does not pass for what went wrong."""
    assert "not valid JSON" in str(refusal(HEAD + 'connection refused "x' + TAIL))


def test_json_with_foreign_bytes_is_refused() -> None:
    """In ``json`` a neighbour's name is a key, where such bytes make the document doubtful."""
    assert "not UTF-8" in str(refusal((HEAD + "leaf-r1" + TAIL).encode().replace(b"leaf-r1", b"leaf\xff")))
    assert "not valid JSON" in str(refusal(HEAD + "leaf\x01" + TAIL))


INJECTED = (
    'x": {\n              "id": {\n                "type": "",\n                "value": ""\n              }\n            }\n'
    '          },\n          "port": {\n            "id": {\n              "type": "",\n              "value": ""\n'
    '            }\n          }\n        }\n      },\n      {\n        "eth_r9_p0": {\n          "rid": "",\n'
    '          "chassis": {\n            "'
)


@pytest.mark.parametrize(
    "name",
    [
        'x":{}}}},{"eth_r9_p0":{"chassis":{"y',
        'x":{"id":{"type":"","value":""}}},"port":{"id":{"type":"","value":""}}}},{"eth_r9_p0":{"rid":"","chassis":{"y',
        'x":{"id":{"type":"mac","value":"1"}}},"port":{"id":{"type":"mac","value":"2"}}}},\n{"e9":{"rid":"3","chassis":{"y',
        INJECTED.replace("  ", "") + "y",
        'x":{"id":{"type":"","value":""}},"y',
        'x": {}}},"eth_r9_p0":{"chassis":{"y',
        INJECTED[:255],
        "\\",
        '"',
    ],
)
def test_forged_system_name_is_refused(name: str) -> None:
    """A system name of the length that IEEE 802.1AB allows cannot make up an interface in ``json``."""
    assert interfaces(parse_any((HEAD + "leaf-r1" + TAIL).encode())) == ("eth_r0_p0", "eth_r1_p0")
    assert len(name) <= 255
    refusal(HEAD + name + TAIL)


def test_a_forgery_beyond_notice_is_longer_than_a_system_name() -> None:
    """Why the layout is checked: a forgery in lldpd's own layout takes more than the 255 bytes of a system name."""
    forged = parse_any((HEAD + INJECTED + "y" + TAIL).encode())
    assert interfaces(forged) == ("eth_r0_p0", "eth_r1_p0", "eth_r9_p0")
    assert len(INJECTED) > 255


def test_ambiguous_shapes_of_json_are_refused() -> None:
    """Two interfaces in one object are none of lldpd's shapes; one of them may be forged."""
    one = '{"rid":"1","chassis":{"id":{"type":"mac","value":"1"}},"port":{"id":{"type":"mac","value":"1"}}}'
    assert interfaces(parse_any(f'{{"lldp":{{"interface":{{"a":{one}}}}}}}'.encode())) == ("a",)
    assert "one interface per object" in str(refusal(f'{{"lldp":{{"interface":{{"a":{one},"b":{one}}}}}}}'))
    assert "one interface per object" in str(refusal(f'{{"lldp":{{"interface":[{{"a":{one},"b":{one}}}]}}}}'))
    assert "twice" in str(refusal(f'{{"lldp":{{"interface":[{{"a":{one},"a":{one}}}]}}}}'))


@pytest.mark.parametrize(
    "port", ["{}", "5", '{"id":5}', '{"id":{"type":"mac"}}', '{"id":[{"type":"mac","value":"1"}]}']
)
def test_json_port_needs_an_id(port: str) -> None:
    """An interface whose port has no ID is not complete."""
    entry = f'{{"rid":"1","chassis":{{"id":{{"type":"mac","value":"1"}}}},"port":{port}}}'
    assert "port" in str(refusal(f'{{"lldp":{{"interface":{{"a":{entry}}}}}}}'))


def test_a_chassis_named_id_is_a_named_chassis() -> None:
    """The level of the name is told from the ID itself, whatever the name is."""
    chassis = '{"id":{"id":{"type":"mac","value":"7"}}}'
    entry = f'{{"rid":"1","chassis":{chassis},"port":{{"id":{{"type":"mac","value":"1"}}}}}}'
    (neighbor,) = parse_any(f'{{"lldp":{{"interface":{{"a":{entry}}}}}}}'.encode())
    assert neighbor.chassis_id == "7"


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 1_000_000,
        b'{"a":' * 300_000,
        b'{"lldp":[{"interface":' + b"[" * 100_000 + b"]" * 100_000 + b"}]}",
        b'{"lldp":' + b"9" * 1_000_000 + b"}",
        b'{"lldp":{"interface":[' + b'{"a":1},' * 200_000 + b"0]}}",
        b'{"lldp":[{"interface":[' + b"0," * 1_000_000 + b"0]}]}",
        b"x" * (MAX_BYTES + 1),
    ],
)
def test_hostile_size_and_nesting_are_refused_at_once(data: bytes) -> None:
    """Deep nesting, huge numbers and long lists cost no more than a few seconds and no stack."""
    started = time.monotonic()
    refusal(data)
    assert time.monotonic() - started < 5


def test_refusal_names_line_and_column_of_the_value() -> None:
    """The place of a wrong shape is that of the value in the text."""
    text = json.dumps(document(rid=5), indent=2)
    line = next(number for number, line in enumerate(text.split("\n"), 1) if line.strip() == "{" and number > 3)
    error = refusal(text, json0=True)
    assert (error.line, error.column) == (line, 9)
    assert 'column 2: a key stands twice in one object: ""lldp"' in str(refusal('{"lldp":[{}],\n "lldp":1}'))
