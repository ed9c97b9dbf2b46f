"""Manifests as files: what stays the same, what is renewed, and what is never overwritten."""

from __future__ import annotations

import json
import stat
from base64 import b64decode, b64encode
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from command_line import fairlead, refused
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.x509 import verification
from hypothesis import given
from hypothesis import strategies as st

from fairlead.common.errors import InputError, UsageError
from fairlead.common.progress import Progress
from fairlead.deployment import controller, kustomize, manifests, render, secrets_file
from fairlead.deployment.credentials import SERVICE_NAMES, Credentials
from fairlead.deployment.names import RENEWED_BY
from fairlead.pki import certificates
from fairlead.policy import fairlead_yaml
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Certificates, Settings

SILENT = Progress()
DAY = timedelta(days=1)
RENEW = Certificates().renewal


class Printed(NamedTuple):
    """What `fairlead render` prints."""

    objects: list[dict[str, Any]]
    notes: tuple[str, ...]


def rendered(secrets: Path | None = None, **more: Any) -> Printed:
    result = render.render(PolicySet.load(Settings()), secrets=secrets, progress=SILENT, **more)
    return Printed(result.printed, tuple(filter(None, [result.save()])))


def written(base: Path, **more: Any) -> kustomize.Written:
    result = render.render(PolicySet.load(Settings()), progress=SILENT, **more)
    return kustomize.write(result, base)


def kept(path: Path) -> Credentials:
    return secrets_file.load(path).credentials


def lasting(left: timedelta) -> Credentials:
    """Credentials that are valid for `left`."""
    ca = certificates.CA.create("fairlead-opa", left)
    pair = ca.issue("opa", dns=SERVICE_NAMES, server=True, valid=left)
    return Credentials("a-token", pair.cert_pem, pair.key_pem, ca.cert_pem)


def put(path: Path, credentials: Credentials) -> None:
    """Write the credentials into a file in the form of"""
    b64 = {
        name: b64encode(value).decode()
        for name, value in vars(credentials).items()
        if name not in ("token", "scoped")
    }
    token = {"token": b64encode(credentials.token.encode()).decode(), "authz.rego": ""}
    tls = {"tls.crt": b64["certificate"], "tls.key": b64["key"], "ca.crt": b64["ca"]}
    documents = [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": "fairlead"},
            "data": data,
        }
        for name, data in (("opa-token", token), ("opa-tls", tls))
    ]
    path.write_text(yaml.safe_dump_all(documents))


def bundles(objects: list[dict[str, Any]]) -> set[bytes]:
    """The CAs by which the API server verifies OPA."""
    webhooks = [
        manifest["webhooks"]
        for manifest in objects
        if manifest["kind"].endswith("WebhookConfiguration")
    ]
    assert len(webhooks) == 3
    return {b64decode(webhook["clientConfig"]["caBundle"]) for each in webhooks for webhook in each}


def verified(certificate: bytes, ca: bytes) -> bool:
    """Whether a client that trusts `ca` accepts the certificate for the name by which API servers
    call OPA.
    """
    store = verification.Store(x509.load_pem_x509_certificates(ca))
    verifier = (
        verification.PolicyBuilder()
        .store(store)
        .build_server_verifier(x509.DNSName("opa.fairlead.svc"))
    )
    try:
        verifier.verify(x509.load_pem_x509_certificate(certificate), [])
    except verification.VerificationError:
        return False
    return True


def cas(pem: bytes) -> list[bytes]:
    """The serial numbers of the certificates in `pem`, in their order."""
    return [
        certificate.fingerprint(hashes.SHA256())
        for certificate in x509.load_pem_x509_certificates(pem)
    ]


@given(st.text(st.sampled_from("ab \t\n#:|-'\"\u00e9\u2028\r")))
def test_any_text_is_read_back_as_it_was(text: str) -> None:
    assert yaml.safe_load(manifests.to_yaml([{"data": {"key": text}}])) == {"data": {"key": text}}


def test_policies_are_readable_lines() -> None:
    (policies,) = [manifest for manifest in rendered().objects if manifest["kind"] == "ConfigMap"]
    lines = manifests.to_yaml([policies]).splitlines()
    for module in policies["data"].values():
        assert {f"    {line}" for line in module.splitlines() if line} <= set(lines)


@pytest.mark.parametrize("sidecar", ["sync", "kube-mgmt"])
def test_with_a_file_of_secrets_the_output_stays_the_same_and_fits_it(
    tmp_path: Path, sidecar: str
) -> None:
    path = tmp_path / "new" / "secrets.yaml"
    first = rendered(path, sidecar=sidecar)
    text = path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "made" in first.notes[0]
    again = rendered(path, sidecar=sidecar)
    assert manifests.to_yaml(again.objects) == manifests.to_yaml(first.objects)
    assert again.notes == ()
    assert path.read_bytes() == text
    assert "Secret" not in {manifest["kind"] for manifest in first.objects}
    assert bundles(first.objects) == {kept(path).ca}
    assert kept(path).token not in manifests.to_yaml(first.objects)


def test_the_file_holds_both_secrets_as_they_are_applied(tmp_path: Path) -> None:
    path = tmp_path / "secrets.yaml"
    without = rendered(path).objects
    secrets = list(yaml.safe_load_all(path.read_text()))
    whole = [manifest for manifest in rendered().objects if manifest["kind"] == "Secret"]
    # a controller in the cluster leaves it alone
    whole[1]["metadata"]["annotations"][RENEWED_BY] = "fairlead render"
    assert [(s["type"], s["metadata"], s["data"].keys()) for s in secrets] == [
        (s["type"], s["metadata"], s["data"].keys()) for s in whole
    ]
    assert len(without) + len(secrets) == len(rendered().objects)


@pytest.mark.parametrize(
    ("left", "renewed"), [(RENEW - DAY, True), (RENEW + DAY, False), (-DAY, True)]
)
def test_a_certificate_that_ends_soon_is_renewed_and_its_ca_stays_trusted(
    tmp_path: Path, left: timedelta, renewed: bool
) -> None:
    path, old = tmp_path / "secrets.yaml", lasting(left)
    put(path, old)
    result = rendered(path)
    new = kept(path)
    assert new.token == old.token
    assert (new.certificate != old.certificate) is renewed
    assert verified(new.certificate, new.ca)
    assert verified(old.certificate, new.ca) is (left > timedelta(0))
    assert verified(new.certificate, old.ca) is not renewed
    assert new.remaining > RENEW
    assert bundles(result.objects) == {new.ca}
    assert ("certificate renewed, until" in result.notes[0]) is renewed
    assert rendered(path).notes == ()


def test_renewing_replaces_the_token_and_trusts_one_ca_of_the_past_alone(
    tmp_path: Path,
) -> None:
    path = tmp_path / "secrets.yaml"
    rendered(path)
    states = [kept(path)]
    for _ in range(2):
        rendered(path, renew=True)
        states.append(kept(path))
    first, second, third = states
    assert len({state.token for state in states}) == 3
    assert cas(second.ca)[1:] == cas(first.ca)
    assert cas(third.ca)[1:] == cas(second.ca)[:1]
    with pytest.raises(UsageError, match="--secrets"):
        rendered(renew=True)


def test_a_certificate_that_kubelets_cannot_renew_in_time_is_refused(tmp_path: Path) -> None:
    short = Settings.model_validate({"certificates": {"life": "14m"}})
    path = tmp_path / "secrets.yaml"
    with pytest.raises(UsageError, match="at least 15m"):
        render.render(PolicySet.load(short), secrets=path, progress=Progress())
    assert not path.exists()


def test_a_changed_authz_policy_and_what_people_added_are_kept_apart(tmp_path: Path) -> None:
    path = tmp_path / "secrets.yaml"
    rendered(path)
    token, tls = yaml.safe_load_all(path.read_text())
    right = dict(token["data"])
    token["metadata"]["annotations"] = {"mine": "stays"}
    token["data"]["authz.rego"] = "b2xk"
    path.write_text(yaml.safe_dump_all([token, tls]))
    assert "authz policy" in rendered(path).notes[0]
    token, again = yaml.safe_load_all(path.read_text())
    assert token["data"] == right
    assert token["metadata"]["annotations"] == {"mine": "stays"}
    assert again == tls


@pytest.mark.parametrize(
    ("certificate", "key", "ca", "words"),
    [
        ("one", "other", "one", "tls.key is not the key of tls.crt"),
        ("one", "one", "other", "tls.crt was issued by none of ca.crt"),
        ("one", "none", "one", "holds no token and certificate that can be used"),
        ("none", "one", "one", "a part is missing, damaged or encrypted"),
    ],
)
def test_credentials_that_do_not_fit_are_refused(
    tmp_path: Path, certificate: str, key: str, ca: str, words: str
) -> None:
    of = {
        "one": lasting(60 * DAY),
        "other": lasting(60 * DAY),
        "none": Credentials("", b"-", b"-", b"-"),
    }
    path = tmp_path / "secrets.yaml"
    put(path, Credentials("a-token", of[certificate].certificate, of[key].key, of[ca].ca))
    before = path.read_bytes()
    with pytest.raises(InputError, match=words) as error:
        rendered(path)
    assert str(error.value).startswith(f"{path}: ")
    assert path.read_bytes() == before


SECRET = (
    "{apiVersion: v1, kind: Secret, metadata: {name: opa-token}, data: {token: YQ==, "
    "authz.rego: YQ==}}"
)
SEALED = (
    "{apiVersion: v1, kind: Secret, metadata: {name: opa-tls}, data: {tls.crt: 'ENC[x,é]', "
    "tls.key: a, ca.crt: a}}"
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ": is empty"),
        ("a: [", ":1: is not valid YAML"),
        ("[]", ":1: a mapping is expected"),
        ("apiVersion: v1\nkind: List\nitems: []", ":2: kind is"),
        (SECRET, ": has to hold the Secrets opa-token and opa-tls"),
        (f"{SECRET}\n---\n{SECRET}", ": has to hold the Secrets opa-token and opa-tls"),
        (
            f"{SECRET}\n---\n{SEALED}",
            ": holds no token and certificate that can be used (a part is missing, damaged or encr",
        ),
        (SECRET.replace(", data:", ", stringData:"), ":1: data"),
        (SECRET.replace("YQ==", "1", 1), ":1: data.token"),
    ],
    ids=["empty", "half", "list", "List", "one", "twice", "encrypted", "stringData", "number"],
)
def test_a_file_that_holds_no_secrets_is_refused_with_its_line(
    tmp_path: Path, text: str, words: str
) -> None:
    path = tmp_path / "secrets.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        rendered(path)
    with pytest.raises(InputError) as again:
        written(tmp_path / "base", secrets=path)
    assert str(error.value) == str(again.value)
    assert f"{path}{words}" in str(error.value)
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_text() == text


def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    assert f"{file / 'secrets.yaml'}: cannot be written" in refused(
        "render", "--secrets", file / "secrets.yaml"
    )
    assert f"{tmp_path}: cannot be read" in refused("render", "--secrets", tmp_path)
    assert f"{file}: is not a folder" in refused("render", "--kustomize", file)
    assert "cannot be written" in refused("render", "--kustomize", file / "base")
    assert "--secrets" in refused("render", "--renew")
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("sidecar", ["sync", "kube-mgmt"])
def test_a_base_is_the_same_whatever_the_credentials(tmp_path: Path, sidecar: str) -> None:
    texts = []
    for number in range(2):
        base = tmp_path / str(number) / "base"
        secrets = base.with_name("secrets.yaml")
        written(base, secrets=secrets, sidecar=sidecar)
        texts.append({path.name: path.read_text() for path in base.iterdir()})
        assert kept(secrets).token not in "".join(texts[-1].values())
    alone = tmp_path / "alone"
    written(alone, sidecar=sidecar)
    texts.append({path.name: path.read_text() for path in alone.iterdir()})
    assert texts[0] == texts[1] == texts[2]
    assert "caBundle:" not in "".join(texts[0].values())


def test_rendering_again_changes_nothing(tmp_path: Path) -> None:
    base, secrets = tmp_path / "base", tmp_path / "secrets.yaml"
    first = written(base, secrets=secrets)
    assert set(first.states.values()) == {"written"}
    assert set(first.states) == {path for path in tmp_path.rglob("*") if path.is_file()}
    times = {path: path.stat().st_mtime_ns for path in first.states}
    again = written(base, secrets=secrets)
    assert again.states == dict.fromkeys(first.states, "unchanged")
    assert again.notes == ()
    assert {path: path.stat().st_mtime_ns for path in again.states} == times


@pytest.mark.parametrize(
    "name", ["base/90-webhook.yaml", "base/kustomization.yaml", "base/Kustomization", "trust.yaml"]
)
def test_a_file_that_is_somebody_elses_stops_all_of_it(tmp_path: Path, name: str) -> None:
    theirs = tmp_path / name
    theirs.parent.mkdir(exist_ok=True)
    theirs.write_text("mine: true\n")
    with pytest.raises(UsageError) as error:
        written(tmp_path / "base", secrets=tmp_path / "secrets.yaml")
    assert str(error.value).startswith(f"{theirs}: ")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [theirs]
    assert theirs.read_text() == "mine: true\n"


def test_what_is_no_longer_rendered_goes_and_what_is_somebody_elses_stays(tmp_path: Path) -> None:
    base, secrets = tmp_path / "base", tmp_path / "secrets.yaml"
    written(base, secrets=secrets, sidecar="kube-mgmt")
    made = (base / "10-namespace.yaml").read_text()
    (base / "15-gone.yaml").write_text(made)
    (base / "mine.yaml").write_text("mine: true\n")
    again = written(base, secrets=secrets, sidecar="sync")
    assert {path for path, state in again.states.items() if state == "removed"} == {
        base / "15-gone.yaml",
        tmp_path / "restart.yaml",
    }
    assert not (base / "15-gone.yaml").exists()
    assert (base / "mine.yaml").exists()
    assert "restart" not in (tmp_path / "kustomization.yaml").read_text()


def test_the_overlays_kustomization_can_be_taken_over(tmp_path: Path) -> None:
    base, secrets, at = (
        tmp_path / "base",
        tmp_path / "secrets.yaml",
        tmp_path / "kustomization.yaml",
    )
    written(base, secrets=secrets, sidecar="kube-mgmt")
    text = at.read_text().partition("\n")[2].replace("secrets.yaml", "sealed.yaml")
    at.write_text(text)
    again = written(base, secrets=secrets, renew=True, sidecar="kube-mgmt")
    assert at.read_text() == text
    assert again.states[at] == "kept"
    assert again.states[tmp_path / "trust.yaml"] == "written"
    assert "base, secrets.yaml, trust.yaml, restart.yaml" in again.notes[0]


def test_an_overlay_is_beside_its_base_and_never_inside(tmp_path: Path) -> None:
    base = tmp_path / "base"
    for inside in (base / "secrets.yaml", base / "deeper" / "secrets.yaml"):
        with pytest.raises(UsageError, match="is inside"):
            written(base, secrets=inside)
    for taken in ("trust.yaml", "kustomization.yaml"):
        with pytest.raises(UsageError, match=r"name it secrets\.yaml"):
            written(base, secrets=tmp_path / taken)
    assert not list(tmp_path.iterdir())
    written(base, secrets=tmp_path / "one" / "secrets.yaml")
    overlay = yaml.safe_load((tmp_path / "one" / "kustomization.yaml").read_text())
    assert overlay["resources"] == ["../base", "secrets.yaml"]


def test_results_are_told_as_rows(tmp_path: Path) -> None:
    done = fairlead("render", "--kustomize", tmp_path, "-o", "json")
    assert {row["state"] for row in json.loads(done.stdout)} == {"written"}
    assert {Path(row["file"]) for row in json.loads(done.stdout)} == set(tmp_path.iterdir())
    kinds = [row["kind"] for row in json.loads(fairlead("render", "-o", "json").stdout)]
    assert kinds == [row["kind"] for row in yaml.safe_load_all(fairlead("render").stdout)]


@pytest.mark.parametrize("named", [(), ("--sidecar", "sync")])
def test_a_sidecar_that_nobody_named_is_told(named: tuple[str, ...]) -> None:
    done = fairlead("render", *named)
    note = "the sidecar is sync: if yours is kube-mgmt, keep it by --sidecar kube-mgmt"
    assert (note in done.stderr) == (not named)


def test_with_objects_git_has_what_the_controller_does_not_make(tmp_path: Path) -> None:
    folder = tmp_path / "policies"
    fairlead("new", "policy", "some-label", "--folder", folder)
    file = tmp_path / "fairlead.yaml"
    file.write_text(f"contact: '#ours'\nplacement: true\npolicies: [{folder}]\n")
    base = tmp_path / "base"
    arguments = ("render", "--settings", file, "--objects", "--kustomize", base)
    assert fairlead(*arguments).returncode == 0
    objects = list(
        yaml.safe_load_all("---\n".join(path.read_text() for path in base.glob("[0-9]*.yaml")))
    )
    identities = {(each["kind"], each["metadata"]["name"]) for each in objects}
    policies = PolicySet.load(fairlead_yaml.load(file))
    credentials = Credentials.fresh().opening(policies.settings.scopes())
    every = manifests.render_objects(policies, credentials)
    made = {(each["kind"], each["metadata"]["name"]) for each in every if controller.makes(each)}
    assert {("Secret", "opa-token-placement"), ("ConfigMap", "fairlead-policies")} <= made
    own = {("Fairlead", "fairlead"), ("Policy", "some-label")}
    assert identities - own == {(each["kind"], each["metadata"]["name"]) for each in every} - made
    assert own <= identities
    again = json.loads(fairlead(*arguments, "-o", "json").stdout)
    assert {row["state"] for row in again} == {"unchanged"}
    assert "leave out --sidecar" in refused("render", "--objects", "--sidecar", "sync")
    file.write_text("certificates: cert-manager\n")
    done = fairlead(*arguments)
    assert (done.returncode, "cert-manager need `fairlead deploy`" in done.stderr) == (2, True)
