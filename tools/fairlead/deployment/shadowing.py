"""Engines in pairs: one enforces the policies, and another one, the shadow, decides beside it
without effect.

One of a pair is `cel`, whose objects an annotation of the policies' ConfigMap holds. As a shadow,
they decide nothing (`without_effect`). The other one runs in the pods of OPA's Deployment, which no
enforcing webhook asks if it is the shadow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath, PurePosixPath
from typing import Any

from fairlead.common import packed_texts
from fairlead.common.digests import digest
from fairlead.common.errors import FairleadError, UsageError
from fairlead.deployment import component_flags as flags
from fairlead.deployment.names import (
    CEL_ENGINE,
    ENGINE_ANNOTATION,
    FINAL_STATE_ANNOTATION,
    NAMESPACE,
    OBJECTS,
    OBJECTS_ANNOTATION,
    OPA_ENGINE,
    POLICIES,
    PYTHON_ENGINE,
    SHADOW,
    SHADOW_ANNOTATION,
    SHADOW_SECRET,
    SHADOW_WEBHOOKS,
)
from fairlead.opa.arguments import MOUNTED, OPA_PORT, Liveness
from fairlead.policy.bundles import Bundle
from fairlead.policy.tables import INTENTS

ASKED = (OPA_ENGINE, PYTHON_ENGINE)
"""The engines that API servers ask, and that need pods of their own."""
ENGINE_ANNOTATIONS = (
    ENGINE_ANNOTATION,
    SHADOW_ANNOTATION,
    OBJECTS_ANNOTATION,
    FINAL_STATE_ANNOTATION,
)
"""The annotations of the policies' ConfigMap that say what the engines are, and what the objects of
a revision are."""
LIVENESS = Liveness(OPA_PORT, "/health", period=5, timeout=5, failures=3, startup=60)
"""When `fairlead shadow` is restarted. Until then, requests wait a second for it."""
REPORT = "report.json"
"""The key of the ConfigMap of `fairlead shadow` with its report."""
MATCHER = PurePosixPath("/usr/local/bin/fairlead-matcher")
"""The program in Fairlead's image."""
SERVER_OBJECTS = (
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", SHADOW_WEBHOOKS, None),
    ("apps/v1", "Deployment", SHADOW, NAMESPACE),
    ("v1", "Service", SHADOW, NAMESPACE),
    ("v1", "Secret", SHADOW_SECRET, NAMESPACE),
    ("v1", "ConfigMap", SHADOW, NAMESPACE),
    ("networking.k8s.io/v1", "NetworkPolicy", f"{SHADOW}-to-opa", NAMESPACE),
    ("networking.k8s.io/v1", "NetworkPolicy", SHADOW, NAMESPACE),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", SHADOW, None),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", SHADOW, None),
    ("rbac.authorization.k8s.io/v1", "RoleBinding", SHADOW, NAMESPACE),
    ("rbac.authorization.k8s.io/v1", "Role", SHADOW, NAMESPACE),
    ("v1", "ServiceAccount", SHADOW, NAMESPACE),
)
"""The objects of `fairlead shadow`, in the order in which to delete them: (apiVersion, kind, name,
namespace)."""
OPA_CA = MOUNTED.tls.parent / "opa"
"""The folder in which a pod of `fairlead shadow` has OPA's CA mounted."""


@dataclass(frozen=True)
class Engines:
    """The engine that enforces the policies, and its shadow, if there is one."""

    enforcing: str
    shadow: str | None = None

    @classmethod
    def parse(cls, text: str) -> Engines:
        """The engines that a user names, such as `opa` or `opa,cel`. Raises UsageError."""
        names = text.split(",")
        known = (OPA_ENGINE, CEL_ENGINE, PYTHON_ENGINE)
        for name in names:
            if name not in known:
                raise UsageError(
                    f"--engine {text}: {name!r} is no engine that a cluster can have: name one of "
                    f"{', '.join(known)}, or two with a comma"
                )
        if len(names) > 2 or len(set(names)) < len(names):
            raise UsageError(
                f"--engine {text}: name one engine, or two different ones: the first enforces the "
                "policies, and the second decides beside it without effect"
            )
        if len(names) == 2 and CEL_ENGINE not in names:
            raise UsageError(
                f"--engine {text}: both need the Deployment opa, which runs one of them: name "
                f"{CEL_ENGINE} as one of two engines"
            )
        return cls(*names)

    @classmethod
    def of(cls, config_map: Mapping[str, Any] | None) -> Engines:
        """The engines that the ConfigMap of the policies names; `opa` if there is none."""
        annotations = (config_map or {}).get("metadata", {}).get("annotations") or {}
        return cls(
            str(annotations.get(ENGINE_ANNOTATION) or OPA_ENGINE),
            annotations.get(SHADOW_ANNOTATION) or None,
        )

    @property
    def asked(self) -> str | None:
        """The one that runs in pods, enforcing or not; None if neither does."""
        return next((name for name in (self.enforcing, self.shadow) if name in ASKED), None)

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations of the ConfigMap that name them."""
        engine = {} if self.enforcing == OPA_ENGINE else {ENGINE_ANNOTATION: self.enforcing}
        return engine | ({SHADOW_ANNOTATION: self.shadow} if self.shadow else {})

    def __str__(self) -> str:
        return ",".join(filter(None, (self.enforcing, self.shadow)))


@dataclass(frozen=True)
class Pair:
    """Two engines, and the objects of the one that is `cel`, as the text of YAML documents."""

    engines: Engines
    objects: str

    @classmethod
    def of(cls, config_map: Mapping[str, Any]) -> Pair | None:
        """What the ConfigMap of the policies records; None for a single engine. Raises
        FairleadError if somebody damaged it.
        """
        engines = Engines.of(config_map)
        return cls(engines, unpacked(config_map)) if engines.shadow else None

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations of the ConfigMap of the policies."""
        packed = packed_texts.pack(self.objects)
        return {**self.engines.annotations, OBJECTS_ANNOTATION: packed}

    def marked(self, bundle: Bundle) -> Bundle:
        """The bundle with a comment that identifies the objects, so that they are a part of its
        revision.
        """
        comment = f"\n# The objects of the engine {CEL_ENGINE}: {digest(self.objects.encode())}\n"
        modules = {**bundle.modules, INTENTS: bundle.modules[INTENTS] + comment}
        return replace(bundle, modules=modules)


def unpacked(config_map: Mapping[str, Any]) -> str:
    """The objects in the annotation. Raises FairleadError."""
    try:
        packed = config_map["metadata"]["annotations"][OBJECTS_ANNOTATION] or "none"
        return packed_texts.unpack(packed)
    except (KeyError, TypeError, ValueError) as error:
        raise FairleadError(
            f"{OBJECTS} of the ConfigMap {POLICIES} cannot be read: run `fairlead deploy`"
        ) from error


def same_shadow(manifest: Mapping[str, Any], config_map: Mapping[str, Any]) -> dict[str, Any]:
    """The policies of an earlier revision, without their shadow unless the ConfigMap that is
    deployed has the same: only a deployment starts one.
    """
    metadata = manifest["metadata"]
    if Engines.of(manifest) == Engines.of(config_map):
        return dict(manifest)
    dropped = {SHADOW_ANNOTATION}
    if Engines.of(manifest).enforcing in ASKED:
        dropped.add(OBJECTS_ANNOTATION)
    annotations = {key: text for key, text in metadata["annotations"].items() if key not in dropped}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def without_effect(objects: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The objects of `cel` as a shadow has them. What would mutate is not bound, and what would
    refuse or warn is only written to audit logs.

    A policy with failurePolicy Fail refuses requests if its parameters cannot be found, whatever
    its binding says. So nothing may be required.
    """
    shadows = []
    for each in objects:
        spec = each.get("spec", {})
        match each["kind"]:
            case "MutatingAdmissionPolicyBinding":
                continue
            case "ValidatingAdmissionPolicyBinding":
                reference = spec.get("paramRef")
                loose = {**(reference or {}), "parameterNotFoundAction": "Allow"}
                spec = {**spec, "validationActions": ["Audit"]}
                spec |= {"paramRef": loose} if reference else {}
            case "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy":
                spec = {**spec, "failurePolicy": "Ignore"}
            case _:
                shadows.append(dict(each))
                continue
        shadows.append({**each, "spec": spec})
    return shadows


def with_effect(recorded: Mapping[str, Any], live: Mapping[str, Any] | None) -> dict[str, Any]:
    """An object of a shadow as it would decide if it enforced the policies: with what
    `without_effect` took from the recorded one. A binding that is not there is the recorded one.
    """
    if live is None:
        return dict(recorded)
    spec, kept = dict(live.get("spec") or {}), recorded.get("spec", {})
    match recorded["kind"]:
        case "ValidatingAdmissionPolicyBinding":
            spec["validationActions"] = kept["validationActions"]
            if "paramRef" in spec and "paramRef" in kept:
                action = kept["paramRef"]["parameterNotFoundAction"]
                spec["paramRef"] = {**spec["paramRef"], "parameterNotFoundAction": action}
        case "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy":
            spec["failurePolicy"] = kept["failurePolicy"]
        case _:
            return dict(live)
    return {**live, "spec": spec}


def arguments(
    listen: str,
    opa_url: str,
    *,
    tls: PurePath = MOUNTED.tls,
    opa_ca: PurePath = OPA_CA / "ca.crt",
    matcher: PurePath = MATCHER,
) -> list[str]:
    """The arguments of `fairlead`, to serve at `listen` (host:port) with the certificate in the
    folder `tls`, and to ask the OPA at `opa_url`, which the CA in the file `opa_ca` verifies.
    """
    return [
        "shadow",
        f"{flags.LISTEN}={listen}",
        f"{flags.TLS_CERT_FILE}={tls / 'tls.crt'}",
        f"{flags.TLS_PRIVATE_KEY_FILE}={tls / 'tls.key'}",
        f"{flags.OPA_URL}={opa_url}",
        f"{flags.OPA_CA_FILE}={opa_ca}",
        f"{flags.MATCHER}={matcher}",
    ]
