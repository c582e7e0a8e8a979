"""Lists: selectors, pages, versions."""

from __future__ import annotations

import base64
import json

import pytest

from tests.conformance.speaking import Api, pod

LIST_OPTIONS = 'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: '
QUALIFIED = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


async def five(kube: Api) -> None:
    """ConfigMaps ``a`` to ``e`` with their name as label ``l``; ``e`` has no label, ``d`` has a number too."""
    for name in "abcde":
        labels = {"l": name} if name != "e" else {}
        await kube.config_map(name, labels={**labels, **({"n": "5"} if name == "d" else {})})


async def test_a_list_is_ordered_and_its_items_have_no_kind(kube: Api) -> None:
    """Items come by name; kind and version stand once, at the list."""
    for name in ("b", "a-x", "a"):
        await kube.config_map(name)
    answer = await kube.get(kube.path("configmaps"))
    listed = answer.json
    assert (listed["kind"], listed["apiVersion"]) == ("ConfigMapList", "v1")
    assert answer.names == ["a", "a-x", "b"]
    assert all(set(item) == {"metadata"} for item in listed["items"])
    assert set(listed["metadata"]) == {"resourceVersion"}
    newest = max(int(item["metadata"]["resourceVersion"]) for item in listed["items"])
    assert int(answer.revision) >= newest


async def test_all_namespaces_are_ordered_as_etcd_orders_them(kube: Api) -> None:
    """In a list of all namespaces ``x-1/a`` comes before ``x/a``, since ``-`` sorts before ``/``."""
    other = f"{kube.namespace}-1"
    await kube.create("/api/v1/namespaces", {"metadata": {"name": other}})
    await kube.config_map("a", labels={"test": kube.namespace})
    document = {"metadata": {"name": "a", "labels": {"test": kube.namespace}}}
    await kube.create(f"/api/v1/namespaces/{other}/configmaps", document)
    found = await kube.get("/api/v1/configmaps", query={"labelSelector": f"test={kube.namespace}"})
    assert [item["metadata"]["namespace"] for item in found.json["items"]] == [other, kube.namespace]
    await kube.delete(f"/api/v1/namespaces/{other}")


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("l=a", "a"),
        ("l==a", "a"),
        ("l!=a", "bcde"),
        ("l in (a,b)", "ab"),
        ("l notin (a, b)", "cde"),
        ("l", "abcd"),
        ("!l", "e"),
        ("! l", "e"),
        ("l,l!=a", "bcd"),
        ("l in (a,b),l notin (b,c)", "a"),
        ("n>4", "d"),
        ("n<5", ""),
        ("n > 4", "d"),
        ("l in ()", ""),
        ("l in (a,)", "a"),
        ("l=", ""),
        ("in", ""),
        ("", "abcde"),
    ],
)
async def test_label_selectors_select(kube: Api, selector: str, names: str) -> None:
    """Equality, set and comparison requirements select what kube-apiserver selects."""
    await five(kube)
    answer = await kube.get(kube.path("configmaps"), query={"labelSelector": selector, "fieldSelector": ""})
    # A ConfigMap that a controller of the real cluster publishes has no labels and is not of this test.
    assert "".join(name for name in answer.names if len(name) == 1) == names


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a===b", "unable to parse requirement: found '=', expected: identifier"),
        ("=b", "found '=', expected: !, identifier, or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("a,,b", "found ',', expected: identifier after ','"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (b c)", "unable to parse requirement: found 'c', expected: ',' or ')'"),
        ("a=(b)", "unable to parse requirement: found '(', expected: identifier"),
        ("a!", "unable to parse requirement: found '!', expected: in, notin, =, ==, !=, gt, lt"),
        (
            "a>x",
            (
                "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be "
                "an integer"
            ),
        ),
        (
            "a/b/c=x",
            (
                f'unable to parse requirement: <nil>: Invalid value: "a/b/c": a valid label key {QUALIFIED} with an optional '
                "DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ),
        ),
        (
            "a=" + "x" * 64,
            f'unable to parse requirement: values[0][a]: Invalid value: "{"x" * 64}": must be no more than 63 bytes',
        ),
    ],
)
async def test_label_selectors_that_can_not_be_read(kube: Api, selector: str, message: str) -> None:
    """A malformed selector is a 400 with the parser's sentence."""
    answer = await kube.get(kube.path("configmaps"), query={"labelSelector": selector})
    assert (answer.code_and_reason, answer.message) == ((400, "BadRequest"), message)


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("metadata.name=a", "a"),
        ("metadata.name==a", "a"),
        ("metadata.name!=a", "bcde"),
        ("metadata.name=a,metadata.name=b", ""),
        ("metadata.name=a,metadata.namespace={ns}", "a"),
        ("metadata.namespace!={ns}", ""),
        (",", "abcde"),
    ],
)
async def test_field_selectors_select(kube: Api, selector: str, names: str) -> None:
    """Every resource can be selected by name and namespace."""
    await five(kube)
    answer = await kube.get(kube.path("configmaps"), query={"fieldSelector": selector.format(ns=kube.namespace)})
    assert "".join(name for name in answer.names if len(name) == 1) == names


@pytest.mark.parametrize(
    ("resource", "selector", "message"),
    [
        (
            "configmaps",
            "spec.x=y",
            '"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
        ("configmaps", "metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
        ("configmaps", r"metadata.name=a\x", r"invalid field selector: invalid escape sequence: \x"),
        ("pods", "spec.x=y", "field label not supported: spec.x"),
        ("events", "x=y", "field label not supported: x"),
    ],
)
async def test_field_selectors_that_are_refused(kube: Api, resource: str, selector: str, message: str) -> None:
    """An unknown field or a malformed selector is a 400."""
    answer = await kube.get(kube.path(resource), query={"fieldSelector": selector})
    assert (answer.code_and_reason, answer.message) == ((400, "BadRequest"), message)


async def test_pods_are_selected_by_node_and_phase(kube: Api) -> None:
    """``spec.nodeName`` and ``status.phase`` select pods."""
    node = kube.unique("node")
    await kube.create(kube.path("pods"), pod("bound", nodeName=node))
    await kube.create(kube.path("pods"), pod("free"))
    await kube.merge(kube.path("pods", "bound") + "/status", {"status": {"phase": "Running"}})

    async def names(selector: str) -> list[str]:
        return (await kube.get(kube.path("pods"), query={"fieldSelector": selector})).names

    assert await names(f"spec.nodeName={node}") == ["bound"]
    assert await names("spec.nodeName=") == ["free"]
    assert await names(f"spec.nodeName={node},status.phase=Running") == ["bound"]
    assert await names(f"spec.nodeName={node},status.phase=Pending") == []
    assert await names("status.phase=Pending") == ["free"]
    await kube.delete(kube.path("pods", "bound"), {"gracePeriodSeconds": 0})


async def test_nodes_are_selected_by_schedulability(kube: Api) -> None:
    """A Node that does not say so is schedulable."""
    name = kube.unique("node")
    await kube.create("/api/v1/nodes", {"metadata": {"name": name, "labels": {"test": name}}})

    async def names(value: str) -> list[str]:
        query = {"labelSelector": f"test={name}", "fieldSelector": f"spec.unschedulable={value}"}
        return (await kube.get("/api/v1/nodes", query=query)).names

    assert (await names("false"), await names("true")) == ([name], [])
    await kube.merge(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}})
    assert (await names("false"), await names("true")) == ([], [name])
    await kube.delete(f"/api/v1/nodes/{name}")


async def test_pages_are_of_one_version_though_objects_change(kube: Api) -> None:
    """Pages that follow show the objects as they were at the first page; the rest is counted."""
    await five(kube)
    path = kube.path("configmaps")
    query = {"limit": 2, "fieldSelector": ""}
    first = await kube.get(path, query=query)
    assert first.names == ["a", "b"]
    assert first.json["metadata"]["remainingItemCount"] >= 3
    await kube.delete(kube.path("configmaps", "c"))
    await kube.config_map("cc")
    await kube.merge(kube.path("configmaps", "d"), {"data": {"x": "1"}})
    second = await kube.get(path, query={**query, "continue": first.json["metadata"]["continue"]})
    assert second.names == ["c", "d"]
    assert "data" not in second.json["items"][1]
    assert second.revision == first.revision
    third = await kube.get(path, query={"continue": second.json["metadata"]["continue"]})
    assert third.names[0] == "e"
    assert "cc" not in third.names
    assert third.revision == first.revision
    assert set(third.json["metadata"]) == {"resourceVersion"}


async def test_pages_of_a_selection_are_not_counted(kube: Api) -> None:
    """With a selector there is no ``remainingItemCount``, and the last page may be empty."""
    await five(kube)
    query = {"limit": 1, "labelSelector": "l in (b,d)"}
    pages = []
    token: dict[str, object] = {}
    for _ in range(3):
        answer = await kube.get(kube.path("configmaps"), query={**query, **token})
        pages.append((answer.names, set(answer.json["metadata"])))
        token = {"continue": answer.json["metadata"].get("continue")}
    more = {"resourceVersion", "continue"}
    assert pages == [(["b"], more), (["d"], more), ([], {"resourceVersion"})]


async def test_the_token_names_version_and_start(kube: Api) -> None:
    """A continue token is base64 of JSON with version, revision and the key to go on from."""
    await five(kube)
    answer = await kube.get(kube.path("configmaps"), query={"limit": 2})
    token = answer.json["metadata"]["continue"]
    decoded = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    assert decoded == {"v": "meta.k8s.io/v1", "rv": int(answer.revision), "start": "/b\0"}


@pytest.mark.parametrize("limit", ["0", "-1", "100"])
async def test_a_limit_that_does_not_limit(kube: Api, limit: str) -> None:
    """No limit, a negative one and a large one give one page."""
    await five(kube)
    answer = await kube.get(kube.path("configmaps"), query={"limit": limit})
    assert [name for name in answer.names if len(name) == 1] == list("abcde")
    assert "continue" not in answer.json["metadata"]


@pytest.mark.parametrize(
    ("query", "status", "message"),
    [
        ({"limit": "x"}, 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ({"continue": "%%"}, 400, "invalid continue token: continue key is not valid: "),
        ({"continue": "e30"}, 400, "invalid continue token: continue key is not valid: "),
        (
            {"resourceVersion": "x"},
            400,
            (
                'invalid resource version: resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid '
                "syntax"
            ),
        ),
        (
            {"resourceVersionMatch": "Exact"},
            422,
            LIST_OPTIONS + "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        (
            {"resourceVersionMatch": "Exact", "resourceVersion": "0"},
            422,
            LIST_OPTIONS + 'Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
        ),
        (
            {"resourceVersionMatch": "Some", "resourceVersion": "1"},
            422,
            LIST_OPTIONS + 'Unsupported value: "Some": supported values: "Exact", "NotOlderThan", ""',
        ),
    ],
    ids=["limit", "token", "empty token", "version", "match without version", "exactly 0", "unknown match"],
)
async def test_list_options_that_are_refused(kube: Api, query: dict[str, str], status: int, message: str) -> None:
    """Options that make no sense are a 400 or a 422."""
    answer = await kube.get(kube.path("configmaps"), query=query)
    assert answer.status == status
    assert answer.message.startswith(message)


async def test_a_token_has_its_own_version(kube: Api) -> None:
    """A version beside a continue token is a 400."""
    await five(kube)
    first = await kube.get(kube.path("configmaps"), query={"limit": 2})
    query = {"continue": first.json["metadata"]["continue"], "resourceVersion": first.revision}
    answer = await kube.get(kube.path("configmaps"), query=query)
    assert answer.code_and_reason == (400, "BadRequest")
    assert answer.message == "specifying resource version is not allowed when using continue"


async def test_a_list_can_be_had_as_it_was(kube: Api) -> None:
    """``Exact`` gives the objects at a version, ``NotOlderThan`` and ``0`` those of now, and so does no match."""
    await kube.config_map("a", labels={"test": "yes"})
    old = (await kube.get(kube.path("configmaps"))).revision
    await kube.config_map("b", labels={"test": "yes"})
    selection = {"labelSelector": "test=yes"}

    async def names(**query: object) -> list[str]:
        return (await kube.get(kube.path("configmaps"), query={**selection, **query})).names

    assert await names(resourceVersion=old, resourceVersionMatch="Exact") == ["a"]
    assert await names(resourceVersion=old, limit=5) == ["a"]
    assert await names(resourceVersion=old, resourceVersionMatch="NotOlderThan") == ["a", "b"]
    assert await names(resourceVersion=old) == ["a", "b"]
    assert await names(resourceVersion="0", limit=1) == ["a", "b"]


async def test_a_version_that_is_yet_to_come_is_a_504(kube: Api) -> None:
    """Asking for the future is a time-out with a cause and the advice to come back."""
    await kube.config_map("a")
    for path in (kube.path("configmaps"), kube.path("configmaps", "a")):
        answer = await kube.get(path, query={"resourceVersion": "999999999"})
        assert answer.code_and_reason == (504, "Timeout")
        assert answer.message.startswith("Timeout: Too large resource version: 999999999, current: ")
        assert answer.headers["Retry-After"] == "1"
        assert answer.json["details"] == {
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        }


async def test_get_refuses_a_version_that_is_no_number(kube: Api) -> None:
    """Where a list says 400, a get says 500."""
    await kube.config_map("a")
    answer = await kube.get(kube.path("configmaps", "a"), query={"resourceVersion": "x"})
    assert answer.code_and_reason == (500, None)
    assert answer.message == ('resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax')
