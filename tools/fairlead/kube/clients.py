"""The client of an API server for commands: it takes kinds of objects, and repeats what may be
repeated.

The dynamic client of the kubernetes package would read all API groups before the first request, and
keep them in a file that anyone can predict.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kubernetes import client
from tenacity import (
    retry,
    retry_if_exception,
    stop_after_attempt,
    stop_after_delay,
    wait_random_exponential,
)

from fairlead.common.errors import UsageError
from fairlead.kube import api_paths, configurations, discovery, kubeconfig_copies
from fairlead.kube.api_requests import APPLY, MERGE, TIMEOUT, ApiRequests, Timeout
from fairlead.kube.discovery import Kind
from fairlead.kube.errors import ApiServerError, NotServed, Refused, Unreachable
from fairlead.kube.stored_fields import FIELD_MANAGER as FIELD_MANAGER

PATIENCE = 15.0
"""Seconds for which a request is repeated while the API server is away."""
_OPERATIONS = "application/json-patch+json"


class _Client(client.ApiClient):
    """A client that gives up on a server that accepts connections and never answers."""

    def call_api(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("_request_timeout") is None:
            kwargs["_request_timeout"] = TIMEOUT
        return super().call_api(*args, **kwargs)


def connect(kubeconfig: Path) -> client.ApiClient:
    """A client for the typed APIs of the kubernetes package, with the cluster that `kubeconfig`
    names. Raises InputError if the file is invalid.
    """
    return _Client(configurations.load(kubeconfig))


def _is_temporary(error: BaseException) -> bool:
    """Whether the API server was away or too busy, and may answer in a moment."""
    return isinstance(error, ApiServerError) and error.status in (0, 429, 503, 504)


# For requests that may be repeated: a rotation or a push must not stop half-way because the API
# server restarts.
patiently = retry(
    retry=retry_if_exception(_is_temporary),
    stop=stop_after_delay(PATIENCE),
    wait=wait_random_exponential(multiplier=0.1, max=1.0),
    reraise=True,
)

# For changes that name the version of what they change: somebody else may have changed it since it
# was read.
agreed = retry(
    retry=retry_if_exception(lambda error: isinstance(error, Refused) and error.status == 409),
    stop=stop_after_attempt(5),
    reraise=True,
)


class Objects(ApiRequests):
    """The objects of an API server. The methods take kinds, find the paths by discovery, and repeat
    requests that may be repeated while the API server is away for a moment.
    """

    def __init__(
        self,
        kubeconfig: Path | None,
        *,
        field_manager: str = FIELD_MANAGER,
        user: str = "",
        timeout: Timeout = TIMEOUT,
        page: int | None = None,
        most: int | None = None,
    ) -> None:
        """See ApiRequests. Raises UsageError."""
        super().__init__(kubeconfig, user=user, timeout=timeout, page=page, most=most)
        self._field_manager = field_manager
        self._served: dict[tuple[str, str], Kind] = {}

    @patiently
    def kinds(self) -> list[Kind]:
        """Every kind that is served, in the preferred version of its group. A group is left out
        while its own server (an aggregated API) is away. Raises ApiServerError.
        """
        action = "cannot read the API's resources"
        kinds = discovery.kinds(self.call("GET", api_paths.of_version("v1"), action=action))
        for group in self.call("GET", "/apis", action=action)["groups"]:
            version = group["preferredVersion"]["groupVersion"]
            try:
                kinds += discovery.kinds(
                    self.call(
                        "GET",
                        api_paths.of_version(version),
                        action=f"cannot read the resources of {group['name']}",
                    )
                )
            except Refused as error:
                if error.status not in (404, 503):
                    raise
        return kinds

    def serves(self, manifest: Mapping[str, Any]) -> bool:
        """Whether the API server has the manifest's kind. Raises Unreachable."""
        answer = self.request("GET", api_paths.of_version(manifest["apiVersion"]))
        return answer.ok and any(
            kind.name == manifest["kind"] for kind in discovery.kinds(answer.body)
        )

    @patiently
    def apply(
        self, manifest: Mapping[str, Any], *, dry_run: bool = False, force: bool = True
    ) -> dict[str, Any]:
        """Server-side apply; a field that the API does not know is an error, and without `force`
        one that another manager has set otherwise. Raises Refused, Unreachable.
        """
        query = {"force": str(force).lower(), "fieldValidation": "Strict", **_dry(dry_run)}
        return self._change("apply", manifest, manifest, query, content_type=APPLY)

    def apply_whole(self, manifest: Mapping[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
        """Apply a ConfigMap, and remove the keys that others added, which applying leaves. Returns
        the ConfigMap then. Raises Refused.
        """
        applied = self.apply(manifest, dry_run=dry_run)
        for field in ("data", "binaryData"):
            ours = manifest.get(field, {})
            if foreign := (applied.get(field) or {}).keys() - ours.keys():
                if not dry_run:
                    self.merge(manifest, {field: dict.fromkeys(foreign)})
                applied[field] = {key: applied[field][key] for key in ours}
        return applied

    @patiently
    def merge(self, manifest: Mapping[str, Any], patch: Mapping[str, Any]) -> None:
        """Change the fields in `patch` (RFC 7396) of the object that `manifest` identifies. Raises
        Refused.
        """
        self._change("change", manifest, patch, {}, content_type=MERGE)

    @patiently
    def merge_status(self, manifest: Mapping[str, Any], status: Mapping[str, Any]) -> None:
        """Change the fields of `status` (RFC 7396) in that of the object that `manifest`
        identifies. Raises Refused.
        """
        self._change(
            "change the status of",
            manifest,
            {"status": status},
            {},
            content_type=MERGE,
            subresource="status",
        )

    @patiently
    def patch(
        self,
        manifest: Mapping[str, Any],
        operations: list[dict[str, Any]],
        *,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Change the object that `manifest` identifies by a JSON Patch (RFC 6902); returns the
        object then. Raises Refused.
        """
        return self._change("change", manifest, operations, _dry(dry_run), content_type=_OPERATIONS)

    def create(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Create the object, as a user would. Raises Refused."""
        version, kind, metadata = manifest["apiVersion"], manifest["kind"], manifest["metadata"]
        action = f"cannot create {kind} {metadata.get('name')}"
        path = self._path(action, version, kind, metadata.get("namespace"))
        return self.call("POST", path, manifest, action=action)

    @patiently
    def get(
        self, api_version: str, kind: str, name: str, namespace: str | None = None
    ) -> dict[str, Any] | None:
        """The object, or None if there is none. Raises Refused."""
        action = f"cannot read {kind} {name}"
        path = self._path(action, api_version, kind, namespace, name)
        return self.find(path, action=action)

    @patiently
    def delete(
        self,
        api_version: str,
        kind: str,
        name: str,
        namespace: str | None = None,
        *,
        grace: int | None = None,
        orphan: bool = False,
    ) -> None:
        """Delete the object, if there is one, and what it owns. Raises Refused.

        With `grace`, a pod ends within that many seconds. With `orphan`, the objects that it owns
        stay, without an owner.
        """
        # By default, the pods of a Job would stay.
        body: dict[str, Any] = {"propagationPolicy": "Orphan" if orphan else "Background"}
        body |= {} if grace is None else {"gracePeriodSeconds": grace}
        action = f"cannot delete {kind} {name}"
        path = self._path(action, api_version, kind, namespace, name)
        try:
            self.call("DELETE", path, body, action=action)
        except Refused as error:
            if error.status != 404:
                raise

    def visible(
        self, api_version: str, kind: str, namespace: str | None, labels: str = ""
    ) -> list[dict[str, Any]]:
        """What `list` returns; nothing if the API server does not serve the kind, or does not let
        the user list it. Raises Refused for other reasons.
        """
        try:
            return self.list(api_version, kind, namespace, labels)
        except Refused as error:
            if error.status not in (403, 404):
                raise
            return []

    @patiently
    def list(
        self, api_version: str, kind: str, namespace: str | None, labels: str = ""
    ) -> list[dict[str, Any]]:
        """The objects of a namespace (None for all) that a label selector matches, sorted by name.
        Raises Refused.
        """
        action = f"cannot list {kind}"
        path = self._path(action, api_version, kind, namespace)
        objects = self.collection(path, {"labelSelector": labels}, action=action)
        return sorted(objects, key=lambda item: str(item["metadata"]["name"]))

    def namespaces(self) -> dict[str, dict[str, Any]]:
        """Every namespace, name -> object. Raises ApiServerError."""
        items = self.list("v1", "Namespace", None)
        return {namespace["metadata"]["name"]: namespace for namespace in items}

    def _change(
        self,
        verb: str,
        manifest: Mapping[str, Any],
        patch: Any,
        query: Mapping[str, str],
        *,
        content_type: str,
        subresource: str = "",
    ) -> dict[str, Any]:
        """The object that `manifest` identifies, after this patch of it or of a subresource."""
        version, kind, metadata = manifest["apiVersion"], manifest["kind"], manifest["metadata"]
        action = f"cannot {verb} {kind} {metadata['name']}"
        path = self._path(action, version, kind, metadata.get("namespace"), metadata["name"])
        return self.call(
            "PATCH",
            f"{path}/{subresource}" if subresource else path,
            patch,
            query=query,
            manager=self._field_manager,
            content_type=content_type,
            action=action,
        )

    def _path(
        self, action: str, api_version: str, kind: str, namespace: str | None, name: str = ""
    ) -> str:
        """The path of an object, or of the collection of its kind. Raises Refused if the API server
        does not serve the kind.
        """
        if (api_version, kind) not in self._served:
            try:
                resources = self.call("GET", api_paths.of_version(api_version), action=action)
            except Refused as error:
                if error.status != 404:
                    raise
                resources = {}
            for kind_served in discovery.kinds(resources):
                self._served[api_version, kind_served.name] = kind_served
        resource = self._served.get((api_version, kind))
        if resource is None:
            raise NotServed(action)
        scope = namespace if resource.namespaced else None
        return api_paths.joined(api_version, scope, resource.plural, name)


def reach(
    kubeconfig: Path,
    *,
    field_manager: str = FIELD_MANAGER,
    page: int | None = None,
    most: int | None = None,
) -> Objects:
    """The objects of the cluster that `kubeconfig` names; for `page` and `most`, see Objects.
    Raises UsageError if its API server cannot be reached, InputError if the file is invalid.
    """
    objects = Objects(kubeconfig, field_manager=field_manager, page=page, most=most)
    try:
        objects.call("GET", "/version", action="cannot read the API's resources")
    except Unreachable as error:
        file = kubeconfig_copies.origin(kubeconfig, "clusters")
        raise UsageError(f"{file}: {error}") from error
    return objects


def _dry(dry_run: bool) -> dict[str, str]:
    return {"dryRun": "All"} if dry_run else {}
