"""A kustomize component that makes the OPAs of `fairlead render` follow a server of bundles."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

import yaml

from fairlead.common.errors import InputError, UsageError
from fairlead.deployment.names import BUNDLES_ANNOTATION, NAMESPACE, OPA, OPA_PODS, POLICIES
from fairlead.distribution import configuration
from fairlead.distribution.configuration import Following

_NAME = "opa-bundles"
_MOUNTED = PurePosixPath("/run/fairlead/bundles")
_TOKEN = PurePosixPath("/run/fairlead/bundles-token")
_CONFIG, _CA = "opa.yaml", "bundles-ca.crt"
_KUSTOMIZATION, _NETWORK = "kustomization.yaml", "network.yaml"
_MADE = "# Made by `fairlead bundle config --kustomize`, which overwrites it.\n"


def files(following: Following, secret: str | None = None) -> dict[str, str]:
    """The files of the component, by name. `following.ca` is a local file here, which the component
    gets a copy of. `secret` names the Secret with the token, in its key `token`. Raises InputError
    if the CA cannot be read, and UsageError for a token in a file.
    """
    if following.token:
        raise UsageError(
            "--token-file: a component goes into Git, and a token does not: put it into a Secret, "
            "and name that by --token-secret"
        )
    if secret:
        following = replace(following, token=_TOKEN / "token")
    texts = {}
    if following.ca:
        texts[_CA] = _text(Path(following.ca))
        following = replace(following, ca=_MOUNTED / _CA)
    texts[_CONFIG] = _MADE + _yaml(configuration.document(following))
    mounted = sorted(texts)
    texts[_NETWORK] = _MADE + _yaml(_network(following.server))
    texts[_KUSTOMIZATION] = _MADE + _yaml(_component(mounted, following, secret))
    return texts


def is_made(folder: Path) -> bool:
    """Whether this module made the component in a folder."""
    try:
        return (folder / _KUSTOMIZATION).read_text("utf-8").startswith(_MADE)
    except (OSError, ValueError):
        return False


def _component(mounted: list[str], following: Following, secret: str | None) -> dict[str, Any]:
    """OPA gets the files, a folder for what it keeps, and the argument that names its
    configuration; the ConfigMap of policies, which a sidecar would load, goes.
    """
    persisted = str(following.persisted)
    token = {"name": "bundles-token"}
    pod = {
        "containers": [
            {
                "name": OPA,
                "volumeMounts": [
                    {"name": "bundles", "mountPath": str(_MOUNTED), "readOnly": True},
                    {"name": "kept-bundles", "mountPath": persisted},
                    *([{**token, "mountPath": str(_TOKEN), "readOnly": True}] if secret else []),
                ],
            }
        ],
        "volumes": [
            {"name": "bundles", "configMap": {"name": _NAME}},
            {"name": "kept-bundles", "emptyDir": {"sizeLimit": "256Mi"}},
            *([{**token, "secret": {"secretName": secret}}] if secret else []),
        ],
    }
    deployment = _patch("apps/v1", "Deployment", OPA, spec={"template": {"spec": pod}})
    deployment["metadata"]["annotations"] = {BUNDLES_ANNOTATION: following.url}
    argument = {
        "op": "add",
        "path": "/spec/template/spec/containers/0/args/1",
        "value": f"--config-file={_MOUNTED / _CONFIG}",
    }
    return {
        "apiVersion": "kustomize.config.k8s.io/v1alpha1",
        "kind": "Component",
        "resources": [_NETWORK],
        "configMapGenerator": [{"name": _NAME, "namespace": NAMESPACE, "files": mounted}],
        "patches": [
            {"patch": _yaml(deployment)},
            {
                "target": {"kind": "Deployment", "name": OPA, "namespace": NAMESPACE},
                "patch": _yaml([argument]),
            },
            {"patch": _yaml({"$patch": "delete", **_patch("v1", "ConfigMap", POLICIES)})},
        ],
    }


def _network(url: str) -> dict[str, Any]:
    """OPA may connect to the server's port, and look up its name: the NetworkPolicy of the base,
    which this one adds to, allows only the ports of API servers.
    """
    address = urlsplit(url)
    server = address.port or {"http": 80}.get(address.scheme, 443)
    ports = [("TCP", server), ("UDP", 53), ("TCP", 53)]
    labels = dict([OPA_PODS.split("=")])
    spec = {
        "podSelector": {"matchLabels": labels},
        "policyTypes": ["Egress"],
        "egress": [{"ports": [{"protocol": name, "port": port} for name, port in ports]}],
    }
    return _patch("networking.k8s.io/v1", "NetworkPolicy", _NAME, spec=spec)


def _patch(version: str, kind: str, name: str, **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def _yaml(value: Any) -> str:
    return yaml.safe_dump(value, sort_keys=False)


def _text(path: Path) -> str:
    try:
        return path.read_text("ascii")
    except (OSError, ValueError) as error:
        raise InputError(
            path, "is not a PEM file that can be read: name the server's CA"
        ) from error
