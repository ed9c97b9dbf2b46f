"""A real OCI registry with TLS, and a server that gives tokens for it."""

from __future__ import annotations

import base64
import json
import subprocess
import time
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import requests
import yaml
from answering_servers import Reply, Request
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from fairlead.clusters.embedded import ports
from fairlead.common import waiting
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.deployment import credentials
from fairlead.deployment.credentials import Tls
from fairlead.distribution import client, signatures
from fairlead.distribution.archives import Archive
from fairlead.programs import toolchain

DEADLINE = 180.0
USER = ("pusher", "secret")
# Of the password, by bcrypt: the registry takes no other form.
HTPASSWD = "pusher:$2b$04$l.eKDH0nLIt9oDeI6HTH5OXVsWsRKxMj8n5wKz17iMYP5hB5QN1s.\n"
SERVICE, ISSUER = "bundles", "tokens"


class Tokens:
    """What gives tokens for a registry: to `USER` those that he asks for, and without a user those
    to pull. `expired` is how many of the next tokens have expired already.
    """

    def __init__(self, folder: Path) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.key_set = folder / "tokens.jwks"
        self.expired = 0
        numbers = self._key.public_key().public_numbers()
        key = {"kty": "EC", "crv": "P-256", "kid": ISSUER, "alg": "ES256", "use": "sig"}
        point = {"x": _encoded(numbers.x.to_bytes(32)), "y": _encoded(numbers.y.to_bytes(32))}
        self.key_set.write_text(json.dumps({"keys": [{**key, **point}]}))

    def answer(self, request: Request) -> Reply:
        authorization = request.authorization
        if authorization not in ("", basic(*USER)):
            error = {"code": "UNAUTHORIZED", "message": "wrong password"}
            return Reply(401, body=json.dumps({"errors": [error]}).encode())
        query = parse_qs(urlsplit(request.path).query)
        allowed = {"pull", "push"} if authorization else {"pull"}
        access = []
        for scope in query.get("scope", []):
            kind, name, actions = scope.split(":")
            given = sorted(allowed & set(actions.split(",")))
            access.append({"type": kind, "name": name, "actions": given})
        token = self._token(query["service"][0], access)
        return Reply(200, body=json.dumps({"token": token}).encode())

    def _token(self, audience: str, access: list[Any]) -> str:
        now = int(time.time())
        lasts = 3600
        if self.expired:
            self.expired, lasts = self.expired - 1, -3600
        claims: dict[str, Any] = {
            "iss": ISSUER,
            "sub": "a",
            "aud": audience,
            "jti": "1",
            "access": access,
        }
        claims |= {"iat": now - 7200, "nbf": now - 7200, "exp": now + lasts}
        parts = [{"alg": "ES256", "typ": "JWT", "kid": ISSUER}, claims]
        signed = ".".join(_encoded(json.dumps(part).encode()) for part in parts)
        pair = decode_dss_signature(self._key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{signed}.{_encoded(b''.join(number.to_bytes(32) for number in pair))}"


class Registry:
    """Distribution's registry on loopback, with its files below `folder`. It takes the password of
    `USER`, or with a `realm` the tokens that are signed by a key of `key_set`.
    """

    def __init__(
        self, folder: Path, *, tls: Tls | None = None, realm: str = "", key_set: Path | None = None
    ) -> None:
        folder.mkdir()
        tls = tls or fresh_tls()
        self.key = signatures.new_key()
        self.ca, self.token = folder / "ca.crt", folder / "token"
        self.address = f"{ports.HOST}:{ports.free_ports(1)[0]}"
        self.url = f"oci://{self.address}/fleet"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._last = 0
        files = {"tls.crt": tls.certificate, "tls.key": tls.key, "htpasswd": HTPASSWD.encode()}
        for name, content in files.items():
            (folder / name).write_bytes(content)
        self.ca.write_bytes(tls.ca)
        self.token.write_text(":".join(USER))
        auth: dict[str, Any] = {"htpasswd": {"realm": "bundles", "path": str(folder / "htpasswd")}}
        if key_set:
            names = {"realm": realm, "service": SERVICE, "issuer": ISSUER}
            auth = {"token": {**names, "jwks": str(key_set)}}
        configuration = {
            "version": 0.1,
            "log": {"level": "warn", "accesslog": {"disabled": True}},
            "storage": {"filesystem": {"rootdirectory": str(folder / "stored")}},
            "http": {
                "addr": self.address,
                "tls": {"certificate": str(folder / "tls.crt"), "key": str(folder / "tls.key")},
            },
            "auth": auth,
        }
        (folder / "config.yaml").write_text(yaml.safe_dump(configuration))

    def start(self) -> None:
        program = toolchain.ensure(["registry"], Progress())["registry"]
        with (self._folder / "registry.log").open("ab") as log:
            self._process = subprocess.Popen(
                [program, "serve", self._folder / "config.yaml"], stdout=log, stderr=log
            )
        waiting.until(self._answers, deadline=DEADLINE, what="the registry answers")

    def stop(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()

    def signed(self, archive: Archive) -> Archive:
        """The bundle, signed later than any before."""
        self._last += 1
        return signatures.sign(
            archive, self.key, scope=signatures.SCOPE, now=2**30 + self._last, lasts=None
        )

    def push(self, archive: Archive) -> str:
        """Push a signed bundle. Raises UsageError."""
        return client.push(self.url, archive, archive.packed(), token=self.token, ca=self.ca)

    def get(self, path: str) -> requests.Response:
        url = f"https://{self.address}/v2/{path}"
        return requests.get(url, auth=USER, verify=str(self.ca), timeout=DEADLINE)

    def _answers(self) -> bool:
        try:
            return self.get("").status_code in (200, 401)
        except requests.RequestException as error:
            raise FairleadError(str(error)) from error


def fresh_tls() -> Tls:
    """A certificate for servers on loopback."""
    return Tls.fresh(timedelta(days=1), credentials.LOOPBACK)


def basic(user: str, password: str) -> str:
    """The header Authorization of a user."""
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def _encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
