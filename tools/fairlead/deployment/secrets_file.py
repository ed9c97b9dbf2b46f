"""Reads and writes the file that holds OPA's tokens and certificate, for GitOps.

The file holds the Secrets as they are applied, so that people can encrypt, seal or apply it.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from cryptography.exceptions import UnsupportedAlgorithm
from pydantic import BaseModel

from fairlead.common import atomic_files, yaml_files
from fairlead.common.errors import InputError, UsageError
from fairlead.deployment import manifests
from fairlead.deployment.credentials import Credentials
from fairlead.deployment.names import RENEWED_BY, TLS_SECRET, TOKEN_SECRET, scoped_secret
from fairlead.pki import certificates
from fairlead.settings.models import Certificates
from fairlead.settings.services import SCOPES

DEFAULT = Certificates()

_HEAD = "# A token and a private key: encrypt this file before it goes into Git.\n"


class _Metadata(BaseModel):
    name: str


class _Secret(BaseModel):
    kind: Literal["Secret"]
    metadata: _Metadata
    data: dict[str, str]


@dataclass(frozen=True)
class SecretsFile:
    """Credentials, and the file in which `save` keeps them.

    `documents` are the objects in the file, [] if it does not exist yet. `news` says what is not
    saved yet.
    """

    path: Path
    credentials: Credentials
    documents: Sequence[Mapping[str, Any]]
    news: str | None

    def save(self, secrets: Sequence[Mapping[str, Any]]) -> str | None:
        """Write the data of the rendered `secrets` into the file (0600), and return what changed.

        None means that nothing changed. What people added to the Secrets, such as annotations, is
        kept. Raises UsageError if the file cannot be written.
        """
        data = {secret["metadata"]["name"]: secret["data"] for secret in secrets}
        present = {document["metadata"]["name"]: document for document in self.documents}
        ours = [
            {**document, "data": data[name]} for name, document in present.items() if name in data
        ]
        missing = [secret for secret in secrets if secret["metadata"]["name"] not in present]
        documents = list(map(_renewed_by_render, [*ours, *missing]))
        if documents == list(self.documents):
            return None
        text = _HEAD + manifests.to_yaml(documents)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            atomic_files.write_private(self.path.resolve(), text.encode())
        except OSError as error:
            raise UsageError(
                f"{self.path}: cannot be written ({error.strerror}): name another file"
            ) from error
        names = [f"Secret {secret['metadata']['name']}" for secret in missing]
        return self.news or (
            f"{self.path}: {' and '.join(names)} made"
            if names
            else f"{self.path}: the authz policy changed, and with it the Secret {TOKEN_SECRET}"
        )


def load(path: Path, policy: Certificates = DEFAULT, *, renew: bool = False) -> SecretsFile:
    """The credentials of the file, or new ones if it does not exist; writes nothing.

    A certificate is replaced when it is due by `policy`; with `renew`, certificate and tokens are
    replaced now. The old CA stays trusted beside the new one, as pods may still serve the old
    certificate. Raises InputError if the file does not hold both Secrets.
    """
    if not path.exists():
        return SecretsFile(
            path,
            Credentials.fresh(valid=policy.valid),
            (),
            f"{path}: made, with a new token and certificate",
        )
    documents = yaml_files.read_yaml(path)
    secrets = {
        secret.metadata.name: secret.data
        for secret in (document.parse(_Secret) for document in documents)
    }
    scoped = {scope: secrets.pop(scoped_secret(scope), None) for scope in SCOPES}
    count = len(documents) - len(list(filter(None, scoped.values())))
    if policy.by == "cert-manager" and secrets.keys() == {TOKEN_SECRET}:
        return _of_token(
            path,
            secrets[TOKEN_SECRET],
            scoped,
            [document.value for document in documents],
            policy,
            renew=renew,
        )
    if count != 2 or secrets.keys() != {TOKEN_SECRET, TLS_SECRET}:
        raise InputError(
            path, f"has to hold the Secrets {TOKEN_SECRET} and {TLS_SECRET}, each once: {_WAY_OUT}"
        )
    try:
        credentials = Credentials.kept(secrets[TOKEN_SECRET], secrets[TLS_SECRET], scoped=scoped)
        if credentials is None:
            raise ValueError("a part is missing, damaged or encrypted")
        issuer = _issuer(credentials)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise InputError(
            path, f"holds no token and certificate that can be used ({error}): {_WAY_OUT}"
        ) from error
    news = None
    if renew or credentials.tls.is_due(policy.renewal):
        fresh = Credentials.fresh(valid=policy.valid)
        token = fresh.token if renew else credentials.token
        if renew:
            credentials = credentials.renewing(credentials.scoped)
        credentials = replace(fresh, token=token, ca=fresh.ca + issuer, scoped=credentials.scoped)
        end = f"{certificates.not_after(fresh.certificate):%Y-%m-%d}"
        news = f"{path}: {'token and certificate' if renew else 'certificate'} renewed, until {end}"
    return SecretsFile(path, credentials, [document.value for document in documents], news)


def _of_token(
    path: Path,
    data: Mapping[str, str],
    scoped: Mapping[str, Mapping[str, str] | None],
    documents: list[dict[str, Any]],
    policy: Certificates,
    *,
    renew: bool,
) -> SecretsFile:
    """A file with only tokens, for clusters where cert-manager keeps the certificate. Raises
    InputError.
    """
    fresh = Credentials.fresh(valid=policy.valid)
    tls = {key: b64encode(value).decode() for key, value in fresh.tls.files.items()}
    credentials = Credentials.kept(data, tls, scoped=scoped)
    if credentials is None:
        raise InputError(path, f"holds no token that can be used: {_WAY_OUT}")
    if renew:
        credentials = replace(credentials.renewing(credentials.scoped), token=fresh.token)
    return SecretsFile(path, credentials, documents, f"{path}: token renewed" if renew else None)


def _renewed_by_render(secret: Mapping[str, Any]) -> dict[str, Any]:
    """The Secret, marked so that nothing in the cluster renews it: the next apply of the file would
    undo that.
    """
    metadata = dict(secret["metadata"])
    if metadata["name"] == TLS_SECRET:
        metadata["annotations"] = {
            **(metadata.get("annotations") or {}),
            RENEWED_BY: "fairlead render",
        }
    return {**secret, "metadata": metadata}


_WAY_OUT = "bring it back (decrypted) from where it is kept, or remove it to have new ones made"


def _issuer(credentials: Credentials) -> bytes:
    """The CA (PEM) that issued the certificate. Raises ValueError if key or CA do not match it."""
    if not certificates.goes_with(credentials.key, credentials.certificate):
        raise ValueError("tls.key is not the key of tls.crt")
    try:
        return certificates.issuer(credentials.certificate, credentials.ca)
    except ValueError as error:
        raise ValueError("tls.crt was issued by none of ca.crt") from error
