"""Gets, applies and deletes objects of any kind with the kubernetes package, and retries."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import urllib3
from kubernetes import client, dynamic
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic.exceptions import NotFoundError, ResourceNotFoundError
from tenacity import retry, retry_if_exception, stop_after_delay, wait_random_exponential

from fairlead.common.errors import UsageError
from fairlead.kube import transport
from fairlead.kube.errors import ApiServerError, Refused, Unreachable

FIELD_MANAGER = "fairlead"
TIMEOUT = (5.0, 30.0)
"""Seconds, for connecting and for each read."""
PATIENCE = 15.0
"""Seconds for which a request is repeated while the API server is away."""


class _Client(client.ApiClient):
    """A client that gives up on a server that accepts connections and never answers."""

    def __init__(self, configuration: client.Configuration, source: Path) -> None:
        super().__init__(configuration)
        self.source = source

    def call_api(
        self,
        method: str,
        url: str,
        header_params: Any = None,
        body: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        if kwargs.get("_request_timeout") is None:
            kwargs["_request_timeout"] = TIMEOUT
        if isinstance(body, dict) and str((header_params or {}).get("Content-Type")).endswith(
            "yaml"
        ):
            body = as_yaml(body)
        return super().call_api(method, url, header_params, body, *args, **kwargs)


def connect(kubeconfig: Path) -> client.ApiClient:
    """A client of the cluster that `kubeconfig` names. Raises InputError if the file is invalid."""
    return _Client(transport.configuration(kubeconfig), kubeconfig)


def as_yaml(body: Mapping[str, Any]) -> bytes:
    r"""A request's body as YAML that API servers can read, which is JSON in UTF-8.

    By default, JSON escapes characters beyond the basic plane as two surrogates (`"\ud83d\ude92"`).
    Surrogates are no characters in YAML, so the API server would refuse the request.
    """
    # A lone surrogate passes: it is up to the server to refuse it.
    return json.dumps(body, ensure_ascii=False).encode(errors="surrogatepass")


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Raises Refused or Unreachable for the errors of the package; `what` begins the message."""
    try:
        yield
    except ApiException as error:
        if not error.status:
            raise Unreachable(what, error.reason) from error
        raise Refused(what, error.status, error.body, str(error.reason or "")) from error
    except ResourceNotFoundError as error:
        raise Refused(what, 404, None, "it does not serve this kind of object") from error
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise Unreachable(what, error) from error


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


class Objects:
    """Applies and reads objects of any kind, for one thread. While the API server is away for a
    moment, requests that may be repeated are.
    """

    def __init__(self, api: client.ApiClient, *, field_manager: str = FIELD_MANAGER) -> None:
        self._field_manager = field_manager
        # A private file: by default the cache has a path that anyone can predict, and that other
        # versions of the client read, too.
        self._discovered = TemporaryDirectory(prefix="fairlead-", ignore_cleanup_errors=True)
        try:
            with explained("cannot read the API's resources"):
                cache = Path(self._discovered.name) / "discovery.json"
                self._dynamic = dynamic.DynamicClient(api, cache_file=str(cache))
        except Unreachable as error:
            raise UsageError(f"{getattr(api, 'source', 'the kubeconfig')}: {error}") from error

    @patiently
    def apply(self, manifest: Mapping[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
        """Server-side apply; a field that the API does not know is an error. Raises Refused,
        Unreachable.
        """
        metadata = manifest["metadata"]
        with explained(f"cannot apply {manifest['kind']} {metadata['name']}"):
            resource = self._dynamic.resources.get(
                api_version=manifest["apiVersion"], kind=manifest["kind"]
            )
            applied = resource.server_side_apply(
                body=manifest,
                namespace=metadata.get("namespace"),
                field_manager=self._field_manager,
                force_conflicts=True,
                # The dynamic client has no argument for it.
                query_params=[("fieldValidation", "Strict")],
                **({"dry_run": "All"} if dry_run else {}),
            )
            return dict(applied.to_dict())

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
        metadata = manifest["metadata"]
        with explained(f"cannot change {manifest['kind']} {metadata['name']}"):
            resource = self._dynamic.resources.get(
                api_version=manifest["apiVersion"], kind=manifest["kind"]
            )
            name, namespace, kind = (
                metadata["name"],
                metadata.get("namespace"),
                "application/merge-patch+json",
            )
            resource.patch(body=patch, name=name, namespace=namespace, content_type=kind)

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
        metadata = manifest["metadata"]
        with explained(f"cannot change {manifest['kind']} {metadata['name']}"):
            resource = self._dynamic.resources.get(
                api_version=manifest["apiVersion"], kind=manifest["kind"]
            )
            patched = resource.patch(
                body=operations,
                name=metadata["name"],
                namespace=metadata.get("namespace"),
                content_type="application/json-patch+json",
                field_manager=self._field_manager,
                **({"dry_run": "All"} if dry_run else {}),
            )
            return dict(patched.to_dict())

    def create(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Create the object, as a user would. Raises Refused."""
        metadata = manifest["metadata"]
        with explained(f"cannot create {manifest['kind']} {metadata.get('name')}"):
            resource = self._dynamic.resources.get(
                api_version=manifest["apiVersion"], kind=manifest["kind"]
            )
            return dict(
                resource.create(body=manifest, namespace=metadata.get("namespace")).to_dict()
            )

    @patiently
    def get(
        self, api_version: str, kind: str, name: str, namespace: str | None = None
    ) -> dict[str, Any] | None:
        """The object, or None if there is none. Raises Refused."""
        with explained(f"cannot read {kind} {name}"):
            try:
                resource = self._dynamic.resources.get(api_version=api_version, kind=kind)
                return dict(resource.get(name=name, namespace=namespace).to_dict())
            except NotFoundError:
                return None

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
        with explained(f"cannot delete {kind} {name}"), suppress(NotFoundError):
            resource = self._dynamic.resources.get(api_version=api_version, kind=kind)
            resource.delete(name=name, namespace=namespace, body=body)

    @patiently
    def list(
        self, api_version: str, kind: str, namespace: str | None, labels: str = ""
    ) -> list[dict[str, Any]]:
        """The objects of a namespace (None for all) that a label selector matches, sorted by name.
        Raises Refused.
        """
        with explained(f"cannot list {kind}"):
            resource = self._dynamic.resources.get(api_version=api_version, kind=kind)
            items = resource.get(namespace=namespace, label_selector=labels).to_dict()["items"]
            return sorted(items, key=lambda item: str(item["metadata"]["name"]))
