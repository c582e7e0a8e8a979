from __future__ import annotations

import random

import pytest

from nicrails.kube import (
    ApiError,
    Backoff,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    ServerFaultError,
    TooManyRequestsError,
    UnauthorizedError,
)
from nicrails.kube.errors import error_from_answer

REQUEST = "PATCH /api/v1/namespaces/n/configmaps/c"


@pytest.mark.parametrize(
    ("status", "kind", "unknown"),
    [
        (401, UnauthorizedError, False),
        (403, ForbiddenError, False),
        (404, NotFoundError, False),
        (409, ConflictError, False),
        (422, InvalidError, False),
        (429, TooManyRequestsError, False),
        (418, ApiError, False),
        (500, ServerFaultError, True),
        (503, ServerFaultError, True),
        (504, ServerFaultError, True),
    ],
)
def test_answers_are_sorted_by_what_to_do(status: int, kind: type[ApiError], unknown: bool) -> None:
    """F2, F3: each status has its kind, and only a server's fault leaves the outcome of a write unknown."""
    error = error_from_answer(REQUEST, status, {}, b"")
    assert type(error) is kind
    assert error.outcome_unknown is unknown
    assert str(error).startswith(f"{REQUEST}: {status} ")


def test_a_status_object_is_read() -> None:
    """The server's own words, reason and causes are kept."""
    body = (
        b'{"kind":"Status","message":"ConfigMap \\"c\\" is invalid","reason":"Invalid","details":{"causes":'
        b'[{"reason":"FieldValueTooLong","message":"Too long","field":"[]"}]},"code":422}'
    )
    error = error_from_answer(REQUEST, 422, {}, body)
    assert (error.reason, error.message) == ("Invalid", 'ConfigMap "c" is invalid')
    assert error.causes == ("[]: Too long (FieldValueTooLong)",)


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"Too many requests, please try again later.\n", "Too many requests, please try again later."),
        (b"<html><body>Bad\x1b[31m gateway</body></html>", "<html><body>Bad\\x1b[31m gateway</body></html>"),
        (b"{broken", "{broken"),
        (b"[1]", "[1]"),
        (b'{"message": 5, "details": {"causes": "x"}}', '{"message": 5, "details": {"causes": "x"}}'),
        (b"x" * 1_000_000, "x" * 255 + "…"),
    ],
)
def test_any_body_is_safe(body: bytes, shown: str) -> None:
    """F3, F14: a body that is not a Status object is quoted, cut and made printable."""
    assert error_from_answer(REQUEST, 503, {}, body).message == shown


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        ({"Retry-After": "7"}, b"", 7.0),
        ({}, b'{"details":{"retryAfterSeconds":3}}', 3.0),
        ({"Retry-After": "99999999"}, b"", 300.0),
        ({"Retry-After": "soon"}, b"", None),
        ({"Retry-After": "-1"}, b"", None),
        ({}, b"", None),
    ],
)
def test_retry_after(headers: dict[str, str], body: bytes, seconds: float | None) -> None:
    """F2: a server's wish to wait is read from the header or the Status object, and bounded."""
    assert error_from_answer(REQUEST, 429, headers, body).retry_after == seconds


def test_backoff_is_full_jitter() -> None:
    """F1: delays are uniform below a bound that doubles from 0.8 to 30 seconds."""
    backoff = Backoff(rng=random.Random(7))
    bounds = [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]
    samples = []
    for _ in range(200):
        backoff.reset()
        samples.append([backoff.next() for _ in bounds])
    for number, bound in enumerate(bounds):
        delays = [sample[number] for sample in samples]
        assert max(delays) <= bound
        assert max(delays) > bound * 0.9
        assert min(delays) < bound * 0.1


def test_backoff_honours_the_server() -> None:
    """F2: with a Retry-After the delay is at least that, with jitter on top."""
    backoff = Backoff(rng=random.Random(7))
    delays = [backoff.next(10.0) for _ in range(100)]
    assert min(delays) >= 10.0
    assert len(set(delays)) > 90


def test_backoff_outlives_many_failures() -> None:
    """A service that has failed for months still computes a delay."""
    backoff = Backoff(rng=random.Random(7), failures=10_000_000)
    assert backoff.next() <= 30.0
