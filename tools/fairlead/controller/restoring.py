"""Puts back what is deleted of a deployment, and what is removed from its webhooks and guards: a
part of `fairlead controller`.

What is asked for every few seconds are objects of known names. A watch would need the right to
list all Secrets of the namespace, and would not notice that an API server is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from fairlead.clusters.base import Cluster
from fairlead.common.errors import FairleadError
from fairlead.controller import reports
from fairlead.deployment import disabled_objects, engine_names
from fairlead.deployment.credentials import Credentials
from fairlead.deployment.names import (
    CERTIFICATE_LEASE,
    CONTROLLER,
    LIFECYCLE_LEASE,
    NAMESPACE,
    OPA_ENGINE,
    POLICIES,
    TLS_SECRET,
    TOKEN_SECRET,
    scoped_secret,
)
from fairlead.keeper.lease import Lease
from fairlead.keeper.regular import Regular
from fairlead.kube import clients
from fairlead.kube.errors import Refused
from fairlead.opa.api import lets_in
from fairlead.opa.errors import OpaUnavailable
from fairlead.operations import deployed_state, drift, history, object_following
from fairlead.operations.drift import DIFFERS, MISSING, Compared
from fairlead.policy import bundles
from fairlead.settings.services import SCOPES

PAUSE = 2.0
"""Seconds between two looks."""
_SCOPED = {scope: scoped_secret(scope) for scope in SCOPES}
_CHANGED = (*drift.WEBHOOKS, *drift.GUARDS)


class Restoring(Regular):
    """Works while the settings of the cluster are an object. Of several replicas, one at a time
    changes something, and none while a command or a change of policies is at work.
    """

    name = "restoring"
    pause = PAUSE
    failing = "what is deleted cannot be put back"

    def __init__(
        self, kubeconfig: Path | None, inside: Callable[[], Cluster], *, replica: str
    ) -> None:
        """`inside` gives the cluster anew, and `replica` is the name of this one. Raises
        UsageError.
        """
        super().__init__(clients.Objects(kubeconfig))
        self._inside = inside
        holder = f"{replica}-{self.name}"
        self._leases = [
            Lease(self._objects, holder, name=name, restored=True)
            for name in (LIFECYCLE_LEASE, CERTIFICATE_LEASE)
        ]
        self._secrets: dict[str, Mapping[str, str]] = {}
        self._is_outdated = False
        self._last: dict[tuple[str, str], Mapping[str, Any]] = {}
        self._rendered: tuple[Any, list[dict[str, Any]]] = (None, [])
        self._foreign: dict[tuple[str, str], tuple[str, ...]] = {}
        self._reported = ""

    def look(self) -> None:
        """Put back what is missing. Raises FairleadError."""
        fairlead = object_following.followed(self._objects)
        if fairlead is None:
            return
        if self._due():
            lifecycle, certificate = self._leases
            with lifecycle.attempt() as alone, certificate.attempt() as also:
                for sentence in self._restored() if alone and also else ():
                    reports.write(self._objects, fairlead, "Warning", "Restored", sentence)
        left = "; ".join(self._sentences())
        if left and left != self._reported:
            reports.write(self._objects, fairlead, "Warning", "Changed", left)
        self._reported = left

    def _restored(self) -> Iterator[str]:
        """Put back what is due; yields a sentence for each object. The ConfigMap says what else
        there has to be.
        """
        for lost in self._due():
            yield from self._put_back(lost)
            if lost.kind == "ConfigMap":
                yield from self._restored()

    def _put_back(self, lost: Compared) -> Iterator[str]:
        name, last = f"{lost.kind} {lost.name}", self._last.get((lost.kind, lost.name))
        expected = lost.manifest
        if last:  # what it trusted, and what was disabled
            expected = drift.with_bundles(disabled_objects.kept(expected, last), last)
        if lost.state == MISSING:
            self._objects.apply(expected)
            annotations = (last or expected)["metadata"].get("annotations") or {}
            records = {
                key: text
                for key, text in annotations.items()
                if key.startswith(disabled_objects.RECORD)
            }
            if records:  # applied, they would go with the next deployment
                self._objects.merge(expected, {"metadata": {"annotations": records}})
            yield f"{name} was missing, and is back"
            return
        try:
            self._objects.apply(expected, force=False)
        except Refused as error:
            if error.status != 409:
                raise
        now = drift.compared(self._objects, lost.manifest, self._issuer())
        if now.fields:
            self._foreign[lost.kind, lost.name] = now.fields
        if mended := sorted(set(lost.fields) - set(now.fields)):
            yield f"{name} lacked {', '.join(mended)}, and is as before"

    def _sentences(self) -> Iterator[str]:
        """What stays as others made it, or missing."""
        if self._is_outdated:
            yield (
                f"Secret {TOKEN_SECRET} stays missing, as OPA refuses the token that it had: run "
                "`fairlead deploy`"
            )
        for (kind, name), fields in sorted(self._foreign.items()):
            entries = self._last[kind, name]["metadata"].get("managedFields") or ()
            managers = {entry["manager"] for entry in entries}
            foreign = managers - {clients.FIELD_MANAGER, CONTROLLER, CERTIFICATE_LEASE}
            yield (
                f"{kind} {name} differs in {', '.join(fields)}, and stays so, as "
                f"{', '.join(sorted(foreign)) or 'somebody else'} may want it: `fairlead deploy` "
                "makes it as before"
            )

    def _due(self) -> list[Compared]:
        """What is to be put back now: all that is missing or different, but for what others changed
        and what has to wait.
        """
        lost, self._is_outdated = self._lost(), False
        self._foreign = {
            (each.kind, each.name): each.fields
            for each in lost
            if self._foreign.get((each.kind, each.name)) == each.fields
        }
        due = [each for each in lost if (each.kind, each.name) not in self._foreign]
        if not due or due[0].kind == "ConfigMap":
            return due
        revision = bundles.revision((deployed_state.config_map(self._objects) or {})["data"])
        if [entry.revision for entry in history.entries(self._objects)[:1]] != [revision]:
            return []  # a change of policies has begun and not ended: webhooks come last
        self._is_outdated = self._is_refused(due)
        if self._is_outdated:  # it was rotated just before it was deleted
            due = [each for each in due if each.kind != "Secret"]
        if not self._is_served(revision):  # else each pod would be refused
            due = [each for each in due if each.kind not in drift.WEBHOOKS]
        return due

    def _is_refused(self, due: Iterable[Compared]) -> bool:
        """Whether the Secret of the token is due, and an OPA refuses the token that it had."""
        credentials = self._credentials()
        if credentials is None or TOKEN_SECRET not in {each.name for each in due}:
            return False
        for opa in self._inside().opas():
            with suppress(OpaUnavailable):
                if opa.engine == OPA_ENGINE and not lets_in(opa.api(credentials.token)):
                    return True
        return False

    def _is_served(self, revision: str) -> bool:
        """Whether an OPA decides by the revision."""
        credentials = self._credentials()
        token = credentials.token if credentials else None
        states = (deployed_state.served(opa, token) for opa in self._inside().opas())
        return any(state.ready and state.revision == revision for state in states)

    def _lost(self) -> list[Compared]:
        """What is not as it was deployed. Without the ConfigMap of the policies, it is that alone.
        Secrets only count if they are missing. Raises FairleadError if one is gone that was never
        seen.
        """
        config_map = deployed_state.config_map(self._objects)
        if config_map is None:
            return [
                Compared("ConfigMap", POLICIES, NAMESPACE, MISSING, manifest=entry.manifest)
                for entry in history.entries(self._objects)[:1]
                if entry.manifest
            ]
        if engine_names.of(config_map) not in engine_names.ASKED:
            return []
        self._read_secrets()
        credentials = self._credentials()
        if credentials is None:
            raise FairleadError(
                f"the Secret {TOKEN_SECRET} or {TLS_SECRET} is missing, and this controller has "
                "never seen it: run `fairlead deploy`"
            )
        compared = [
            drift.compared(self._objects, manifest, credentials.tls.issuer)
            for manifest in self._expected(config_map, credentials)
        ]
        self._last |= {
            (each.kind, each.name): each.live
            for each in compared
            if each.live and each.kind in _CHANGED
        }
        return [
            each
            for each in compared
            if each.state == MISSING or (each.state == DIFFERS and each.kind in _CHANGED)
        ]

    def _expected(
        self, config_map: Mapping[str, Any], credentials: Credentials
    ) -> list[dict[str, Any]]:
        """The objects that a deployment would apply now, rendered once for each change."""
        scopes = drift.settings(config_map).scopes()
        scoped = {scope: tokens for scope, tokens in credentials.scoped.items() if scope in scopes}
        credentials = replace(credentials, scoped=scoped)
        metadata = config_map["metadata"]
        key = config_map["data"], metadata.get("annotations"), credentials
        if self._rendered[0] != key:
            kinds = (*_CHANGED, "Secret")
            self._rendered = key, drift.rendered(self._inside(), config_map, credentials, kinds)
        return self._rendered[1]

    def _read_secrets(self) -> None:
        for name in (TOKEN_SECRET, TLS_SECRET, *_SCOPED.values()):
            if secret := self._objects.get("v1", "Secret", name, NAMESPACE):
                self._secrets[name] = secret.get("data") or {}

    def _credentials(self) -> Credentials | None:
        """Those of the Secrets as they were read; of one that is gone, what it had. None if it was
        never seen.
        """
        return Credentials.kept(
            self._secrets.get(TOKEN_SECRET),
            self._secrets.get(TLS_SECRET),
            {scope: self._secrets.get(name) for scope, name in _SCOPED.items()},
        )

    def _issuer(self) -> bytes:
        credentials = self._credentials()
        return credentials.tls.issuer if credentials else b""
