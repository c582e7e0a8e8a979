from __future__ import annotations

import pytest

from nicrails_faker.mig import PRODUCTS, ProductError, find_product, resource_name

# NVIDIA's names, copied from the published tables and not computed: 1g, 1g with double memory, 2g, 3g, 4g, 7g.
PUBLISHED = {
    "A100-40": "1g.5gb 1g.10gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb",
    "A100-80": "1g.10gb 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb",
    "H100-80": "1g.10gb 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb",
    "H100-94": "1g.12gb 1g.24gb 2g.24gb 3g.47gb 4g.47gb 7g.94gb",
    "H100-96": "1g.12gb 1g.24gb 2g.24gb 3g.48gb 4g.48gb 7g.96gb",
    "GH200-96": "1g.12gb 1g.24gb 2g.24gb 3g.48gb 4g.48gb 7g.96gb",
    "H20-96": "1g.12gb 1g.24gb 2g.24gb 3g.48gb 4g.48gb 7g.96gb",
    "H200-141": "1g.18gb 1g.35gb 2g.35gb 3g.71gb 4g.71gb 7g.141gb",
    "GH200-144": "1g.18gb 1g.36gb 2g.36gb 3g.72gb 4g.72gb 7g.144gb",
    "B200-180": "1g.23gb 1g.45gb 2g.45gb 3g.90gb 4g.90gb 7g.180gb",
    "GB200-186": "1g.23gb 1g.47gb 2g.47gb 3g.93gb 4g.93gb 7g.186gb",
    "B300-269": "1g.34gb 1g.67gb 2g.67gb 3g.135gb 4g.135gb 7g.269gb",
    "GB300-278": "1g.35gb 1g.70gb 2g.70gb 3g.139gb 4g.139gb 7g.278gb",
}

# Names as NVML prints them, as GPU Feature Discovery writes them, and as the profiles of fake-gpu-operator have them.
NAMES = {
    "NVIDIA-A100-SXM4-40GB": "A100-40",
    "NVIDIA A100-SXM4-40GB": "A100-40",
    "NVIDIA A100-PCIE-40GB": "A100-40",
    "A100-SXM4-40GB": "A100-40",
    "nvidia-a100-sxm4-40gb": "A100-40",
    "NVIDIA A800 40GB Active": "A100-40",
    "NVIDIA-A100-SXM4-40GB-SHARED": "A100-40",
    "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb": "A100-40",
    "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb.me-SHARED": "A100-40",
    "NVIDIA-A100-SXM4-40GB-MIG-INVALID": "A100-40",
    "NVIDIA A100-SXM4-80GB": "A100-80",
    "NVIDIA A100 80GB PCIe": "A100-80",
    "NVIDIA-A100-80GB-PCIe": "A100-80",
    "NVIDIA A800-SXM4-80GB": "A100-80",
    "NVIDIA A30": "A30-24",
    "NVIDIA-A30-24GB": "A30-24",
    "NVIDIA H100 80GB HBM3": "H100-80",
    "NVIDIA-H100-80GB-HBM3": "H100-80",
    "NVIDIA H100 PCIe": "H100-80",
    "NVIDIA H800": None,
    "NVIDIA H800 PCIe": "H100-80",
    "NVIDIA H100 NVL": "H100-94",
    "NVIDIA-H100-NVL": "H100-94",
    "NVIDIA H100 96GB HBM3": "H100-96",
    "NVIDIA H20": "H20-96",
    "NVIDIA GH200 480GB": "GH200-96",
    "NVIDIA GH200 120GB": "GH200-96",
    "NVIDIA GH200 144G HBM3e": "GH200-144",
    "NVIDIA H200": "H200-141",
    "NVIDIA H200 NVL": "H200-141",
    "NVIDIA B200": "B200-180",
    "NVIDIA GB200": "GB200-186",
    "NVIDIA B300 SXM6 AC": "B300-269",
    "NVIDIA-B300-SXM6-AC": "B300-269",
    "NVIDIA GB300": "GB300-278",
    "NVIDIA GB300 NVL": "GB300-278",
    **{name: name for name in PUBLISHED},
    "A30-24": "A30-24",
}


@pytest.mark.parametrize("product", PUBLISHED)
def test_profiles_have_their_published_names(product: str) -> None:
    """Every 7-slice product has exactly the published profiles, and the first of them with media engines."""
    one, double, *larger = PUBLISHED[product].split()
    names = [profile.name for profile in find_product(product).profiles]
    assert names == [one, f"{one}+me", double, *larger]


def test_a30_has_its_published_profiles() -> None:
    """An A30 has four slices and profiles of its own, two of them with media engines."""
    product = find_product("NVIDIA-A30")
    assert (product.layout.memory, product.layout.compute) == (4, 4)
    assert {profile.name: (profile.shape.at_most, profile.shape.starts) for profile in product.profiles} == {
        "1g.6gb": (4, (0, 1, 2, 3)),
        "1g.6gb+me": (1, (0, 1, 2, 3)),
        "2g.12gb": (2, (0, 2)),
        "2g.12gb+me": (1, (0, 2)),
        "4g.24gb": (1, (0,)),
    }


def test_profiles_have_their_published_ids_maxima_and_starts() -> None:
    """The table of the 7-slice GPUs is that of ``nvidia-smi mig -lgip`` and ``-lgipp``."""
    table = [
        (s.profile_id, s.compute, s.memory, s.at_most, s.starts)
        for s in (profile.shape for profile in find_product("H100-80").profiles)
    ]
    assert table == [
        (19, 1, 1, 7, (0, 1, 2, 3, 4, 5, 6)),
        (20, 1, 1, 1, (0, 1, 2, 3, 4, 5, 6)),
        (15, 1, 2, 4, (0, 2, 4, 6)),
        (14, 2, 2, 3, (0, 2, 4)),
        (9, 3, 4, 2, (0, 4)),
        (5, 4, 4, 1, (0,)),
        (0, 7, 8, 1, (0,)),
    ]


def test_every_product_is_in_the_published_table() -> None:
    """There is no product but those whose names are published."""
    assert {product.name for product in PRODUCTS} == {*PUBLISHED, "A30-24"}


@pytest.mark.parametrize(("name", "product"), [(name, product) for name, product in NAMES.items() if product])
def test_products_are_found_by_the_names_in_use(name: str, product: str) -> None:
    """A product is found however NVML, GPU Feature Discovery, fake-gpu-operator or a person writes it."""
    assert find_product(name).name == product


def test_the_same_profile_name_is_another_slice_on_another_product() -> None:
    """``1g.10gb`` is double memory on an A100-40, at most 4, and a plain seventh on an A100-80."""
    small, large = (find_product(name).profile("1g.10gb").shape for name in ("A100-40", "A100-80"))
    assert (small.memory, small.at_most) == (2, 4)
    assert (large.memory, large.at_most) == (1, 7)


@pytest.mark.parametrize(
    ("name", "memory", "product"),
    [
        ("NVIDIA-A100-SXM4", 40960, "A100-40"),
        ("NVIDIA-A100-SXM4", 40536, "A100-40"),
        ("NVIDIA-A100-SXM4", 81920, "A100-80"),
        ("NVIDIA-A100-SXM4", 80000, "A100-80"),
        ("NVIDIA H100", 81559, "H100-80"),
        ("NVIDIA H100", 95830, "H100-94"),
        ("NVIDIA H100", 97871, "H100-96"),
        ("NVIDIA-GH200", 97871, "GH200-96"),
        ("NVIDIA-GH200", 146831, "GH200-144"),
        ("NVIDIA-A100-SXM4-40GB", 81920, "A100-40"),
        ("NVIDIA GB200", 196608, "GB200-186"),
        ("NVIDIA-H200", 11441, "H200-141"),
    ],
)
def test_memory_decides_where_the_name_does_not(name: str, memory: int, product: str) -> None:
    """The GPU memory chooses between boards of one name, and never overrules a name that says its size."""
    assert find_product(name, memory).name == product


@pytest.mark.parametrize(
    "name", ["Tesla-T4", "NVIDIA L40S", "Tesla V100-SXM2-16GB", "Tesla V100S-PCIE-32GB", "Tesla-K80"]
)
def test_products_without_mig_are_refused_as_that(name: str) -> None:
    """A GPU that has no MIG is told apart from one that is not known."""
    with pytest.raises(ProductError, match=f'^"{name}" is not MIG-capable$'):
        find_product(name, 16384)


@pytest.mark.parametrize(
    ("name", "memory", "problem"),
    [
        ("", None, r"unknown GPU product \"\"; known are A100"),
        ("NVIDIA", None, "unknown GPU product"),
        ("NVIDIA-RTX-6000", None, "unknown GPU product"),
        ("NVIDIA A100X", None, "unknown GPU product"),
        ("GRID A100-40C", None, "unknown GPU product"),
        ("NVIDIA A100-40C", None, 'nothing is known of "40C"'),
        ("NVIDIA GB300-WS", None, 'nothing is known of "WS"'),
        ("NVIDIA H20-3e", None, 'nothing is known of "3E"'),
        ("NVIDIA A100-SXM-64GB", None, "A100 is known with 40 or 80 GB"),
        ("NVIDIA H100", None, "has 80 or 94 or 96 GB: name the size"),
        ("NVIDIA A100-SXM4", 0, "has 40 or 80 GB: name the size"),
        ("NVIDIA A100-SXM4", 65536, "has 40 or 80 GB: name the size"),
        ("NVIDIA H800", None, "has 80 or 94 or 96 GB: name the size"),
        ("A100\x1b[2J", None, r"unknown GPU product \"A100\\x1b\[2J\""),
        ("A" * 5000, None, "unknown GPU product"),
    ],
)
def test_unknown_products_are_refused(name: str, memory: int | None, problem: str) -> None:
    """A name that is not known for sure is refused in one short, printable sentence."""
    with pytest.raises(ProductError, match=problem) as refusal:
        find_product(name, memory)
    assert len(str(refusal.value)) < 400
    assert str(refusal.value).isprintable()


def test_a_profile_of_another_product_is_refused_with_those_there_are() -> None:
    """The refusal of a profile lists the profiles of the product."""
    with pytest.raises(ProductError, match=r'no profile "1g.5gb" on A100-80; it has 1g.10gb, 1g.10gb\+me, 1g.20gb, 2g'):
        find_product("A100-80").profile("1g.5gb")


@pytest.mark.parametrize(
    ("profile", "resource"),
    [
        ("1g.5gb", "nvidia.com/mig-1g.5gb"),
        ("1g.5gb+me", "nvidia.com/mig-1g.5gb.me"),
        ("1g.24gb-me", "nvidia.com/mig-1g.24gb-me"),
        ("1g.24gb+me.all", "nvidia.com/mig-1g.24gb.me.all"),
    ],
)
def test_resource_names_have_a_dot_for_a_plus(profile: str, resource: str) -> None:
    """A profile's resource is the one that NVIDIA's plugin gives it."""
    assert resource_name(profile) == resource
