from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator

import pytest

from nicrails_faker.mig import PRODUCTS, GeometryError, Product, Slice, Wanted, find_product, gpu_instance_id, place

A100 = find_product("A100-40")
NAMES = {"1g": 0, "me": 1, "1g2": 2, "2g": 3, "3g": 4, "4g": 5, "7g": 6}

Counts = tuple[int, ...]
"""How many of each profile of a product, in the order of its profiles."""


def wanted(product: Product, text: str) -> list[Wanted]:
    """``3g 2g@0``: slices by short name, with or without a position."""
    result = []
    for word in text.split():
        name, _, start = word.partition("@")
        result.append(Wanted(profile=product.profiles[NAMES[name]], start=int(start) if start else None))
    return result


def shown(slices: tuple[Slice, ...]) -> list[str]:
    """The slices as :func:`wanted` reads them."""
    names = list(NAMES)
    return [f"{names[A100.profiles.index(piece.profile)]}@{piece.start}" for piece in slices]


MAXIMAL = [
    "7g",
    "3g 3g",
    "4g 3g",
    "4g 2g 1g",
    "4g 1g 1g 1g",
    "3g 2g 2g",
    "3g 2g 1g 1g",
    "3g 1g 1g 1g 1g",
    "2g 2g 2g 1g",
    "2g 2g 1g 1g 1g",
    "2g 1g 1g 1g 1g 1g",
    "1g 1g 1g 1g 1g 1g 1g",
]
SEVEN_SLICES = [product for product in PRODUCTS if product.name != "A30-24"]


@pytest.mark.parametrize("product", SEVEN_SLICES, ids=lambda product: product.name)
@pytest.mark.parametrize(
    "geometry", [*MAXIMAL, "1g2 1g2 1g2 1g2", "1g2 1g2 1g2 1g 1g", "4g 1g2 1g2", "me", "me 2g 3g 1g"]
)
def test_published_geometries_are_accepted(product: Product, geometry: str) -> None:
    """Every published geometry has a legal placement on every product of seven slices, in whatever order it is asked for."""
    for order in set(itertools.islice(itertools.permutations(geometry.split()), 200)):
        slices = place(product, wanted(product, " ".join(order)))
        assert Counter(piece.profile for piece in slices) == Counter(one.profile for one in wanted(product, geometry))
        assert_legal(product, slices)


@pytest.mark.parametrize("geometry", MAXIMAL)
def test_published_geometries_are_maximal(geometry: str) -> None:
    """Nothing but media engines or double memory fits beside a published maximal geometry."""
    for more in ("1g", "2g", "3g", "4g", "7g"):
        with pytest.raises(GeometryError):
            place(A100, wanted(A100, f"{geometry} {more}"))


@pytest.mark.parametrize(
    ("geometry", "problem"),
    [
        ("3g 3g 1g", "1 x 1g.5gb cannot be placed on A100-40: they need 9 memory slots of 8"),
        ("4g 4g", "2 times 4g.20gb on one A100-40: at most 1"),
        ("7g 1g", "8 compute slices on one A100-40: it has 7"),
        ("me me", r"2 times 1g.5gb\+me on one A100-40: at most 1"),
        ("1g " * 8, "8 times 1g.5gb on one A100-40: at most 7"),
        ("1g2 " * 5, "5 times 1g.10gb on one A100-40: at most 4"),
        ("2g 2g 2g 2g", "at most 3"),
        ("3g 3g 3g", "at most 2"),
        ("4g 3g 1g", "8 compute slices"),
        ("4g 2g 2g", "8 compute slices"),
        ("1g2 1g2 1g2 1g2 1g", "they need 9 memory slots of 8"),
        ("1g2 1g2 1g2 1g2 2g", "they need 10 memory slots of 8"),
    ],
)
def test_published_impossibilities_are_refused(geometry: str, problem: str) -> None:
    """A geometry that no GPU can have is refused with the limit that it breaks."""
    with pytest.raises(GeometryError, match=problem):
        place(A100, wanted(A100, geometry))


def test_one_set_of_media_engines_serves_one_slice() -> None:
    """On an A30 two profiles have media engines, and a GPU has one set of them."""
    product = find_product("A30")
    profiles = [Wanted(profile=product.profile(name)) for name in ("1g.6gb+me", "2g.12gb+me")]
    with pytest.raises(GeometryError, match=r"1g.6gb\+me and 2g.12gb\+me on one A30-24: it has media engines for one"):
        place(product, profiles)


def layouts(product: Product, start: int = 0) -> Iterator[Counts]:
    """All that can lie in the memory slots from ``start`` on, found by laying slices from left to right."""
    nothing = (0,) * len(product.profiles)
    if start >= product.layout.memory:
        yield nothing
        return
    yield from layouts(product, start + 1)
    for index, profile in enumerate(product.profiles):
        if start in profile.shape.starts and start + profile.shape.memory <= product.layout.memory:
            for rest in layouts(product, start + profile.shape.memory):
                yield tuple(count + (at == index) for at, count in enumerate(rest))


def multisets(product: Product) -> Iterator[Counts]:
    """All numbers of each profile whose compute slices do not exceed those of the GPU."""
    ranges = [range(product.layout.compute // profile.shape.compute + 1) for profile in product.profiles]
    for counts in itertools.product(*ranges):
        if sum(n * p.shape.compute for n, p in zip(counts, product.profiles, strict=True)) <= product.layout.compute:
            yield counts


@pytest.mark.parametrize("product", PRODUCTS, ids=lambda product: product.name)
def test_every_multiset_within_the_compute_limit_is_judged_as_brute_force_does(product: Product) -> None:
    """A multiset of profiles is accepted exactly if laying slices by brute force can produce it within the maxima."""
    possible = {
        counts
        for counts in layouts(product)
        if all(n <= p.shape.at_most for n, p in zip(counts, product.profiles, strict=True))
        and sum(n for n, p in zip(counts, product.profiles, strict=True) if p.name.endswith("+me")) <= 1
    }
    judged = accepted = 0
    for counts in multisets(product):
        asked = [Wanted(profile=p) for n, p in zip(counts, product.profiles, strict=True) for _ in range(n)]
        judged += 1
        try:
            slices = place(product, asked)
        except GeometryError:
            assert counts not in possible, f"{counts} is possible on {product.name}"
        else:
            accepted += 1
            assert counts in possible, f"{counts} is impossible on {product.name}"
            assert_legal(product, slices)
    assert accepted == len({c for c in possible if within(product, c)})
    assert judged > accepted > 10


def within(product: Product, counts: Counts) -> bool:
    """Whether the GPU has so many compute slices."""
    return sum(n * p.shape.compute for n, p in zip(counts, product.profiles, strict=True)) <= product.layout.compute


def assert_legal(product: Product, slices: tuple[Slice, ...]) -> None:
    """Legal starts, inside the GPU, no overlap, ordered: read from the slots, not from the code under test."""
    slots = [slot for piece in slices for slot in range(piece.start, piece.start + piece.profile.shape.memory)]
    assert len(slots) == len(set(slots))
    assert all(0 <= slot < product.layout.memory for slot in slots)
    assert all(piece.start in piece.profile.shape.starts for piece in slices)
    assert [piece.start for piece in slices] == sorted(piece.start for piece in slices)


def test_given_positions_are_judged_as_brute_force_does() -> None:
    """10,000 random lists of slices, some at given positions, are accepted exactly if an order of trying all starts fits."""
    chance = random.Random(20240611)
    accepted = 0
    for _ in range(10_000):
        product = chance.choice(PRODUCTS)
        asked = [
            Wanted(profile=chance.choice(product.profiles[:-1]), start=chance.choice([None, 0, 1, 2, 3, 4, 5, 6]))
            for _ in range(chance.randint(1, 4))
        ]
        options = [[one.start] if one.start is not None else one.profile.shape.starts for one in asked]
        fits = any(can_lie(product, asked, starts) for starts in itertools.product(*options))
        try:
            slices = place(product, asked)
        except GeometryError:
            assert not fits, asked
        else:
            accepted += 1
            assert fits, asked
            given = Counter((one.profile, one.start) for one in asked if one.start is not None)
            assert given <= Counter((piece.profile, piece.start) for piece in slices)
            assert_legal(product, slices)
    assert 1_000 < accepted < 9_000


def can_lie(product: Product, asked: list[Wanted], starts: tuple[int, ...]) -> bool:
    """Whether the slices may lie at exactly these starts."""
    taken: list[int] = []
    for one, start in zip(asked, starts, strict=True):
        if start not in one.profile.shape.starts:
            return False
        taken += range(start, start + one.profile.shape.memory)
    counts = Counter(one.profile for one in asked)
    return (
        len(taken) == len(set(taken))
        and all(count <= profile.shape.at_most for profile, count in counts.items())
        and sum(count for profile, count in counts.items() if "+me" in profile.name) <= 1
        and sum(one.profile.shape.compute for one in asked) <= product.layout.compute
    )


@pytest.mark.parametrize(
    ("request_", "places"),
    [
        ("1g 1g 1g", ["1g@0", "1g@1", "1g@2"]),
        ("1g 2g 3g", ["3g@0", "2g@4", "1g@6"]),
        ("1g 1g 1g 1g 3g", ["1g@0", "1g@1", "1g@2", "1g@3", "3g@4"]),
        ("2g 3g 2g", ["2g@0", "2g@2", "3g@4"]),
        ("1g2 1g2 1g2 1g 1g", ["1g2@0", "1g2@2", "1g@4", "1g@5", "1g2@6"]),
        ("1g 1g@0 2g", ["1g@0", "1g@1", "2g@2"]),
        ("1g@6 3g", ["3g@0", "1g@6"]),
        ("me 1g", ["1g@0", "me@1"]),
        ("", []),
    ],
)
def test_places_that_are_left_open_are_found_the_same_way_each_time(request_: str, places: list[str]) -> None:
    """Larger slices get the lowest legal places, and the order of the request does not matter."""
    for order in set(itertools.permutations(request_.split())):
        assert shown(place(A100, wanted(A100, " ".join(order)))) == places


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        ("2g@1", "2g.10gb at position 1: on A100-40 it may start at 0, 2, 4"),
        ("2g@6", "2g.10gb at position 6"),
        ("1g@7", "1g.5gb at position 7"),
        ("3g@2", "3g.20gb at position 2: on A100-40 it may start at 0, 4"),
        ("4g@4", "4g.20gb at position 4: on A100-40 it may start at 0$"),
        ("2g@0 1g@1", "1g.5gb at position 1 overlaps 2g.10gb at position 0: both take memory slot 1 of the A100-40"),
        ("1g@3 1g@3", "overlaps 1g.5gb at position 3"),
        ("1g@1 1g@5 3g", "not enough legal places beside those whose positions are given"),
    ],
)
def test_positions_that_cannot_be_are_refused(request_: str, problem: str) -> None:
    """A position that is not legal or is taken is refused with the slice, the position and the reason."""
    with pytest.raises(GeometryError, match=problem):
        place(A100, wanted(A100, request_))


@pytest.mark.parametrize(
    ("total", "size", "start", "number"),
    [
        (8, 8, 0, 0),
        (8, 4, 0, 1),
        (8, 4, 4, 2),
        (8, 2, 0, 3),
        (8, 2, 2, 4),
        (8, 2, 4, 5),
        (8, 1, 0, 7),
        (8, 1, 6, 13),
        (4, 4, 0, 0),
        (4, 1, 0, 3),
        (4, 1, 3, 6),
    ],
)
def test_gpu_instance_ids_are_the_published_ones(total: int, size: int, start: int, number: int) -> None:
    """The instance IDs are those that ``nvidia-smi mig -lgi`` shows on A100 and A30 in published output."""
    assert gpu_instance_id(total, size, start) == number


@pytest.mark.parametrize("product", PRODUCTS, ids=lambda product: product.name)
def test_gpu_instance_ids_are_unique_on_a_gpu(product: Product) -> None:
    """No two places of a GPU have the same instance ID, unless they are the same memory slots."""
    ids: dict[int, frozenset[int]] = {}
    for profile in product.profiles:
        for start in profile.shape.starts:
            piece = Slice(profile=profile, start=start)
            number = gpu_instance_id(product.layout.memory, piece.size, start)
            assert ids.setdefault(number, piece.slots) == piece.slots
