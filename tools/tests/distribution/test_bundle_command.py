"""`fairlead bundle`: what each step writes, and how wrong usage is told, with exit code 2."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa

from fairlead.cli.operations import bundle
from fairlead.common.errors import UsageError
from fairlead.distribution import archives, contents, signatures

NAMESPACES = {
    "kind": "List",
    "items": [
        {"kind": "Namespace", "metadata": {"name": "payments", "labels": {"agentpool": "pool1"}}},
        {"kind": "Namespace", "metadata": {"name": "open", "labels": {"team": "a"}}},
    ],
}


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(bundle.command, [str(argument) for argument in arguments])


def refused(*arguments: str | Path) -> str:
    result = run(*arguments)
    assert isinstance(result.exception, UsageError), (result.exception, result.output)
    assert result.exception.exit_code == 2
    return str(result.exception)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A folder with a key, and a bundle of data that is not signed."""
    assert run("key", tmp_path / "key").exit_code == 0
    packed = contents.data({"placement": {"clusters": {}}}).packed()
    (tmp_path / "data.tar.gz").write_bytes(packed)
    return tmp_path


def test_a_key_is_made_once_and_its_private_half_is_private(made: Path) -> None:
    assert (made / "key").stat().st_mode & 0o777 == 0o600
    private, public = signatures.private_key(made / "key"), signatures.public_key(made / "key.pub")
    assert private.public == public
    assert public.algorithm == "ES256"
    assert "exists already" in refused("key", made / "key")


def test_policies_are_built_to_the_same_bytes_and_signed(made: Path) -> None:
    settings = made / "fairlead.yaml"
    settings.write_text("contact: the platform team\n")
    for name in ("a", "b"):
        result = run("build", "-o", made / name, "--settings", settings)
        assert result.exit_code == 0, result.exception
    assert (made / "a").read_bytes() == (made / "b").read_bytes()
    assert run("sign", made / "a", "--key", made / "key", "--expires-in", "30d").exit_code == 0
    archive = archives.read(made / "a")
    assert archive.name == "policies"
    assert archive.manifest["metadata"]["expires"] == (archive.signed or 0) + 30 * 86400
    assert b"the platform team" in archive.files["settings.rego"]
    roots = archive.manifest["roots"]
    assert "system/health" in roots
    assert not {"system", "system/authz", "system/log", "kubernetes"} & set(roots)
    assert not [path for path in archive.files if path == "authz.rego"]
    built = archives.read(made / "b")
    assert (built.revision, built.signed) == (archive.revision, None)


def test_namespaces_become_thin_data(made: Path) -> None:
    (made / "namespaces.json").write_text(json.dumps(NAMESPACES))
    (made / "more.yaml").write_text("placement: {clusters: {a: {region: x}}}\n")
    result = run(
        *("build", "-o", made / "data", "--namespaces", made / "namespaces.json"),
        *("--data", made / "more.yaml"),
    )
    assert result.exit_code == 0, result.exception
    archive = archives.read(made / "data")
    assert archive.manifest["roots"] == ["kubernetes/namespaces", "placement"]
    documents = json.loads(archive.files["data.json"])
    assert documents["placement"] == {"clusters": {"a": {"region": "x"}}}
    assert documents["kubernetes"]["namespaces"] == {
        "payments": {"metadata": {"name": "payments", "labels": {"agentpool": "pool1"}}},
        "open": {"metadata": {"name": "open", "labels": {}, "absentLabels": ["agentpool"]}},
    }


def test_data_of_placement_are_checked_as_for_place(tmp_path: Path) -> None:
    data = tmp_path / "placement.yaml"
    data.write_text("placement:\n  customers:\n    acme: {jurisdictions: [eu], cert: [pci]}\n")
    message = refused("build", "-o", tmp_path / "data.tar.gz", "--data", data)
    assert "placement.yaml:3: placement.customers.acme has the key 'cert'" in message


def test_the_configuration_names_all_that_an_opa_needs(made: Path) -> None:
    result = run(
        *("config", "--url", "https://policies.example.com/", "--public-key", made / "key.pub"),
        *("--bundle", "policies", "--bundle", "data", "--scope", "prod", "--ca-file", "/ca.crt"),
        *("--token-file", "/token", "--signed-since", "1970-01-01T00:01Z"),
        *("--label", "cluster=paris"),
    )
    assert result.exit_code == 0, result.exception
    config = yaml.safe_load(result.output)
    public = signatures.public_key(made / "key.pub")
    assert config["services"]["bundles"] == {
        "url": "https://policies.example.com",
        "tls": {"ca_cert": "/ca.crt", "system_ca_required": False},
        "credentials": {"bearer": {"token_path": "/token"}},
    }
    assert config["keys"] == {public.key_id: {"algorithm": "ES256", "key": public.pem.decode()}}
    assert config["labels"] == {"cluster": "paris", "bundles_signed_since": "60"}
    assert config["default_decision"] == "signed_bundle/main"
    assert {name: each["signing"] for name, each in config["bundles"].items()} == {
        name: {"keyid": public.key_id, "scope": f"prod/{name}"} for name in ("policies", "data")
    }
    assert all(each["persist"] for each in config["bundles"].values())


def test_of_two_keys_the_signature_names_its_own(made: Path) -> None:
    assert run("key", made / "next").exit_code == 0
    config = ("config", "--url", "https://policies.example.com", "--public-key", made / "key.pub")
    result = run(*config, "--public-key", made / "next.pub")
    assert result.exit_code == 0, result.exception
    document = yaml.safe_load(result.output)
    assert len(document["keys"]) == 2
    assert document["bundles"]["policies"]["signing"] == {"scope": "fairlead/policies"}


def test_a_bundle_says_since_when_signatures_count(made: Path) -> None:
    bundle = made / "data.tar.gz"
    config = ("config", "--url", "https://policies.example.com", "--public-key", made / "key.pub")
    assert f"{bundle}: is not signed" in refused(*config, "--signed-since", bundle)
    assert run("sign", bundle, "--key", made / "key").exit_code == 0
    result = run(*config, "--signed-since", bundle)
    assert result.exit_code == 0, result.exception
    since = yaml.safe_load(result.output)["labels"]["bundles_signed_since"]
    assert since == str(archives.read(bundle).signed)


def test_mistakes_name_the_place_and_the_way_out(made: Path) -> None:
    data, key, away = made / "data.tar.gz", made / "key", made / "away"
    url = "https://policies.example.com"
    assert f"{away}: cannot be read" in refused("sign", away, "--key", key)
    assert f"{away}: cannot be read" in refused("sign", data, "--key", away)
    assert f"{data}: holds no private key" in refused("sign", data, "--key", data)
    assert f"{key}: is not a bundle" in refused("sign", key, "--key", key)
    assert "'soon' is not a duration" in refused("sign", data, "--key", key, "--expires-in", "soon")
    config = ("config", "--url", url, "--public-key")
    assert f"{key}: holds a private key" in refused(*config, key)
    assert f"{data}: holds no public key" in refused(*config, data)
    good = (*config, made / "key.pub")
    assert "'noon' is not a time" in refused(*good, "--signed-since", "noon")
    for odd in ("policies.example.com", "ftp://a", "https://a:b", "https://"):
        assert f"{odd!r} is not a URL" in refused("config", "--url", odd)
    secret = ("--public-key", made / "key.pub", "--token-file", "/token")
    for odd in ("http://policies.example.com", "oci://registry.example.com/fleet"):
        plain = ("--plain-http",) if odd.startswith("oci") else ()
        assert "has no TLS" in refused("config", "--url", odd, *plain, *secret)
    assert "'paris' is not a label" in refused(*good, "--label", "paris")
    assert "is not a label" in refused(*good, "--label", "bundles_signed_since=1")


def test_keys_that_opa_cannot_use_are_refused(made: Path) -> None:
    kinds: dict[str, ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey] = {
        "Ed25519": ed25519.Ed25519PrivateKey.generate(),
        "has 1024 bits": _rsa(1024),
    }
    for problem, key in kinds.items():
        path = made / "given"
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        assert problem in refused("sign", made / "data.tar.gz", "--key", path)


@pytest.mark.parametrize(
    "url", ["oci://", "oci://host", "oci://host/Upper", "oci://host/a:", "oci://user@host/a"]
)
def test_what_names_no_repository_is_refused(url: str) -> None:
    assert "names no repository: write it like oci://" in refused("config", "--url", url)


def test_a_registry_has_a_repository_for_each_bundle(made: Path) -> None:
    result = run(
        *("config", "--url", "oci://registry.example.com:5000/a/fleet:prod", "--bundle", "data"),
        *("--public-key", made / "key.pub", "--token-file", "/user"),
    )
    assert result.exit_code == 0, result.exception
    config = yaml.safe_load(result.output)
    assert config["bundles"]["data"]["resource"] == "registry.example.com:5000/a/fleet/data:prod"
    assert config["services"]["bundles"] == {
        "url": "https://registry.example.com:5000",
        "type": "oci",
        "credentials": {"bearer": {"token_path": "/user", "scheme": "Basic"}},
    }


def test_data_that_no_bundle_may_hold_are_refused(made: Path) -> None:
    (made / "own.yaml").write_text("a: 1\nsystem: {authz: {}}\n")
    (made / "list.yaml").write_text("[1]\n")
    (made / "pod.yaml").write_text("kind: Pod\nmetadata: {name: a}\n")
    target = made / "target"
    build = ("build", "-o", target)
    own = made / "own.yaml"
    assert f"{own}:2: the document 'system' is OPA's own" in refused(*build, "--data", own)
    assert "is not a mapping" in refused(*build, "--data", made / "list.yaml")
    assert "is not a Namespace" in refused(*build, "--namespaces", made / "pod.yaml")
    assert not target.exists()


def test_a_policy_that_no_bundle_can_hold_is_refused(made: Path) -> None:
    module = made / "policies" / "mine" / "mine.rego"
    module.parent.mkdir(parents=True)
    for text, problem in {
        "import data.system as other\n": f"{module}:2: names all of data.system",
        'answer := data["system"].main\n': f"{module}:2: names all of data.system",
    }.items():
        module.write_text(f"package mine\n{text}")
        build = ("build", "-o", made / "target", "--policies", made / "policies")
        assert problem in refused(*build)
    module.write_text("package mine\nanswer := data.system.main\n")
    (module.parent / "more.rego").write_text("package  system # of another author\n")
    assert run(*build).exit_code == 0
    assert "system" not in archives.read(made / "target").manifest["roots"]
    text = archives.read(made / "target").files["mine.mine.rego"].decode()
    assert text == "package mine\nanswer := data.fairlead_admission.main\n"


@pytest.mark.parametrize("name", ["../escape", "/"])
def test_a_file_outside_of_a_bundle_is_refused(name: str) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    with pytest.raises(UsageError, match=r"is not a file of a bundle"):
        archives.unpacked(packed.getvalue(), "x")


def test_a_bundle_without_a_manifest_is_refused() -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz"):
        pass
    with pytest.raises(UsageError, match=r"has no \.manifest"):
        archives.unpacked(packed.getvalue(), "x")


def _tar(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def test_what_unpacks_to_more_than_a_bundle_may_hold_is_refused() -> None:
    large = bytes(archives.LARGEST)
    with pytest.raises(UsageError, match="it has more than"):
        archives.unpacked(_tar((tarfile.TarInfo("large.rego"), large)), "x")
    sparse = tarfile.TarInfo("sparse.rego")
    sparse.pax_headers = {"GNU.sparse.map": "0,0", "GNU.sparse.size": str(2**40)}
    with pytest.raises(UsageError, match=r"'sparse.rego' is not a file of a bundle"):
        archives.unpacked(_tar((sparse, b"")), "x")


def test_a_bundle_that_readers_could_take_for_different_ones_is_refused() -> None:
    manifests = [(tarfile.TarInfo(name), b"{}") for name in (".manifest", "/.manifest")]
    with pytest.raises(UsageError, match=r"'/.manifest' is not a file of a bundle"):
        archives.unpacked(_tar(*manifests), "x")
    link = tarfile.TarInfo("data.json")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    with pytest.raises(UsageError, match=r"'data.json' is not a file of a bundle"):
        archives.unpacked(_tar((link, b"")), "x")


def test_a_manifest_that_is_nested_too_deep_is_refused() -> None:
    with pytest.raises(UsageError, match=r"is not a bundle|is not an object"):
        archives.unpacked(_tar((tarfile.TarInfo(".manifest"), b"[" * 10**6)), "x")


def _rsa(bits: int) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)
