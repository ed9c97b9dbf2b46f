"""The process that writes Secrets to where pods would mount them, with a real API server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest
from tiny_servers import until

from fairlead.clusters.embedded import kubelet, volume
from fairlead.clusters.embedded.bare_cluster import BareCluster
from fairlead.clusters.embedded.kubelet import Volume
from fairlead.common.progress import Progress

NAMESPACE = "mounting"


@pytest.fixture(scope="module")
def control_plane() -> Iterator[BareCluster]:
    with BareCluster(f"test-kubelet-{os.getpid()}") as started:
        started.start_control_plane(workloads=False, progress=Progress())
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        started.objects().apply(namespace)
        yield started


Put = Callable[..., None]


@pytest.fixture
def put(control_plane: BareCluster) -> Iterator[Put]:
    """Creates or changes a Secret to hold exactly these texts; all of them are deleted after the
    test.
    """
    objects = control_plane.objects()
    names = set()

    def make(name: str, **texts: str) -> None:
        data = {key: b64encode(text.encode()).decode() for key, text in texts.items()}
        metadata = {"name": name, "namespace": NAMESPACE}
        objects.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})
        names.add(name)

    yield make
    for name in names:
        objects.delete("v1", "Secret", name, NAMESPACE)


@contextmanager
def following(
    control_plane: BareCluster, log: Path, *volumes: Volume
) -> Iterator[subprocess.Popen[bytes]]:
    """Runs the process as the cluster does; its output goes to `log`."""
    options = {
        "kubeconfig": str(control_plane.kubeconfig),
        "namespace": NAMESPACE,
        "volumes": [asdict(volume) for volume in volumes],
    }
    argv = [sys.executable, "-P", "-m", kubelet.__name__, json.dumps(options)]
    with log.open("wb") as output, subprocess.Popen(argv, stderr=output) as process:
        try:
            yield process
        finally:
            process.kill()


def holds(folder: Path, **texts: str) -> Callable[[], bool]:
    return lambda: volume.read(folder) == {key: text.encode() for key, text in texts.items()}


def test_what_is_there_is_brought_and_so_is_each_change(
    control_plane: BareCluster, tmp_path: Path, put: Put
) -> None:
    """A key that is removed from the Secret is removed from the folder; other Secrets are not
    mounted.
    """
    put("token", token="first", rego="package a")
    put("other", token="wrong")
    whole, part = tmp_path / "whole", tmp_path / "part"
    log = tmp_path / "log"
    with following(
        control_plane, log, Volume(str(whole), "token"), Volume(str(part), "token", ["token"])
    ):
        until(holds(whole, token="first", rego="package a"), "the Secret is there")
        until(holds(part, token="first"), "one key of it is")
        put("token", token="second")
        until(holds(whole, token="second"), "the change is there")
        until(holds(part, token="second"), "in the other folder, too")
    assert (whole / "token").read_text() == "second"
    assert "Secret token, version " in log.read_text()
    assert "second" not in log.read_text()


def test_a_secret_that_comes_later_is_brought(
    control_plane: BareCluster, tmp_path: Path, put: Put
) -> None:
    folder = tmp_path / "later"
    put("before", token="a")
    with following(
        control_plane,
        tmp_path / "log",
        Volume(str(tmp_path / "x"), "before"),
        Volume(str(folder), "later"),
    ):
        until(holds(tmp_path / "x", token="a"), "it follows")
        assert not folder.exists()
        put("later", token="b")
        until(holds(folder, token="b"), "the new Secret is there")


def test_a_secret_that_lacks_a_key_leaves_the_folder_as_it_is(
    control_plane: BareCluster, tmp_path: Path, put: Put
) -> None:
    """A reader must not find a certificate without its key."""
    pair, log = tmp_path / "pair", tmp_path / "log"
    put("pair", cert="1", key="1")
    with following(control_plane, log, Volume(str(pair), "pair", ["cert", "key"])):
        until(holds(pair, cert="1", key="1"), "both are there")
        put("pair", cert="2")
        until(
            lambda: (
                "left as it is, as Secret pair has not all of ['cert', 'key']" in log.read_text()
            ),
            "it is told",
        )
        assert holds(pair, cert="1", key="1")()
        put("pair", cert="3", key="3")
        until(holds(pair, cert="3", key="3"), "both are there again")


def test_it_goes_on_after_the_api_server_was_away(
    control_plane: BareCluster, tmp_path: Path, put: Put
) -> None:
    """Changes during an interruption are written afterwards, although no watch reported them."""
    folder, log = tmp_path / "token", tmp_path / "log"
    put("token", token="first")
    with following(control_plane, log, Volume(str(folder), "token")) as process:
        until(holds(folder, token="first"), "it follows")
        control_plane.restart_server("kube-apiserver")
        put("token", token="second")
        until(holds(folder, token="second"), "it follows again")
        assert process.poll() is None
    assert "the API server " in log.read_text()
