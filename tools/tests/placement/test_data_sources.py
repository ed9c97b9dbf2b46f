"""The data of clusters from files and URLs: what the later ones change, and what counts while a
URL has no good answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import text_server
from text_server import TextServer
from told_warnings import Warnings

from fairlead.common.errors import InputError
from fairlead.common.yaml_files import Document
from fairlead.placement import cached_urls, data_sources, decisions
from fairlead.placement.decisions import Inputs

DATA = {"placement": {"clusters": {"eu": {"jurisdiction": "eu", "price": {"cpu": 1, "memory": 2}}}}}


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file with data; the cache is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = tmp_path / "data.yaml"
    file.write_text(json.dumps(DATA))
    return str(file)


@pytest.fixture
def server() -> Iterator[TextServer]:
    with text_server.serving() as server:
        server.text = "placement: {clusters: {eu: {price: {cpu: 3}}}}"
        yield server


def read(*sources: str) -> tuple[object, list[str]]:
    progress = Warnings()
    data = data_sources.read(sources, progress)
    return data["placement"]["clusters"]["eu"]["price"], progress.texts


def test_later_data_change_what_earlier_ones_say(data: str, server: TextServer) -> None:
    assert read(data) == ({"cpu": 1, "memory": 2}, [])
    assert read(data, server.url) == ({"cpu": 3, "memory": 2}, [])
    assert read(server.url, data) == ({"cpu": 1, "memory": 2}, [])


def test_only_new_texts_are_sent(data: str, server: TextServer) -> None:
    read(data, server.url)
    assert read(data, server.url) == ({"cpu": 3, "memory": 2}, [])
    server.text, server.etag = server.text.replace("3", "4"), '"2"'
    assert read(data, server.url) == ({"cpu": 4, "memory": 2}, [])
    assert server.answers == [200, 304, 200]


BELOW_LABELS = "write it below labels, if it is no requirement"
MISSPELT = """\
placement:
  clusters:
    eu:
      jurisdiction: eu
      location: on-prem
      regions: north
      provider: acme  # a field of one's own
      labels: {region: north, prices: high}
      price: {cpu: 1, memry: 1}
    us: {jurisdiction: us, location: on-prem, regions: south}
  customers:
    acme: {jurisdictions: [eu], contact: ann, labels: {tier: 1}}
    euro: {jurisdictions: [eu], contact: bob}
  transfers: {}
  settings: {minCluster: 1}
"""


def test_keys_that_are_not_read_are_warnings(tmp_path: Path) -> None:
    file = tmp_path / "data.yaml"
    file.write_text(MISSPELT)
    _, warnings = read(str(file))
    assert warnings == [
        f"{file}:{where} has the key {key!r}, which is not read: {remedy}"
        for where, key, remedy in (
            ("6: placement.clusters.eu (and 1 more)", "regions", "did you mean 'region'?"),
            ("7: placement.clusters.eu", "provider", BELOW_LABELS),
            ("12: placement.customers.acme (and 1 more)", "contact", BELOW_LABELS),
            ("14: placement", "transfers", "did you mean 'transfer'?"),
        )
    ]


def test_clusters_that_are_not_there_are_warnings(tmp_path: Path, data: str) -> None:
    strangers = {
        "transfer": {"eu": {"us": 1, "uk": 1}, "ue": {"eu": 1}},
        "applications": {
            "shop/web": {"clusters": ["us"]},
            "shop/db": {"clusters": {"west-eu-1": {}}},
        },
    }
    file = tmp_path / "further.yaml"
    file.write_text(json.dumps({"placement": strangers}))
    (tmp_path / "us.yaml").write_text("placement: {clusters: {us: {}}}")
    _, warnings = read(data, str(file), str(tmp_path / "us.yaml"))
    assert warnings == [
        f"placement.{field} has clusters that placement.clusters does not have: {names}"
        for field, names in (("transfer", "ue, uk"), ("applications", "west-eu-1"))
    ]


REQUIREMENTS = """\
placement:
  clusters:
    eu:
      jurisdiction: eu
      location: on-prem
      cordon: true
      taints: [{keys: old, effect: NoSchedule}]
  customers:
    acme: {jurisdictions: [eu], certification: [pci]}
  applications:
    shop/web: {clusters: {eu: {weigth: 2}}}
"""


def test_a_misspelt_key_that_would_drop_a_requirement_is_an_error(
    tmp_path: Path, data: str, server: TextServer
) -> None:
    file = tmp_path / "data.yaml"
    file.write_text(REQUIREMENTS)
    with pytest.raises(InputError) as caught:
        read(str(file))
    assert caught.value.exit_code == 2
    assert str(caught.value).splitlines() == [
        f"{file}:{where} has the key {key!r}, which is not read: did you mean {meant!r}?"
        for where, key, meant in (
            ("6: placement.clusters.eu", "cordon", "cordoned"),
            ("7: placement.clusters.eu.taints.0", "keys", "key"),
            ("9: placement.customers.acme", "certification", "certifications"),
            ("11: placement.applications.shop/web.clusters.eu", "weigth", "weight"),
        )
    ]
    file.write_text(json.dumps(DATA))
    server.text = REQUIREMENTS
    with pytest.raises(InputError, match="did you mean 'cordoned'"):
        read(data, server.url)


KEYS = {
    "customers": {
        "certifications": (
            *("cert", "certs", "certification", "certificates", "certifcations", "Certifications"),
            *("requiredCertifications", "CERTIFICATIONS", "certif"),
        ),
        "jurisdictions": ("jurisdiction", "juris", "jurisdictons", "allowedJurisdictions"),
    },
    "clusters": {
        "cordoned": ("cordon", "Cordoned", "isCordoned", "cordonned"),
        "taints": ("taint", "nodeTaints"),
        "capacity": ("Capacity", "maxCapacity", "capacities", "capactiy"),
    },
}
EVERY_KEY = [
    (part, meant, key)
    for part, names in KEYS.items()
    for meant, keys in names.items()
    for key in keys
]


def test_a_requirement_of_another_spelling_is_an_error_of_the_file_and_of_opa(
    tmp_path: Path,
) -> None:
    file = tmp_path / "data.yaml"
    clusters: dict[str, Any] = {}
    customers: dict[str, Any] = {}
    documents = []
    for number, (part, meant, key) in enumerate(EVERY_KEY):
        cluster: dict[str, Any] = {"jurisdiction": f"land{number}", "location": "on-prem"}
        customer: dict[str, Any] = {"jurisdictions": [f"land{number}"]}
        record = customer if part == "customers" else cluster
        record |= {key: ["hipaa"]}
        file.write_text(json.dumps({"placement": {part: {"odd": record}}}))
        with pytest.raises(InputError, match=f"{key!r}, which is not read: did you mean {meant!r}"):
            read(str(file))
        clusters[f"cluster{number}"], customers[f"customer{number}"] = cluster, customer
        metadata = {"name": f"web{number}", "annotations": {"customer": f"customer{number}"}}
        manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}}
        documents.append(Document(file, manifest, None))
    data = {"placement": {"clusters": clusters, "customers": customers}}
    result = decisions.decide(Inputs(documents, data), progress=Warnings())
    for (_, meant, key), placement in zip(EVERY_KEY, result.placements, strict=True):
        sentences = [text for texts in placement.errors.values() for text in texts]
        assert any(
            f'the key "{key}", which is not read: did you mean {meant}?' in text
            for text in sentences
        ), sentences


def test_what_stands_beside_placement_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "data.yaml"
    file.write_text("placement: {clusters: {}}\ncustomers: {}\n")
    with pytest.raises(InputError, match=r"data\.yaml:2: has the key 'customers' beside placement"):
        read(str(file))


@pytest.mark.parametrize("name", ["no", "off", "yes", "'false'", "null", "~"])
def test_names_that_yaml_reads_as_something_else(tmp_path: Path, name: str) -> None:
    file = tmp_path / "data.yaml"
    file.write_text(f"placement:\n  clusters:\n    {name}: {{jurisdiction: eu}}\n")
    with pytest.raises(InputError, match=r"data\.yaml:[23]: .*: quote it"):
        read(str(file))


def test_misspelt_keys_of_an_answer_are_named_by_its_url(data: str, server: TextServer) -> None:
    server.text = "placement: {clusters: {eu: {prices: {cpu: 3}}}}"
    price, (warning,) = read(data, server.url)
    assert price == {"cpu": 1, "memory": 2}
    assert warning == (
        f"{server.url}:1: placement.clusters.eu has the key 'prices', which is not read: "
        "did you mean 'price'?"
    )


@pytest.mark.parametrize("number", [".nan", ".inf", "-.inf"])
def test_numbers_that_json_does_not_have_are_named_with_their_place(
    tmp_path: Path, number: str
) -> None:
    file = tmp_path / "data.yaml"
    file.write_text(f"placement:\n  clusters:\n    eu:\n      price: {{cpu: {number}}}\n")
    with pytest.raises(InputError) as caught:
        read(str(file))
    assert caught.value.exit_code == 2
    assert str(caught.value) == (
        f"{file}:4: is not valid YAML: {number} is a number that JSON does not have: quote it, or "
        "write another number"
    )


@pytest.mark.parametrize(
    ("status", "text", "problem"),
    [
        (500, "", "the server says 500"),
        (404, "", "the server says 404"),
        (304, "", "the server says 304"),
        (200, "<html>Sign in</html>", "the answer: has no data of clusters"),
        (200, "placement: {", "the answer:1: is not valid YAML"),
        (200, "placement: {a: 1, a: 2}", "the key 'a' stands here twice"),
        (200, "", "the answer"),
        (200, "#" * (cached_urls.LARGEST + 1), "more than 16 MiB"),
    ],
)
def test_a_bad_answer_leaves_the_last_good_one(
    data: str, server: TextServer, status: int, text: str, problem: str
) -> None:
    good = server.text
    # 304 is an answer only to whoever has a text.
    expected: tuple[object, list[str]] = ({"cpu": 3, "memory": 2}, [])
    server.status, server.text, server.etag = status, text, '"2"'
    with pytest.raises(InputError, match=problem):
        read(data, server.url)
    server.status, server.text, server.etag = 200, good, '"1"'
    assert read(data, server.url) == expected
    if status == 304:
        return
    server.status, server.text, server.etag = status, text, '"2"'
    price, (warning,) = read(data, server.url)
    assert price == expected[0]
    assert problem in warning
    assert warning.startswith(f"{server.url}: ")
    assert warning.endswith(". The last good answer counts")
    server.status, server.text, server.etag = 200, good.replace("3", "5"), '"3"'
    assert read(data, server.url) == ({"cpu": 5, "memory": 2}, [])


def test_a_server_that_is_away_leaves_the_last_good_answer(data: str) -> None:
    with text_server.serving() as server:
        server.text = "placement: {clusters: {eu: {price: {cpu: 3}}}}"
        url = server.url
        read(data, url)
    price, (warning,) = read(data, url)
    assert price == {"cpu": 3, "memory": 2}
    assert "there is no answer" in warning


def test_messages_have_no_secrets(data: str) -> None:
    with pytest.raises(InputError) as caught:
        read(data, "http://user:hidden@127.0.0.1:9/prices?token=secret")
    assert str(caught.value).startswith("http://127.0.0.1:9/prices: there is no answer")


def test_the_cache_is_private_and_a_broken_one_is_not_used(
    data: str, server: TextServer, tmp_path: Path
) -> None:
    read(data, server.url)
    (kept,) = (tmp_path / "cache").rglob("*.json")
    assert kept.stat().st_mode & 0o777 == 0o600
    kept.write_text("{")
    assert read(data, server.url) == ({"cpu": 3, "memory": 2}, [])
