"""Shows when an API server has policies and webhooks in force, and what it knows about namespaces.

An API server learns of each change a moment later, and nothing says when. So a marker is created
after the objects that have to be in force. It concerns nothing but ConfigMaps with its own label,
which are sent as dry runs. An API server learns of the objects of one kind in the order of their
changes, so once it applies the marker, it also applies what was there before.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Self

from fairlead.common import waiting
from fairlead.common.errors import FairleadError
from fairlead.kube.api_paths import path_of
from fairlead.kube.clients import Objects
from fairlead.kube.responses import Response

_LABEL = "fairlead.dev/verify"
_MUTATED = "fairlead.dev/verify-mutated"
_VERSION = "admissionregistration.k8s.io/v1"
_DEADLINE = 180.0
"""Seconds within which an API server applies a marker. It looks at policies every second, and
compiles each for some milliseconds."""
_DRY_RUN = {"dryRun": "All"}
_KNOWN = "fairlead verify: this is known"
VALIDATING = "ValidatingAdmissionPolicy"
MUTATING = "MutatingAdmissionPolicy"


class Marker:
    """A marker that is in force in one API server."""

    def __init__(
        self,
        api: Objects,
        *,
        mutating: bool = False,
        parameters: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self._api = api
        self._name = f"fairlead-verify-{secrets.token_hex(4)}"
        self._mutating = mutating
        # The last one of each kind.
        self._parameters = list({entry["kind"]: entry for entry in parameters}.values())
        self._manifests = [
            *(policy for entry in self._parameters for policy in self._parameter_policy(entry)),
            *(self._mutating_policy() if mutating else ()),
            *self._policy(),
        ]

    def knows(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether the policies and webhooks of the API server see exactly these labels of the
        namespace.
        """
        expected = {**labels, "kubernetes.io/metadata.name": namespace}
        return _KNOWN in self._send(self._name, namespace, expected).message

    def _policy(self) -> list[dict[str, Any]]:
        """A policy that refuses a ConfigMap whose annotations are the labels of its namespace."""
        policy = _object(
            VALIDATING,
            self._name,
            {
                "matchConstraints": self._matched(self._name),
                "validations": [
                    {
                        "expression": "object.metadata.annotations != "
                        "namespaceObject.metadata.labels",
                        "message": _KNOWN,
                    }
                ],
            },
        )
        return [policy, self._binding(VALIDATING, {"validationActions": ["Deny"]})]

    def _mutating_policy(self) -> list[dict[str, Any]]:
        labels = f"Object{{metadata: Object.metadata{{labels: {{'{_MUTATED}': 'applied'}}}}}}"
        policy = _object(
            MUTATING,
            self._name,
            {
                "matchConstraints": self._matched(self._name),
                "reinvocationPolicy": "Never",
                "mutations": [
                    {
                        "patchType": "ApplyConfiguration",
                        "applyConfiguration": {"expression": labels},
                    }
                ],
            },
        )
        return [policy, self._binding(MUTATING, {})]

    def _binding(self, kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
        return _object(f"{kind}Binding", self._name, {"policyName": self._name, **spec})

    def _matched(self, mark: str) -> dict[str, Any]:
        rule = {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": ["configmaps"],
        }
        return {"objectSelector": {"matchLabels": {_LABEL: mark}}, "resourceRules": [rule]}

    def _parameter_policy(self, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        """A policy that refuses a ConfigMap if the API server knows these parameters."""
        kind = {key: parameters[key] for key in ("apiVersion", "kind")}
        name = self._mark(parameters["kind"].lower())
        spec = {
            "paramKind": kind,
            "matchConstraints": self._matched(name),
            "validations": [{"expression": "false", "message": _KNOWN}],
        }
        reference = {
            "name": parameters["metadata"]["name"],
            "parameterNotFoundAction": "Deny",
        }
        binding_spec = {"policyName": name, "paramRef": reference, "validationActions": ["Deny"]}
        return [
            _object(VALIDATING, name, spec),
            _object(f"{VALIDATING}Binding", name, binding_spec),
        ]

    def _place(self) -> None:
        for manifest in self._manifests:
            answer = self._api.request("POST", path_of(manifest, None), manifest)
            if not answer.ok:
                raise FairleadError(f"creating {manifest['kind']} {self._name}: {answer.message}")

    def _mark(self, suffix: str) -> str:
        return f"{self._name}-{suffix}"

    def _in_force(self) -> bool:
        kinds = [self._mark(parameters["kind"].lower()) for parameters in self._parameters]
        if not all(_KNOWN in self._send(mark, "default", {}).message for mark in kinds):
            return False
        # Annotations that are the labels of no namespace, which the marker admits.
        admitted = self._send(self._name, "default", {_LABEL: "no label"}).body
        labels = admitted.get("metadata", {}).get("labels", {})
        if self._mutating and _MUTATED not in labels:
            return False
        namespace = self._api.request("GET", "/api/v1/namespaces/default").body
        return self.knows("default", namespace["metadata"]["labels"])

    @contextmanager
    def placed(self) -> Iterator[Self]:
        """Have the marker there during the block, which begins once the API server applies it.
        Raises FairleadError.
        """
        try:
            self._place()
            expectation = "the API server applies the policies and webhooks that were created"
            waiting.until(self._in_force, deadline=_DEADLINE, what=expectation)
            yield self
        finally:
            self._remove()

    def _remove(self) -> None:
        for manifest in reversed(self._manifests):
            self._api.request("DELETE", path_of(manifest, None, manifest["metadata"]["name"]))

    def _send(self, mark: str, namespace: str, annotations: Mapping[str, str]) -> Response:
        metadata = {
            "name": "fairlead-verify",
            "labels": {_LABEL: mark},
            "annotations": dict(annotations),
        }
        config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        return self._api.request("POST", path_of(config_map, namespace), config_map, query=_DRY_RUN)


def placed(
    api: Objects, *, mutating: bool = False, parameters: Sequence[Mapping[str, Any]] = ()
) -> AbstractContextManager[Marker]:
    """A marker during the block, which begins once the API server applies it.

    All policies that deny are then in force, with `mutating` also those that mutate. Policies find
    all of `parameters`, which are custom resources in the order of their creation. Raises
    FairleadError.
    """
    return Marker(api, mutating=mutating, parameters=parameters).placed()


def _object(kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": _VERSION, "kind": kind, "metadata": {"name": name}, "spec": dict(spec)}
