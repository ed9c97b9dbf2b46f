"""Renders the objects of a deployment from the templates in integration/deploy.

`render_objects` returns a list, `render_files` the same objects by file, `to_yaml` their text.
"""

from __future__ import annotations

import functools
import json
import re
from base64 import b64encode
from collections.abc import Collection, Mapping
from typing import Any

import jinja2
import yaml

from fairlead.common import paths, texts
from fairlead.common.digests import digest
from fairlead.deployment import (
    controller,
    names,
    ownership,
    sidecars,
    webhooks,
)
from fairlead.deployment.credentials import (
    LOOPBACK,
    SERVICE_NAMES,
    Credentials,
    scoped_data,
)
from fairlead.deployment.names import (
    ENGINE_ANNOTATION,
    NAMESPACE,
    OPA,
    OPA_ENGINE,
    POLICIES,
    POLICY_LABEL,
    RENEWED_BY,
    REVISION_ANNOTATION,
    SETTINGS_ANNOTATION,
)
from fairlead.deployment.sidecars import Sidecar
from fairlead.kube import own_kinds
from fairlead.opa import containers
from fairlead.policy import bundles, policy_objects
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings
from fairlead.settings.services import SCOPES

INJECTOR = "system:serviceaccount:cert-manager:cert-manager-cainjector"
"""The account of cert-manager's cainjector in its own manifests. It sets the CA of webhooks."""

_GUARDS = (
    "10-namespace.yaml.j2",
    "22-administrators.yaml.j2",
    "26-kinds.yaml.j2",
    "80-guards.yaml.j2",
    "82-node-labels.yaml.j2",
)
_ASKING = ("90-webhook.yaml.j2", "91-final-state.yaml.j2")


def render_objects(
    policies: PolicySet,
    credentials: Credentials,
    *,
    webhook_url: str | None = None,
    controller_url: str | None = None,
    sidecar: Sidecar = sidecars.SYNC,
) -> list[dict[str, Any]]:
    """All objects, in the order in which to apply them; see `render_files` for the arguments."""
    files = render_files(
        policies,
        credentials,
        webhook_url=webhook_url,
        controller_url=controller_url,
        sidecar=sidecar,
    )
    return [manifest for objects in files.values() for manifest in objects]


def render_webhooks(policies: PolicySet) -> list[dict[str, Any]]:
    """The configurations of the webhooks, without a CA."""
    nobody = Credentials("", b"", b"", b"")
    files = render_files(policies, nobody, templates=_ASKING)
    return [manifest for objects in files.values() for manifest in objects]


def render_secrets(policies: PolicySet, credentials: Credentials) -> list[dict[str, Any]]:
    """The Secrets with these credentials."""
    files = render_files(policies, credentials, templates=["30-secrets.yaml.j2"])
    return [manifest for objects in files.values() for manifest in objects]


def render_access(policies: PolicySet, template: str) -> list[dict[str, Any]]:
    """The objects of a template of transient access that not every deployment has."""
    files = render_files(policies, Credentials("", b"", b"", b""), templates=[template])
    return [manifest for objects in files.values() for manifest in objects]


def render_guards(policies: PolicySet, sidecar: Sidecar = sidecars.SYNC) -> list[dict[str, Any]]:
    """The objects of a deployment without OPA: the namespace, the administrators' rights and the
    guards.
    """
    nobody = Credentials("", b"", b"", b"")
    files = render_files(policies, nobody, sidecar=sidecar, templates=_GUARDS)
    return [manifest for objects in files.values() for manifest in objects]


def render_files(
    policies: PolicySet,
    credentials: Credentials,
    *,
    webhook_url: str | None = None,
    controller_url: str | None = None,
    sidecar: Sidecar = sidecars.SYNC,
    templates: Collection[str] | None = None,
) -> dict[str, list[dict[str, Any]]]:
    """All objects by file, named like their template without `.j2`, in the order to apply them.

    Args:
        webhook_url: where the API server calls OPA, instead of its Service. OPA runs beside the
            cluster then: its nodes are simulated, and a pod of OPA would only seem to run.
        controller_url: the same of the controller.
        sidecar: what keeps each OPA current.
        templates: those to render; None for all.
    """
    settings, active = policies.settings, policies.active
    sidecar.require(settings)
    look_up, opa = (f"127.0.0.1:{port}" for port in (containers.SYNC_PORT, containers.INNER_PORT))
    renews = settings.certificates.by == "fairlead"
    environment = _templates()
    values = {
        "namespace": NAMESPACE,
        "settings": settings,
        "names": names,
        "kinds": own_kinds,
        "schemas": policy_objects.schemas(),
        "policies": config_map(policies, sidecar.engine),
        "bundle": policies.bundle,
        "credentials": credentials,
        "file_modules": bundles.file_modules([credentials.token], credentials.scoped),
        "scoped_secrets": {
            names.scoped_secret(scope): scoped_data(tokens)
            for scope, tokens in credentials.scoped.items()
        },
        "token_secrets": [names.scoped_secret(scope) for scope in SCOPES],
        "opa_server": {
            "service": OPA,
            "url": webhook_url,
            "ca": credentials.ca if renews else None,
        },
        "controller_url": controller_url,
        "controller_arguments": controller.arguments(
            settings,
            f"0.0.0.0:{containers.CONTROLLER_PORT}",
            controller.renewal(settings, rolls=not sidecar.rereads),
            opa_url=f"https://{SERVICE_NAMES[2]}",
            tls=containers.MOUNTED.tls,
            token=controller.TOKEN,
        ),
        "ends_arguments": controller.ends_arguments(
            f"0.0.0.0:{containers.CONTROLLER_PORT}", tls=containers.MOUNTED.tls
        ),
        "audited": controller.audited(),
        "controller_liveness": controller.LIVENESS,
        "controller_memory": controller.MEMORY,
        "controller_port": containers.CONTROLLER_PORT,
        "controller_token": controller.TOKEN,
        "replicas": 0 if webhook_url else settings.replicas,
        "webhooks": webhooks.of(active, settings),
        "files": containers.MOUNTED,
        "opa_port": containers.OPA_PORT,
        "drain": containers.DRAIN,
        "opa_liveness": containers.OPA_LIVENESS,
        "sync_port": containers.SYNC_PORT,
        "opa_arguments": containers.opa_arguments(
            containers.MOUNTED,
            f":{containers.OPA_PORT}",
            opa,
            decision_logs=sidecar.decision_logs(containers.MOUNTED, settings, look_up),
        ),
        "opa_environment": [
            {"name": name, "value": value}
            for name, value in {
                **containers.OPA_ENVIRONMENT,
                **sidecar.opa_environment(containers.MOUNTED, look_up),
            }.items()
        ],
        "opa_memory": f"{containers.OPA_MEMORY}Mi",
        "logs_secret": settings.decision_logs.service.secret
        if settings.decision_logs.service
        else None,
        "sidecar": sidecar,
        "sidecar_arguments": sidecar.arguments(
            containers.MOUNTED, policies, opa, f"0.0.0.0:{sidecar.liveness.port}"
        ),
        "renews": renews,
        "rolls": renews and not sidecar.rereads,
        "injector": INJECTOR,
        "service_names": SERVICE_NAMES,
        "loopback": LOOPBACK,
        "certificate_seconds": int(settings.certificates.valid.total_seconds()),
        "renewal_seconds": int(settings.certificates.renewal.total_seconds()),
        "renewed_by": RENEWED_BY,
        "read_once": "" if sidecar.rereads else _read_once(settings, credentials),
    }
    # libyaml reads what the templates make in a tenth of the time of PyYAML's own parser.
    return {
        name.removesuffix(".j2"): [
            _marked(manifest)
            for manifest in yaml.load_all(
                environment.get_template(name).render(values), yaml.CSafeLoader
            )
        ]
        for name in sorted(templates or environment.list_templates(filter_func=_is_whole))
    }


def _marked(manifest: dict[str, Any]) -> dict[str, Any]:
    """The object with the label by which Fairlead knows it."""
    metadata = manifest["metadata"]
    metadata["labels"] = ownership.labels(metadata.get("labels"))
    return manifest


@functools.cache
def _templates() -> jinja2.Environment:
    """The templates, each compiled once in a process: that takes longer than to render it."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(paths.root() / "integration" / "deploy"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # noqa: S701 - YAML, not HTML; texts go through json
    )
    environment.filters["b64"] = _b64
    environment.filters["json"] = _json  # Jinja2's own tojson escapes for HTML
    environment.filters["cel"] = _cel
    return environment


def _read_once(settings: Settings, credentials: Credentials) -> str:
    """A digest of what a sidecar reads once, at its start. cert-manager's CA stays the same."""
    if settings.certificates.by == "fairlead":
        return credentials.digest
    return digest(credentials.token.encode())


def config_map(policies: PolicySet, engine: str = OPA_ENGINE) -> dict[str, Any]:
    """The ConfigMap of the policies, the same as in `render_objects`."""
    annotations = {
        REVISION_ANNOTATION: policies.revision,
        SETTINGS_ANNOTATION: json.dumps(policies.settings.deployed_document()),
        # Also `opa`: if another manager owns the annotation, such as a restore, it stays otherwise.
        ENGINE_ANNOTATION: engine,
    }
    return policies_of(policies.modules, annotations)


def recorded(config_map: Mapping[str, Any]) -> dict[str, str]:
    """The annotations of the policies' ConfigMap in which a deployment records something."""
    present = config_map["metadata"].get("annotations") or {}
    names = (REVISION_ANNOTATION, SETTINGS_ANNOTATION, ENGINE_ANNOTATION)
    return {name: present[name] for name in names if name in present}


def policies_of(modules: Mapping[str, str], annotations: Mapping[str, str]) -> dict[str, Any]:
    """The ConfigMap of the policies, with modules that already contain their settings."""
    metadata = {
        "name": POLICIES,
        "namespace": NAMESPACE,
        "labels": ownership.labels(dict([POLICY_LABEL])),
        "annotations": dict(annotations),
    }
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(modules)}


def to_yaml(objects: list[dict[str, Any]]) -> str:
    """The objects as the text of YAML documents, for kubectl. What does not print is escaped in
    double quotes.
    """

    class Plain(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

        def analyze_scalar(self, scalar: str) -> Any:
            # PyYAML does not write a text with a tab (each policy has some) as a block, though YAML
            # allows it.
            analysis = super().analyze_scalar(scalar)
            if "\t" in scalar:
                analysis.allow_block = super().analyze_scalar(scalar.replace("\t", " ")).allow_block
            return analysis

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        style = "|" if "\n" in value else None
        if texts.printable(value, keep="\n\t") != value:
            style = '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Plain.add_representer(str, text)
    dumped = yaml.dump_all(objects, Dumper=Plain, sort_keys=False, allow_unicode=True, width=120)
    return texts.printable(dumped, keep="\n\t")


def _is_whole(template: str) -> bool:
    """Whether a template has whole objects; others are parts that templates include."""
    return template.endswith(".j2") and "/" not in template


def _json(value: object) -> str:
    """A value as YAML in ASCII: JSON, with each character beyond the basic plane as one escape."""
    return re.sub(r"[^ -~]", _escape, json.dumps(value, ensure_ascii=False))


def _cel(value: object) -> str:
    """A value as a CEL literal inside a YAML text; only invisible characters are escaped."""
    text = json.dumps(value, ensure_ascii=False)
    return re.sub(
        r"[^ -~]",
        lambda character: character[0] if character[0].isprintable() else _escape(character),
        text,
    )


def _escape(character: re.Match[str]) -> str:
    return f"\\U{ord(character[0]):08x}"


def _b64(value: str | bytes) -> str:
    return b64encode(value.encode() if isinstance(value, str) else value).decode()
