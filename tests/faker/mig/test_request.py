from __future__ import annotations

import time

import pytest

from nicrails_faker.mig import DocumentError, MigRequest, parse_request
from nicrails_faker.mig.request import Selection

NEW = """
version: v1
mig-configs:
  selected:
  - devices: ["0"]
    mig-enabled: true
    mig-devices:
    - {name: 1g.5gb,  position: 0, size: 1}
    - {name: 2g.10gb, position: 2, size: 2}
    - name: 1g.5gb+me
"""
OLD = """
version: v1
mig-configs:
  selected:
  - devices: [0]
    mig-enabled: true
    mig-devices:
      0: 2g.10gb
      4: 1g.5gb
"""
MIG_PARTED = """
version: v1
mig-configs:
  all-disabled:
  - devices: all
    mig-enabled: false
  all-enabled:
  - devices: all
    mig-enabled: true
    mig-devices: {}
  all-1g.5gb:
  - devices: all
    mig-enabled: true
    mig-devices:
      "1g.5gb": 7
  all-balanced:
  - device-filter: ["0x233010DE", "0x233110de"]
    devices: all
    mig-enabled: true
    mig-devices: {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}
  - device-filter: "0x20B010DE"
    devices: [0, 1]
    mig-enabled: true
    mig-devices: {"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1, "7g.40gb": 0}
"""


def entry(text: str) -> str:
    """A request with one entry, in flow style."""
    return f"{{version: v1, mig-configs: {{selected: [{text}]}}}}"


def only(request: MigRequest) -> Selection:
    """The one entry of a request."""
    (selection,) = request.selections
    return selection


def told(selection: Selection) -> list[tuple[str, int, int | None, int | None]]:
    """The slices of an entry without their paths."""
    return [(one.profile, one.count, one.position, one.size) for one in selection.slices]


def test_the_new_form_of_run_ai_is_read() -> None:
    """A list of slices has profiles, positions and sizes; the last two may be missing."""
    selection = only(parse_request(NEW))
    assert [index for _, index in selection.devices or ()] == [0]
    assert selection.enabled
    assert told(selection) == [("1g.5gb", 1, 0, 1), ("2g.10gb", 1, 2, 2), ("1g.5gb+me", 1, None, None)]


def test_the_old_form_of_run_ai_is_read() -> None:
    """A mapping from positions has one profile at each."""
    assert told(only(parse_request(OLD))) == [("2g.10gb", 1, 0, None), ("1g.5gb", 1, 4, None)]


def test_the_old_form_is_read_from_json_too() -> None:
    """In JSON the positions are strings, and mean the same."""
    text = '{"version":"v1","mig-configs":{"selected":[{"devices":["0"],"mig-enabled":true,"mig-devices":{"4":"1g.5gb"}}]}}'
    assert told(only(parse_request(text))) == [("1g.5gb", 1, 4, None)]


def test_the_form_of_mig_parted_is_read() -> None:
    """A mapping from profiles has counts; entries may be for certain PCI devices only; a count of 0 is no slice."""
    request = parse_request(MIG_PARTED, config="all-balanced")
    first, second = request.selections
    assert request.path == "mig-configs.all-balanced"
    assert (first.devices, first.pci_ids) == (None, frozenset({0x233010DE, 0x233110DE}))
    assert [index for _, index in second.devices or ()] == [0, 1]
    assert second.pci_ids == frozenset({0x20B010DE})
    assert told(second) == [("1g.5gb", 2, None, None), ("2g.10gb", 1, None, None), ("3g.20gb", 1, None, None)]


def test_mig_without_slices_and_mig_off_are_told_apart() -> None:
    """An empty ``mig-devices`` is MIG with no slices; ``mig-enabled: false`` is no MIG."""
    assert only(parse_request(MIG_PARTED, config="all-enabled")).enabled
    assert not only(parse_request(MIG_PARTED, config="all-disabled")).enabled


@pytest.mark.parametrize("config", [None, "all-2g.10gb"])
def test_a_configuration_must_be_clear(config: str | None) -> None:
    """With several configurations and none called ``selected``, or a name that is not there, the request is refused."""
    with pytest.raises(DocumentError, match=r"known are all-disabled, all-enabled, all-1g.5gb, all-balanced"):
        parse_request(MIG_PARTED, config=config)


def test_selected_is_meant_unless_another_one_is_named() -> None:
    """``selected`` is the configuration of Run:ai's annotation; a name given from outside is stronger; a single one needs no name."""
    two = "{version: v1, mig-configs: {a: [], selected: []}}"
    assert parse_request(two).path == "mig-configs.selected"
    assert parse_request(two, config="a").path == "mig-configs.a"
    assert parse_request("{version: v1, mig-configs: {a: []}}").path == "mig-configs.a"


@pytest.mark.parametrize(
    ("devices", "indices"),
    [
        ("all", None),
        ("'all'", None),
        ("[all]", None),
        ('["all"]', None),
        ("[1, all]", None),
        ("[0, 2]", [0, 2]),
        ('["1", 0, 1]', [1, 0]),
        ("[]", []),
    ],
)
def test_devices_are_all_or_indices(devices: str, indices: list[int] | None) -> None:
    """GPUs are named as ``all`` or by index, as number or string, each once."""
    selection = only(parse_request(entry(f"{{devices: {devices}, mig-enabled: false}}")))
    assert (None if selection.devices is None else [index for _, index in selection.devices]) == indices


def test_a_slice_knows_where_it_stands() -> None:
    """Later refusals can name the place of a profile and of a device in the document."""
    selection = only(parse_request(NEW))
    assert selection.slices[1].path == "mig-configs.selected[0].mig-devices[1].name"
    assert selection.devices is not None
    assert selection.devices[0][0] == "mig-configs.selected[0].devices[0]"
    assert only(parse_request(OLD)).slices[1].path == "mig-configs.selected[0].mig-devices.4"


ON = "devices: all, mig-enabled: true"
REFUSED = {
    "nothing": ("", "^empty; MIG is turned off by removing the request"),
    "blanks": (" \n\t\n", "^empty"),
    "a comment": ("# later\n", "^empty$"),
    "null": ("null", "^expected a mapping, found nothing$"),
    "a word": ("all-1g.5gb", "^expected a mapping, found all-1g.5gb$"),
    "a list": ("[]", "^expected a mapping, found a list$"),
    "no version": ("{mig-configs: {selected: []}}", "^version: missing$"),
    "another version": ("{version: v2, mig-configs: {selected: []}}", '^version: unknown version "v2"; v1 is known$'),
    "a number as version": ("{version: 1, mig-configs: {selected: []}}", "^version: expected a string, found 1$"),
    "no configurations": ("{version: v1}", "^mig-configs: missing$"),
    "no configuration": (
        "{version: v1, mig-configs: {}}",
        "^mig-configs: which configuration is meant.*known are none$",
    ),
    "a list of configurations": ("{version: v1, mig-configs: []}", "^mig-configs: expected a mapping, found a list$"),
    "an unknown key": ("{version: v1, mig-configs: {}, x: 1}", "^x: unknown key; known here: mig-configs, version$"),
    "an entry that is no list": (
        "{version: v1, mig-configs: {selected: {}}}",
        r"^mig-configs\.selected: expected a list, found a mapping$",
    ),
    "a wrong entry of another configuration": (
        "{version: v1, mig-configs: {selected: [], a.b: [1]}}",
        r'^mig-configs\["a\.b"\]\[0\]: expected a mapping, found 1$',
    ),
    "no devices": (entry("{mig-enabled: false}"), r"selected\[0\]\.devices: missing$"),
    "one index": (
        entry("{devices: 0, mig-enabled: false}"),
        r"devices: expected all or a list of GPU indices, found 0$",
    ),
    "a word for devices": (
        entry("{devices: some, mig-enabled: false}"),
        "devices: expected all or a list .* found some$",
    ),
    "a negative index": (
        entry("{devices: [-1], mig-enabled: false}"),
        r"devices\[0\]: expected a GPU index .*found -1$",
    ),
    "a negative index in quotes": (entry('{devices: ["-1"], mig-enabled: false}'), r'devices\[0\]: .*found "-1"$'),
    "a broken index": (entry("{devices: [0, 1.5], mig-enabled: false}"), r"devices\[1\]: .*found 1\.5$"),
    "an octal index": (entry("{devices: [01], mig-enabled: false}"), r"devices\[0\]: .*found 01$"),
    "a huge index": (entry(f"{{devices: [{'9' * 5000}], mig-enabled: false}}"), r"devices\[0\]: .*found 9+…$"),
    "a wrong index behind all": (entry("{devices: [all, x], mig-enabled: false}"), r"devices\[1\]: .*found x$"),
    "a null index": (entry("{devices: [~], mig-enabled: false}"), r"devices\[0\]: .*found nothing$"),
    "a nested index": (entry("{devices: [[0]], mig-enabled: false}"), r"devices\[0\]: .*found a list$"),
    "nothing about MIG": (entry("{devices: all}"), r"mig-enabled: missing$"),
    "a string for MIG": (
        entry('{devices: all, mig-enabled: "true"}'),
        'mig-enabled: expected true or false, found "true"$',
    ),
    "a number for MIG": (entry("{devices: all, mig-enabled: 1}"), "mig-enabled: expected true or false, found 1$"),
    "no slices with MIG": (entry(f"{{{ON}}}"), "mig-devices: missing, although mig-enabled is true; {} is MIG without"),
    "slices without MIG": (
        entry("{devices: all, mig-enabled: false, mig-devices: {1g.5gb: 1}}"),
        "mig-devices: slices, although mig-enabled is false$",
    ),
    "a word for slices": (entry(f"{{{ON}, mig-devices: 1g.5gb}}"), "mig-devices: expected a list, found 1g.5gb$"),
    "names for slices": (
        entry(f"{{{ON}, mig-devices: [1g.5gb]}}"),
        r"mig-devices\[0\]: expected a mapping, found 1g.5gb$",
    ),
    "a slice without a name": (entry(f"{{{ON}, mig-devices: [{{position: 0}}]}}"), r"mig-devices\[0\]\.name: missing$"),
    "an empty name": (entry(f"{{{ON}, mig-devices: [{{name: ''}}]}}"), r"mig-devices\[0\]\.name: empty$"),
    "a number for a name": (entry(f"{{{ON}, mig-devices: [{{name: 7}}]}}"), r"name: expected a string, found 7$"),
    "a negative position": (
        entry(f"{{{ON}, mig-devices: [{{name: 1g.5gb, position: -1}}]}}"),
        r"mig-devices\[0\]\.position: expected a whole number from 0 to 63, found -1$",
    ),
    "a string for a position": (
        entry(f"{{{ON}, mig-devices: [{{name: a, position: '0'}}]}}"),
        'position: .*found "0"$',
    ),
    "a huge position": (
        entry(f"{{{ON}, mig-devices: [{{name: a, position: {'9' * 9999}}}]}}"),
        "position: .*found 9+…$",
    ),
    "a negative size": (entry(f"{{{ON}, mig-devices: [{{name: a, size: -2}}]}}"), "size: .*found -2$"),
    "an unknown key of a slice": (
        entry(f"{{{ON}, mig-devices: [{{name: a, start: 1}}]}}"),
        r"mig-devices\[0\]\.start: unknown key; known here: name, position, size$",
    ),
    "a number at a position": (
        entry(f"{{{ON}, mig-devices: {{0: 7}}}}"),
        r"mig-devices\.0: expected a string, found 7$",
    ),
    "a large position": (
        entry(f"{{{ON}, mig-devices: {{64: 1g.5gb}}}}"),
        r"mig-devices\.64: .* from 0 to 63, found 64$",
    ),
    "a negative position as key": (
        entry(f"{{{ON}, mig-devices: {{-1: 1g.5gb}}}}"),
        r"mig-devices\.-1: expected a whole",
    ),
    "positions and counts": (
        entry(f"{{{ON}, mig-devices: {{0: 1g.5gb, 1g.5gb: 1}}}}"),
        r"mig-devices\.0: positions and profiles as keys of one mapping$",
    ),
    "a negative count": (
        entry(f"{{{ON}, mig-devices: {{1g.5gb: -7}}}}"),
        r'mig-devices\["1g\.5gb"\]: expected a whole number from 0 to 64, found -7$',
    ),
    "a count with a point": (entry(f"{{{ON}, mig-devices: {{1g.5gb: 7.0}}}}"), r"found 7\.0$"),
    "a count in words": (entry(f"{{{ON}, mig-devices: {{1g.5gb: seven}}}}"), r"found seven$"),
    "a huge count": (entry(f"{{{ON}, mig-devices: {{1g.5gb: 1000000000}}}}"), r"from 0 to 64, found 1000000000$"),
    "a true count": (entry(f"{{{ON}, mig-devices: {{1g.5gb: true}}}}"), r"found true$"),
    "only counts of 0": (entry(f"{{{ON}, mig-devices: {{1g.5gb: 0}}}}"), "mig-devices: no count is above 0"),
    "a profile given twice": (
        entry(f"{{{ON}, mig-devices: {{1g.5gb: 1, 1g.5gb: 2}}}}"),
        r'mig-devices\["1g\.5gb"\]: given twice$',
    ),
    "a filter that is no ID": (
        entry("{device-filter: A100, devices: all, mig-enabled: false}"),
        r"device-filter: expected a PCI device ID such as 0x20B010DE, found A100$",
    ),
    "a filter of numbers": (
        entry("{device-filter: [7], devices: all, mig-enabled: false}"),
        r"device-filter\[0\]: .*found 7$",
    ),
    "a key that is nearly right": (
        entry(f"{{{ON}, mig-devices: [], mig-device: []}}"),
        r"selected\[0\]\.mig-device: unknown key; known here: device-filter, devices, mig-devices, mig-enabled$",
    ),
    "an alias": (
        "version: v1\nmig-configs: &a {selected: []}\n",
        "^mig-configs: anchors and aliases are not supported$",
    ),
    "a tag": (
        entry("!!map {devices: all, mig-enabled: false}"),
        r"^mig-configs\.selected\[0\]: tags are not supported",
    ),
    "a key twice": ("{version: v1, version: v1}", "^version: given twice$"),
    "a megabyte": ("#" * 1024 * 1024, "^has 1048576 characters; 131072 are the most that are read$"),
    "almost as much as is read": ("a: " + "[" * 131_000, "^nested more than 64 deep$|^not YAML"),
    "a long list": (
        entry(f"{{{ON}, mig-devices: [{'{name: a}, ' * 10_000}{{}}]}}"),
        r"mig-devices\[10000\]\.name: missing$|^more than 100000 values$",
    ),
    "control characters": (entry('{devices: ["\\e[2J"], mig-enabled: false}'), r'found "\\x1b\[2J"$'),
    "not YAML": ("version: v1\nmig-configs: {selected: [\n", "^not YAML at line 3, column 1: "),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_a_request_is_refused_with_its_path(case: str) -> None:
    """A text that is not a request in any form is refused at once, in one short sentence that says where it is wrong."""
    text, problem = REFUSED[case]
    begin = time.monotonic()
    with pytest.raises(DocumentError, match=problem) as refusal:
        parse_request(text)
    assert time.monotonic() - begin < 2
    assert len(str(refusal.value)) < 350
    assert str(refusal.value).isprintable()
