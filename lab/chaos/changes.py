"""The changes that operators make during chaos: pushes of two variants of the policies, rotations
of token and certificate."""

from __future__ import annotations

import hashlib
import random
import re
import ssl
import time
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import urlsplit

from fairlead.clusters.base import Cluster
from fairlead.common import waiting
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.deployment.names import NAMESPACE, TLS_SECRET, TOKEN_SECRET, WEBHOOKS
from fairlead.opa.api import OpaApi
from fairlead.opa.errors import OpaRefused
from fairlead.operations import deployed_state, rotate
from fairlead.operations.push import push
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings
from lab.chaos.invariants import Push, Verdict, credentials

TAGS = ("A", "B")
_QUIET = Progress()
_WEBHOOKS = (
    ("MutatingWebhookConfiguration", WEBHOOKS),
    ("ValidatingWebhookConfiguration", WEBHOOKS),
)
POLICY = "chaos"
"""The name of the policy of each variant."""
_MAIN = """# METADATA
# title: Chaos
# description: Every pod gets a warning that names the variant of these modules.
package chaos

import data.review

decision := {{"deny": set(), "patch": [], "warn": warn}}

warn contains sprintf("fairlead-chaos main={tag} first=%s second=%s", [
	data.chaos.first.variant,
	data.chaos.second.variant,
]) if {{
	review.kind == ["", "Pod"]
}}
"""
_TEST = """package chaos_test

import data.chaos

test_chaos if [chaos.first.variant, chaos.second.variant] == ["{tag}", "{tag}"]
"""
_INTENT = "requests:\n  - kinds: [v1/Pod]\n    operations: [CREATE]\n"
_CASE = """- name: every pod gets a warning
  intent: chaos
  namespace: {{name: payments, labels: {{agentpool: pool1}}}}
  request:
    operation: CREATE
    object:
      apiVersion: v1
      kind: Pod
      metadata: {{name: web}}
      spec: {{containers: [{{name: c, image: nginx}}]}}
  expect: {{allowed: true, warnings: ["fairlead-chaos main={tag} first={tag} second={tag}"]}}
"""
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


@dataclass(frozen=True)
class Change:
    """A push or a rotation (`token`, `certificate`), with its times by the monotonic clock, and the
    error if it failed.
    """

    kind: str
    began: float
    ended: float
    error: str | None


@dataclass
class Changes:
    """Makes changes and records them, with every credential that was ever valid."""

    cluster: Cluster
    variants: Mapping[str, Settings]
    """The settings of each variant, with its policy."""
    made: list[Change] = field(default_factory=list)
    pushes: list[Push] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    cas: set[str] = field(default_factory=set)

    def push(self, tag: str, progress: Progress = _QUIET) -> bool:
        """Push the variant `tag`; returns whether it is in force."""
        began = time.monotonic()
        policies = PolicySet.load(self.variants[tag])
        error = self._do("push", lambda: push(self.cluster, policies, progress=progress))
        self.pushes.append(Push(tag, began, time.monotonic(), error is None))
        return error is None

    def rotate(self, what: str) -> bool:
        """Rotate `token` or `certificate`; returns whether that succeeded."""

        def action() -> None:
            self._remember()
            try:
                {"token": rotate.token, "certificate": rotate.certificate}[what](
                    self.cluster, progress=_QUIET
                )
            finally:
                self._remember()

        return self._do(what, action) is None

    def push_until(self, stop: Event, seed: int, pause: tuple[float, float]) -> None:
        """Push the variants in turn until `stop` is set, with random pauses between (the shortest
        and longest, in seconds).
        """
        chance = random.Random(f"pushes {seed}")  # noqa: S311 - to be repeatable is the point
        count = 0
        while not stop.wait(chance.uniform(*pause)):
            count += 1
            self.push(TAGS[count % len(TAGS)])

    def rotate_until(self, stop: Event, seed: int, pause: tuple[float, float]) -> None:
        """Rotate the token and the certificate in turn; the arguments are those of push_until."""
        chance = random.Random(f"rotations {seed}")  # noqa: S311 - to be repeatable is the point
        count = 0
        while not stop.wait(chance.uniform(*pause)):
            self.rotate(("token", "certificate")[count % 2])
            count += 1

    def verdict(self) -> Verdict:
        """Whether no rotated credential is still valid: on any OPA, for the API server, and in the
        certificates that are served.

        Raises FairleadError if a server does not answer.
        """
        objects = self.cluster.objects()
        now = deployed_state.credentials(objects)
        if now is None:
            raise FairleadError("the token and the certificate are gone")
        digest = hashlib.sha256(now.token.encode()).hexdigest()
        leaf = ssl.PEM_cert_to_DER_cert(now.certificate.decode())
        problems: dict[str, list[str]] = {}
        checked = 0
        for opa in self.cluster.opas():
            wrong = problems.setdefault(opa.url, [])
            for token in sorted(self.tokens | {now.token}):
                checked += 1
                if _accepted(opa.url, opa.ca, token) != (token == now.token):
                    wrong.append(
                        "an old token is accepted" if token != now.token else "the token is refused"
                    )
            digests = OpaApi(opa.url, ca=opa.ca, token=now.token).document(
                ["system", "authz", "token_digests"]
            )
            if digests != [digest]:
                wrong.append(
                    f"takes tokens with the digests {digests}, and only {digest} is in use"
                )
        urls = [server.url for server in self.cluster.opas()] + [
            server.url for server in self.cluster.sidecars()
        ]
        for url in urls:
            checked += 1
            if _certificate_of(url) != leaf:
                problems.setdefault(url, []).append("serves a certificate that is not the newest")
        for kind, name in _WEBHOOKS:
            configuration = objects.get("admissionregistration.k8s.io/v1", kind, name) or {}
            for webhook in configuration.get("webhooks", ()):
                checked += 1
                trusted = _certificates(b64decode(webhook["clientConfig"]["caBundle"]).decode())
                if trusted != _certificates(now.ca.decode()):
                    old = len(trusted & self.cas)
                    problems.setdefault(webhook["name"], []).append(
                        f"trusts {len(trusted)} CAs, {old} of them old, and not just the "
                        "present one"
                    )
        return credentials(problems, checked)

    def _do(self, kind: str, action: Callable[[], Any]) -> str | None:
        began, error = time.monotonic(), None
        try:
            action()
        except (FairleadError, OSError) as problem:
            error = str(problem) or type(problem).__name__
        self.made.append(Change(kind, began, time.monotonic(), error))
        return error

    def _remember(self) -> None:
        """Record the current token and CA."""

        def look() -> bool:
            objects = self.cluster.objects()
            for name, key in ((TOKEN_SECRET, "token"), (TLS_SECRET, "ca.crt")):
                text = b64decode(
                    (objects.get("v1", "Secret", name, NAMESPACE) or {})["data"][key]
                ).decode()
                self.tokens |= {text} if key == "token" else set()
                self.cas |= _certificates(text) if key == "ca.crt" else set()
            return True

        waiting.until(look, deadline=60.0, what="the Secrets can be read")


def variants(settings: Settings, folder: Path) -> dict[str, Settings]:
    """The settings of each variant, by tag, with a policy of its own below the folder. The policy
    adds a warning to each answer about a pod of a mapped namespace, from three of its modules; the
    contact of the settings marks the answers that refuse.
    """
    mapped = {"matchExpressions": [{"key": settings.namespace_label, "operator": "Exists"}]}
    return {
        tag: Settings.model_validate(
            {
                **settings.model_dump(by_alias=True, exclude_unset=True),
                "contact": f"fairlead-chaos settings={tag}",
                "policies": [str(_policy(folder / tag, tag))],
                "intents": {POLICY: {"namespaces": mapped}},
            }
        )
        for tag in TAGS
    }


def _policy(folder: Path, tag: str) -> Path:
    at = folder / POLICY
    (at / "cases").mkdir(parents=True)
    texts = {
        f"{POLICY}.rego": _MAIN.format(tag=tag),
        "first.rego": f'package {POLICY}.first\n\nvariant := "{tag}"\n',
        "second.rego": f'package {POLICY}.second\n\nvariant := "{tag}"\n',
        "chaos_test.rego": _TEST.format(tag=tag),
        "intent.yaml": _INTENT,
        "cases/chaos.yaml": _CASE.format(tag=tag),
    }
    for name, text in texts.items():
        (at / name).write_text(text)
    return folder


def _accepted(url: str, ca: Path, token: str) -> bool:
    api = OpaApi(url, ca=ca, token=token)
    try:
        api.policies()
    except OpaRefused:
        return False
    finally:
        api.close()
    return True


def _certificate_of(url: str) -> bytes:
    """The certificate (DER) that a server shows. Raises FairleadError if it shows none."""
    address = urlsplit(url)
    try:
        pem = ssl.get_server_certificate(
            (str(address.hostname), int(address.port or 443)), timeout=5
        )
    except OSError as error:
        raise FairleadError(f"{url}: {error}") from error
    return ssl.PEM_cert_to_DER_cert(pem)


def _certificates(pem: str) -> set[str]:
    return set(_PEM.findall(pem))
