"""Real OPAs follow bundles on a plain HTTPS server of files: all get each revision, refuse what is
forged, do not decide by what is old, and need no server to start again."""

from __future__ import annotations

import gzip
import json
import tarfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import requests
import sync_world
from bundle_followers import FileServer, Follower, file_server
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from fairlead.clusters.base import OpaServer
from fairlead.common import waiting
from fairlead.common.progress import Progress
from fairlead.distribution import contents, signatures
from fairlead.distribution.archives import LARGEST, SIGNATURES, Archive
from fairlead.operations import deployed_state
from fairlead.policy import policy_files
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

DEADLINE = 180.0
OPAS = 20
NAMESPACES = {
    "payments": {"metadata": {"name": "payments", "labels": {"agentpool": "pool1"}}},
}
REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "u",
        "operation": "CREATE",
        "namespace": "payments",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "object": {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web"},
            "spec": {
                "nodeSelector": {"agentpool": "pool2"},
                "containers": [{"name": "c", "image": "i"}],
            },
        },
    },
}


def until(check: Callable[[], Any], what: str) -> Any:
    return waiting.until(check, deadline=DEADLINE, what=what)


@cache
def policies(contact: str) -> Archive:
    """Policies that name this contact in refusals."""
    settings = Settings(contact=contact)
    return contents.policies(PolicySet.load(settings, further=[policy_files.SIGNED]), Progress())


def content(persisted: Path) -> bytes:
    """What a compressed file begins with that OPA keeps. OPA leaves out what follows the end of the
    archive in it: sometimes the checksum is missing.
    """
    return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(persisted.read_bytes())


def contact(opa: Follower) -> str | None:
    """The contact that an OPA names in a refusal; None if it does not decide."""
    answer = opa.decision(REVIEW)
    return answer["response"]["status"]["message"].rpartition("ask ")[2][:-1] if answer else None


@dataclass
class World:
    """A server, and OPAs that follow it."""

    server: FileServer
    opas: list[Follower]
    folder: Path

    def until_all_decide_by(self, name: str) -> None:
        until(lambda: all(contact(opa) == name for opa in self.opas), f"all ask {name}")

    def follower(self, name: str, **following: Any) -> Follower:
        """One more OPA, which is started."""
        opa = Follower(self.folder / name, self.server, **following)
        opa.launch()
        self.opas.append(opa)
        return opa


@pytest.fixture(scope="module")
def one_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A server with data, and an OPA that follows it."""
    folder = tmp_path_factory.mktemp("world")
    with file_server(folder) as server:
        world = World(server, [], folder)
        try:
            server.publish(contents.data({"kubernetes": {"namespaces": NAMESPACES}}))
            world.follower("0")
            yield world
        finally:
            for opa in world.opas:
                opa.stop()


@pytest.fixture
def world(one_world: World) -> Iterator[World]:
    """The same with the policies of the contact `first`, by which the OPA decides. The OPAs that a
    test starts end with it.
    """
    one_world.server.publish(policies("first"))
    one_world.until_all_decide_by("first")
    yield one_world
    for opa in one_world.opas[1:]:
        opa.stop()
    del one_world.opas[1:]


def test_all_follow_each_revision(world: World) -> None:
    for number in range(1, OPAS):
        world.follower(f"followed-{number}")
    world.until_all_decide_by("first")
    assert all(until(opa.ready, "the OPA is ready") for opa in world.opas)
    second = world.server.publish(policies("second"))
    world.until_all_decide_by("second")
    for opa in world.opas:
        served = deployed_state.served(OpaServer(opa.url, opa.ca), opa.token)
        assert (served.ready, served.revision) == (True, second.revision)


def test_an_opa_that_starts_without_the_server_decides_by_what_it_has_kept(world: World) -> None:
    (opa,) = world.opas
    # OPA decides by a bundle before it has written it.
    persisted = world.folder / "0" / "persisted" / "bundles" / "policies" / "bundle.tar.gz"
    until(lambda: persisted.exists() and b"first" in content(persisted), "the OPA keeps the bundle")
    world.server.away = True
    opa.stop()
    opa.launch()
    until(opa.ready, "the OPA is ready without the server")
    assert contact(opa) == "first"
    world.server.away = False
    world.server.publish(policies("second"))
    world.until_all_decide_by("second")


def test_an_opa_without_the_policies_decides_nothing_and_is_not_ready(world: World) -> None:
    opa = world.follower("empty", names=("data",))
    until(lambda: opa.api().document(["kubernetes"]), "the OPA has the data")
    assert not opa.ready()
    assert opa.decision(REVIEW) is None


def _tampered(world: World) -> bytes:
    signed = world.server.signed(policies("forged"))
    settings = signed.files["settings.rego"].replace(b"forged", b"other!")
    return Archive({**signed.files, "settings.rego": settings}, signed.manifest).packed()


def _added(world: World) -> bytes:
    signed = world.server.signed(policies("forged"))
    return Archive({**signed.files, "more.rego": b"package lib.more\n"}, signed.manifest).packed()


def _later(world: World) -> bytes:
    """An old bundle that claims to be new."""
    signed = world.server.signed(policies("forged"))
    metadata = {**signed.manifest["metadata"], "signed": 2**40}
    return Archive(signed.files, {**signed.manifest, "metadata": metadata}).packed()


def _unsigned(world: World) -> bytes:
    signed = world.server.signed(policies("forged"))
    files = {path: text for path, text in signed.files.items() if path != SIGNATURES}
    return Archive(files, signed.manifest).packed()


def _by_another_key(_: World) -> bytes:
    key = signatures.new_key()
    return signatures.sign(
        policies("forged"), key, scope=signatures.SCOPE, now=2**31, lasts=None
    ).packed()


def _for_another_scope(world: World) -> bytes:
    return world.server.signed(policies("forged"), scope="other").packed()


def _of_data(world: World) -> bytes:
    return world.server.signed(contents.data({"placement": {}})).packed()


def _broken(world: World) -> bytes:
    """What does not compile; its signature is good."""
    archive = policies("forged")
    files = {**archive.files, "broken.rego": b"package lib.broken\nanswer := nothing_like_it\n"}
    return world.server.signed(Archive(files, archive.manifest)).packed()


def _patch(world: World) -> bytes:
    """Changes of data, which carry no signature."""
    change = {"op": "upsert", "path": "/settings/contact", "value": "forged"}
    manifest = world.server.signed(policies("forged")).manifest
    return Archive({"patch.json": json.dumps({"data": [change]}).encode()}, manifest).packed()


FORGERIES = {
    _tampered: "settings.rego: digest mismatch",
    _added: "more.rego not included in bundle signature",
    _later: ".manifest: digest mismatch",
    _unsigned: "missing .signatures.json",
    _by_another_key: "failed to verify JWT signature",
    _for_another_scope: "scope mismatch",
    _of_data: "scope mismatch",
    _patch: "delta bundle",
    _broken: "nothing_like_it",
}


def _logged(opa: Follower, start: int, problem: str) -> bool:
    """Whether OPA's log tells the problem, after so many bytes."""
    return problem.encode() in opa.log.read_bytes()[start:]


def test_what_is_forged_is_refused_and_opa_keeps_what_it_has(world: World) -> None:
    (opa,) = world.opas
    for forge, problem in FORGERIES.items():
        earlier = opa.log.stat().st_size
        world.server.put("policies", forge(world))
        until(partial(_logged, opa, earlier, problem), problem)
        assert contact(opa) == "first", problem
        assert opa.ready(), problem
    world.server.publish(policies("second"))
    world.until_all_decide_by("second")


def test_a_replayed_bundle_is_not_decided_by_where_it_is_too_old(world: World) -> None:
    """OPA itself takes any bundle with a good signature, so policies have to check its time."""
    old = world.server.files["/bundles/policies.tar.gz"]
    second = world.server.publish(policies("second"))
    assert second.signed is not None
    world.server.publish(contents.data({"kubernetes": {"namespaces": NAMESPACES}}))
    since = datetime.fromtimestamp(second.signed, UTC)
    strict = world.follower("strict", since=since)
    (tolerant, _) = world.opas
    world.until_all_decide_by("second")
    assert until(strict.ready, "the OPA is ready")
    world.server.put("policies", old)
    until(lambda: contact(tolerant) == "first", "OPA takes an older bundle")
    until(lambda: contact(strict) is None, "the strict OPA does not decide")
    assert not strict.ready()
    world.server.put("policies", second.packed())
    world.until_all_decide_by("second")
    assert until(strict.ready, "the OPA is ready again")


def test_an_expired_bundle_is_not_decided_by(world: World) -> None:
    (opa,) = world.opas
    key = world.server.key
    expired = signatures.sign(
        policies("second"), key, scope=signatures.SCOPE, now=1000, lasts=timedelta(hours=1)
    )
    world.server.put("policies", expired.packed())
    until(lambda: contact(opa) is None, "the OPA does not decide")
    assert not opa.ready()
    world.server.put(
        "policies", world.server.signed(policies("third"), lasts=timedelta(days=1)).packed()
    )
    world.until_all_decide_by("third")
    assert until(opa.ready, "the OPA is ready again")


def test_a_sidecar_beside_it_still_loads_namespaces_and_leaves_the_bundle_alone(
    world: World,
) -> None:
    opa = world.follower("beside-a-sidecar", names=("policies",))
    until(opa.own_policies, "the OPA has the policies")
    assert not opa.ready()
    sidecar = sync_world.World(opa)  # type: ignore[arg-type]
    sidecar.cluster(namespaces={"payments": {"agentpool": "pool1"}})
    sidecar.settle()
    assert until(opa.ready, "the OPA is ready with the sidecar's data")
    assert contact(opa) == "first"
    world.server.publish(policies("second"))
    until(lambda: contact(opa) == "second", "the OPA follows")
    sidecar.settle()
    assert sidecar.reconciler.lag() == 0
    assert contact(opa) == "second"
    assert opa.ready()


def test_the_authz_policy_stays_and_can_be_replaced(world: World) -> None:
    (opa,) = world.opas
    for path in ("/v1/data", "/v1/policies", "/v1/config"):
        answer = requests.get(f"{opa.url}{path}", verify=str(opa.ca), timeout=DEADLINE)
        assert answer.status_code == requests.codes.unauthorized, path
    assert opa.rotate() is None
    assert contact(opa) == "first"
    assert until(opa.ready, "the OPA is ready after a rotation of its token")
    world.server.publish(policies("second"))
    world.until_all_decide_by("second")


def test_an_opa_does_not_unpack_a_bomb(tmp_path: Path) -> None:
    """The bundle is small, and unpacks to more than a bundle may hold."""
    bomb = tarfile.TarInfo("data.json")
    bomb.size = LARGEST + 1
    with file_server(tmp_path) as server:
        server.put("policies", gzip.compress(bomb.tobuf() + bytes(2**20)))
        opa = Follower(tmp_path / "opa", server)
        opa.launch()
        try:
            problem = f"exceeds configured size_limit_bytes ({LARGEST} bytes)"
            until(lambda: problem in opa.log.read_text(), "the OPA refuses the bundle")
        finally:
            opa.stop()


def test_an_rsa_key_signs_too(tmp_path: Path) -> None:
    pem = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    (tmp_path / "rsa").write_bytes(pem)
    with file_server(tmp_path) as server:
        server.key = signatures.private_key(tmp_path / "rsa")
        assert server.key.public.algorithm == "RS256"
        server.publish(contents.data({"placement": {"clusters": {}}}))
        opa = Follower(tmp_path / "opa", server, names=("data",))
        opa.launch()
        try:
            until(lambda: opa.api().document(["placement"]), "the OPA has the data")
        finally:
            opa.stop()
