"""Which cluster a command uses, and the private kubeconfig of one that Fairlead did not create."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import command_line
import pytest
import yaml

from fairlead.clusters import contexts, registry, remote
from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.clusters.registry import Target
from fairlead.common.errors import InputError, UsageError
from lab import targets


@pytest.fixture(autouse=True)
def _bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FAIRLEAD_CLUSTER", "FAIRLEAD_CONTEXT", "KIND_CLUSTER_NAME", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "checkout" / "policies").mkdir(parents=True)
    (tmp_path / "checkout" / "policies" / "main.rego").touch()
    monkeypatch.setenv("FAIRLEAD_HOME", str(tmp_path / "checkout"))


def kubeconfig(path: Path, *contexts: str, **user: Any) -> Path:
    """A kubeconfig with these contexts, the first of them the current one."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": contexts[0] if contexts else "",
        "contexts": [
            {"name": name, "context": {"cluster": f"{name}-c", "user": "u"}} for name in contexts
        ],
        "clusters": [
            {
                "name": f"{name}-c",
                "cluster": {"server": f"https://{name}:6443", "certificate-authority": "ca.crt"},
            }
            for name in contexts
        ],
        "users": [{"name": "u", "user": user}],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(document))
    return path


def test_a_target_is_found_by_flags_and_by_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    assert targets.of_environment() == registry.chosen("embedded") == Target("embedded", "fairlead")
    monkeypatch.setenv("KIND_CLUSTER_NAME", "box")
    monkeypatch.setenv("FAIRLEAD_CONTEXT", "far")
    assert registry.chosen("embedded") == Target("embedded", "fairlead")
    assert registry.chosen("kind") == Target("kind", "box")
    assert registry.chosen("kind", "other") == Target("kind", "other")
    assert registry.chosen("context") == Target("context", "fairlead", "far")
    assert registry.chosen("context", context="near") == Target("context", "fairlead", "near")
    for target in (Target("kind", "box"), Target("context", context="far"), Target()):
        for name in ("FAIRLEAD_CLUSTER", "FAIRLEAD_CONTEXT", "KIND_CLUSTER_NAME"):
            monkeypatch.delenv(name, raising=False)
        for name, value in targets.environment(target).items():
            monkeypatch.setenv(name, value)
        assert targets.of_environment() == target
    monkeypatch.setenv("FAIRLEAD_CLUSTER", "moon")
    with pytest.raises(
        UsageError, match="FAIRLEAD_CLUSTER: 'moon' is not one of embedded, kind, context"
    ):
        targets.of_environment()


def test_flags_that_contradict_each_other_are_refused() -> None:
    for arguments, words in (
        (("context", "x"), "--name is for clusters that Fairlead makes"),
        (("kind", None, "far"), "--context means --cluster context, not kind"),
        (("embedded", None, None, Path("x")), "--kubeconfig is for existing clusters"),
    ):
        with pytest.raises(UsageError, match=words):
            registry.chosen(*arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("status", "--context", "far", "--cluster", "kind"),
            "--context means --cluster context, not kind",
        ),
        (("status", "--context", "far", "--name", "x"), "--name is for clusters"),
        (("status", "--context", "far"), "no context 'far' in"),
        (("status", "--cluster", "context", "--kubeconfig", "nowhere"), "nowhere: cannot be read"),
        (("up", "--context", "near"), "run `fairlead deploy` to install"),
        (("down", "--context", "near"), "run `fairlead uninstall`"),
        (
            ("up", "--cluster", "kind", "--nodes", "2"),
            "--nodes does not apply to a cluster of kind kind",
        ),
        (("up", "--no-deploy"), "--no-deploy does not apply to a cluster of kind embedded"),
        (("deploy", "--check", "--dry-run"), "leave one of them out"),
    ],
)
def test_the_command_line_refuses_them_and_changes_nothing(
    tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    kubeconfig(tmp_path / ".kube" / "config", "near")
    done = command_line.fairlead(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


def test_a_context_named_on_the_command_line_goes_before_the_kind_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRLEAD_CLUSTER", "kind")
    kubeconfig(tmp_path / ".kube" / "config", "near")
    done = command_line.fairlead("status", "--context", "far")
    assert "(there are: near): choose one of them by --context" in done.stderr


def test_an_embedded_cluster_that_does_not_run_is_told() -> None:
    assert isinstance(registry.make(Target()), EmbeddedCluster)
    with pytest.raises(
        UsageError, match=r"no cluster 'nowhere' is running \(running: .*\).*up --name nowhere"
    ):
        registry.find(Target(name="nowhere"))


def test_the_private_kubeconfig_holds_one_context_alone(tmp_path: Path) -> None:
    source = kubeconfig(
        tmp_path / "far" / "config",
        "near",
        "far",
        **{"client-key": "keys/k.pem", "tokenFile": "/t"},
    )
    cluster = remote.of_context("far", source)
    assert (cluster.name, cluster.kind) == ("far", "context")
    assert cluster.kubeconfig.is_relative_to(tmp_path / "checkout" / ".fairlead")
    assert cluster.kubeconfig.stat().st_mode & 0o777 == 0o600
    assert cluster.kubeconfig.parent.stat().st_mode & 0o777 == 0o700
    assert yaml.safe_load(cluster.kubeconfig.read_text()) == {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "far",
        "contexts": [{"name": "far", "context": {"cluster": "far-c", "user": "u"}}],
        "clusters": [
            {
                "name": "far-c",
                "cluster": {
                    "server": "https://far:6443",
                    "certificate-authority": str(tmp_path / "far" / "ca.crt"),
                },
            }
        ],
        "users": [
            {
                "name": "u",
                "user": {"client-key": str(tmp_path / "far" / "keys" / "k.pem"), "tokenFile": "/t"},
            }
        ],
        "extensions": [
            {
                "name": "fairlead.dev/copied-from",
                "extension": dict.fromkeys(("contexts", "clusters", "users"), str(source)),
            }
        ],
    }


@pytest.mark.parametrize(
    "name", ["arn:aws:eks:eu-1:1:cluster/x", "..", "a/../../b", "K8S", "x" * 300, "é"]
)
def test_any_name_of_a_context_makes_a_folder_of_its_own(tmp_path: Path, name: str) -> None:
    source = kubeconfig(tmp_path / "config", name, f"{name}-2")
    folders = {
        remote.of_context(context, source).kubeconfig.parent for context in (name, f"{name}-2")
    }
    assert len(folders) == 2
    assert {folder.parent for folder in folders} == {tmp_path / "checkout" / ".fairlead"}
    assert registry.running() == []


def test_of_several_kubeconfigs_the_first_counts_and_the_current_context_is_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = kubeconfig(tmp_path / "a" / "config", "one", "two", token="first")
    second = kubeconfig(tmp_path / "b" / "config", "two", "three", token="second")
    monkeypatch.setenv("KUBECONFIG", f"{first}:{tmp_path / 'missing'}:{second}")
    assert remote.of_context(None, None).name == "one"
    copy = yaml.safe_load(remote.of_context("three", None).kubeconfig.read_text())
    assert copy["users"][0]["user"] == {"token": "first"}
    ca = copy["clusters"][0]["cluster"]["certificate-authority"]
    assert ca == str(tmp_path / "b" / "ca.crt")


def test_what_is_wrong_with_a_context_is_told_with_the_file_that_its_user_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands read a copy of it, which nobody else knows."""
    clusters, users = tmp_path / "clusters.yaml", tmp_path / "users.yaml"
    clusters.write_text(
        """\
current-context: a
contexts: [{name: a, context: {cluster: a, user: plugin}}]
clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]
"""
    )
    plugin = "{apiVersion: client.authentication.k8s.io/v1, command: no-such-plugin}"
    for user, words in (
        (f"{{exec: {plugin}}}", f"{users}: the exec plugin 'no-such-plugin' gives no credentials"),
        ("{client-certificate: /no/c.pem, client-key: /no/k.pem}", f"{clusters}: is not a usable"),
        ("{token: t}", f"{clusters}: cannot read the API's resources"),
    ):
        users.write_text(f"users: [{{name: plugin, user: {user}}}]")
        monkeypatch.setenv("KUBECONFIG", f"{clusters}:{users}")
        cluster = remote.of_context("a", None)
        assert cluster.kubeconfig.parent.parent.name == ".fairlead"
        with pytest.raises(UsageError) as caught:
            cluster.objects()
        assert str(caught.value).startswith(words)


def test_copies_end_with_their_cluster_and_no_other_does(tmp_path: Path) -> None:
    source = kubeconfig(tmp_path / "config", "near", "far")
    near, far = (remote.of_context(name, source).kubeconfig for name in ("near", "far"))
    near.with_name("opa-ca.crt").touch()
    # an embedded cluster's, by its name
    embedded = near.parent.with_name("context-12345678") / "kubeconfig"
    embedded.parent.mkdir()
    embedded.write_bytes(near.read_bytes())
    embedded.with_name("pki").mkdir()
    contexts.forget(tmp_path / "nowhere")
    contexts.forget_copy(source)
    assert near.exists()
    contexts.forget(kubeconfig(tmp_path / "another-name-for", "near"))
    assert not near.parent.exists()
    contexts.forget_copy(far)
    assert not far.parent.exists()
    assert (source.exists(), embedded.exists()) == (True, True)


def test_a_credential_plugin_beside_the_kubeconfig_is_found(tmp_path: Path) -> None:
    for command, expected in {
        "./bin/login": str(tmp_path / "bin" / "login"),
        "login": "login",
    }.items():
        source = kubeconfig(tmp_path / "config", "near", exec={"command": command, "args": ["x"]})
        copy = yaml.safe_load(remote.of_context(None, source).kubeconfig.read_text())
        assert copy["users"][0]["user"]["exec"] == {"command": expected, "args": ["x"]}


def test_a_context_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    source = kubeconfig(tmp_path / "config", "near", "far")
    with pytest.raises(UsageError, match=rf"no context 'x' in {source} \(there are: far, near\)"):
        remote.of_context("x", source)
    with pytest.raises(UsageError, match=r"no context is the current one.*\(there are: none\)"):
        remote.of_context(None, kubeconfig(tmp_path / "empty"))
    with pytest.raises(
        UsageError, match=rf"no kubeconfig at {tmp_path}/.kube/config: name one by --kubeconfig"
    ):
        remote.of_context(None, None)


@pytest.mark.parametrize(
    "text",
    ["- a\n", "{", json.dumps({"contexts": [{"context": {}}]}), "x: 1\nx: 2\n"],
    ids=["list", "half", "nameless", "twice"],
)
def test_a_file_that_is_no_kubeconfig_is_told_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(InputError, match=str(path)):
        remote.of_context("x", path)


def test_a_context_whose_cluster_is_missing_is_told(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", "near")
    document = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({**document, "clusters": None}))
    with pytest.raises(
        InputError, match="context 'near' names the cluster 'near-c', which is not there"
    ):
        remote.of_context("near", path)


def of_ours(name: str, checkout: Path, *, plan: bool = True) -> Path:
    """The kubeconfig of an embedded cluster in a checkout, as `fairlead up` leaves it."""
    folder = checkout / ".fairlead" / name
    path = kubeconfig(folder / "kubeconfig", f"fairlead-{name}")
    document = yaml.safe_load(path.read_text())
    address = {"server": f"https://127.0.0.1:1{len(name)}", "certificate-authority-data": "eA=="}
    document["clusters"][0]["cluster"] = address
    path.write_text(yaml.safe_dump(document))
    (folder / "processes.json").touch()
    if plan:
        (folder / "pods.json").write_text("{}")
    return path


def test_a_context_of_a_cluster_that_fairlead_made_is_that_cluster(tmp_path: Path) -> None:
    own = of_ours("mine", tmp_path / "checkout")
    copy = tmp_path / "copied"
    copy.write_text(own.read_text())
    for file in (own, copy):
        for context in (None, "fairlead-mine"):
            target = registry.chosen("context", None, context, file)
            assert registry.recognized(target) == Target("embedded", "mine")
    far = kubeconfig(tmp_path / "config", "far")
    kubeconfig(tmp_path / "checkout" / ".fairlead" / "none" / "kubeconfig", "far")
    for name in ("processes.json", "pods.json"):
        (tmp_path / "checkout" / ".fairlead" / "none" / name).write_text("{}")
    others = registry.chosen("context", None, "far", far)
    assert registry.recognized(others) == others, "without a CA nobody knows"
    absent = registry.chosen("context", None, "absent", own)
    assert registry.recognized(absent) == absent, "whoever uses it says that it does not exist"


def test_another_cluster_on_the_same_port_is_not_taken_for_it(tmp_path: Path) -> None:
    own = of_ours("mine", tmp_path / "checkout")
    document = yaml.safe_load(own.read_text())
    document["clusters"][0]["cluster"]["certificate-authority-data"] = "eQ=="
    later = tmp_path / "later"
    later.write_text(yaml.safe_dump(document))
    target = registry.chosen("context", None, None, later)
    assert registry.recognized(target) == target


def test_a_control_plane_without_opas_is_a_cluster_like_any_other(tmp_path: Path) -> None:
    bare = of_ours("bare", tmp_path / "checkout", plan=False)
    target = registry.chosen("context", None, None, bare)
    assert registry.recognized(target) == target


def test_an_embedded_cluster_of_another_checkout_is_left_to_that_one(tmp_path: Path) -> None:
    elsewhere = of_ours("theirs", tmp_path / "elsewhere")
    target = registry.chosen("context", None, None, elsewhere)
    with pytest.raises(UsageError, match=r"'theirs' of another checkout, .*elsewhere: run this"):
        registry.recognized(target)


@pytest.mark.parametrize(
    ("level", "advice"),
    [("0", "add `--name demo`"), ("1", "add `ARGS='--name demo'`")],
    ids=["a command", "make"],
)
def test_a_cluster_with_another_name_is_offered(
    level: str, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAKELEVEL", level)
    monkeypatch.setattr(registry, "running", lambda: ["demo"])
    monkeypatch.setattr(registry, "_running_kind", list)
    with pytest.raises(UsageError) as error:
        registry.find(Target(name="nowhere"))
    assert f"(running: demo): {advice}, or start 'nowhere' with `fairlead up" in str(error.value)
