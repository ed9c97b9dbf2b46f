"""A real OPA for fuzzing, with TLS, token and policies as deployed."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from fairlead.clusters.embedded import ports, volume
from fairlead.common import waiting
from fairlead.common.errors import FairleadError
from fairlead.deployment import credentials, sidecars
from fairlead.deployment.credentials import Credentials, fresh_token
from fairlead.deployment.names import NAMESPACE, POLICIES
from fairlead.opa import cli, containers
from fairlead.opa.api import OpaApi, lets_in, opens
from fairlead.opa.errors import PolicyRejected
from fairlead.policy import bundles, policy_files
from fairlead.policy.bundles import Bundle, ScopedTokens
from fairlead.policy.revision import MAIN
from fairlead.programs import toolchain
from fairlead.settings.models import Settings
from fairlead.settings.services import SCOPES

CONSOLE = tuple(sidecars.KUBE_MGMT.decision_logs(containers.MOUNTED, Settings(), ""))
"""The flags that have decisions logged on the console, as beside kube-mgmt."""
_DEADLINE = 60.0  # seconds
AuthzPolicy = Callable[[list[str], ScopedTokens], str]
"""Creates the module system.authz for the valid tokens, and those of each scope."""


class Opa:
    """One OPA with its own port and its files below `folder`. `authz` and `bundle` are the deployed
    ones, or broken ones.

    If `limited`, it is asked at the port that others than its sidecar reach, with the limits of its
    plugin.
    """

    def __init__(
        self,
        folder: Path,
        *,
        bundle: Bundle,
        data: Mapping[str, Any],
        authz: AuthzPolicy = bundles.authz_module,
        flags: Sequence[str] = (),
        http2: bool = False,
        limited: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.files = containers.Files(*(folder / name for name in ("tls", "authz", "token")))
        self.log = folder / "opa.log"
        self._bundle, self._data, self._authz, self._flags = bundle, data, authz, flags
        self._environment = containers.OPA_ENVIRONMENT | dict(environment or {})
        made = Credentials.fresh(credentials.LOOPBACK)
        self.tokens = [made.token]
        """The valid tokens. Earlier ones are in `retired`, the oldest first."""
        self.retired = [fresh_token()]
        self.scoped = {name: (fresh_token(), fresh_token()) for name in SCOPES}
        """The valid tokens of each scope, the newest first. Earlier ones are in `scoped_retired`,
        the oldest first."""
        self.scoped_retired = {name: [fresh_token()] for name in SCOPES}
        volume.write(
            Path(self.files.tls),
            {"tls.crt": made.certificate, "tls.key": made.key, "ca.crt": made.ca},
        )
        self._write_file_modules()
        outer, inner, clear = ((ports.HOST, port) for port in ports.free_ports(3))
        self._addresses = outer, inner
        self.address = outer if limited else inner
        self.http2 = clear if http2 else None
        """The address of HTTP/2 in clear text, because over TLS this OPA speaks only HTTP/1. The
        authz policy is the same."""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def ca(self) -> Path:
        """The CA file to verify it by."""
        return Path(self.files.ca)

    @property
    def token(self) -> str:
        """The newest valid token."""
        return self.tokens[-1]

    @property
    def pid(self) -> int | None:
        """Its process id, None if it has ended."""
        return self._process.pid if self._process and self._process.poll() is None else None

    @property
    def url(self) -> str:
        """The URL of its API."""
        host, port = self.address
        return f"https://{host}:{port}"

    def start(self) -> None:
        """Start it, load policies and data, and wait until it is ready. Raises FairleadError."""
        self.launch()
        api = self.api()
        try:
            for path, value in self._data.items():
                api.put_document(path.split("/"), value)
            self._load(api)
            waiting.until(api.ready, deadline=_DEADLINE, what="OPA is ready")
        except FairleadError as error:
            raise self._with_log(error) from error
        finally:
            api.close()

    def launch(self) -> None:
        """Start it, and wait until it answers. Raises FairleadError."""
        outer, inner = (f"{host}:{port}" for host, port in self._addresses)
        flags = [*containers.opa_arguments(self.files, outer, inner), *self._flags]
        if self.http2:
            flags += ["--h2c", f"--addr=http://{self.http2[0]}:{self.http2[1]}"]
        program = toolchain.ensure([toolchain.FAIRLEAD_OPA])[toolchain.FAIRLEAD_OPA]
        self._process = self._run([str(program), *flags], self._environment)
        api = self.api()
        try:
            waiting.until(
                lambda: api.policies() is not None, deadline=_DEADLINE, what="OPA answers"
            )
        except FairleadError as error:
            raise self._with_log(error) from error
        finally:
            api.close()

    def _with_log(self, error: FairleadError) -> FairleadError:
        return FairleadError(f"{error}\n{self.log.read_text(errors='replace')[-2000:]}")

    def stop(self) -> None:
        """Stop it."""
        if self._process:
            self._process.kill()
            self._process.wait()

    def _run(self, argv: list[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**cli.environment(), **environment},
            )

    def api(self, token: str | None = None) -> OpaApi:
        """A client with `token`, the newest one by default."""
        return OpaApi(self.url, ca=self.ca, token=token or self.token, timeout=_DEADLINE)

    def rotate(self) -> str | None:
        """Replace the token as `fairlead rotate` does, with a time in which both tokens are valid.

        Returns what went wrong; None if each token was accepted and refused at the right times.
        Raises FairleadError if the new token is never accepted or the old one never refused.
        """
        old, new = self.token, fresh_token()
        self.tokens.append(new)
        self._write_file_modules()
        waiting.until(
            lambda: lets_in(self.api(new)), deadline=_DEADLINE, what="OPA accepts the new token"
        )
        wrong = (
            None
            if lets_in(self.api(old))
            else "the old token is refused as soon as there is a new one"
        )
        self.tokens.remove(old)
        self.retired.append(old)
        self._write_file_modules()
        waiting.until(
            lambda: not lets_in(self.api(old)),
            deadline=_DEADLINE,
            what="OPA refuses the token rotated away",
        )
        return wrong if lets_in(self.api(new)) else "the new token is refused when the old one goes"

    def rotate_scoped(self) -> str | None:
        """Replace the token of each scope as `fairlead rotate token --scope` does; the one before
        stays valid. Returns and raises as `rotate`.
        """
        former = dict(self.scoped)
        for name, (before, refused) in former.items():
            self.scoped[name] = (fresh_token(), before)
            self.scoped_retired[name].append(refused)
        self._write_file_modules()
        waiting.until(
            lambda: all(self._opens(name, new) for name, (new, _) in self.scoped.items()),
            deadline=_DEADLINE,
            what="OPA accepts the new tokens of the scopes",
        )
        for name, (before, refused) in former.items():
            if not self._opens(name, before):
                return f"the token of the scope {name} before the newest one is refused"
            if self._opens(name, refused):
                return f"the token of the scope {name} that was rotated away is accepted"
        return None

    def _opens(self, scope: str, token: str) -> bool:
        return opens(self.api(token), SCOPES[scope].requests)

    def state(self) -> tuple[dict[str, str], Any]:
        """All of its policies and data, except those that fuzzing writes with a token."""
        api = self.api()
        try:
            policies = {id_: text for id_, text in self.own_policies().items() if id_ != "fuzz"}
            return policies, [api.document(path.split("/")) for path in self._data]
        finally:
            api.close()

    def own_policies(self) -> dict[str, str]:
        """The policies that were loaded by its API, by their ids."""
        api = self.api()
        try:
            return {
                id_: text for id_, text in api.policies().items() if id_ not in self._file_modules()
            }
        finally:
            api.close()

    def _load(self, api: OpaApi) -> None:
        """Load the policies as a sidecar does: at once, or, if OPA does not take them, one by one,
        which tells what is wrong. A policy then waits for those that it needs, main.rego for all.
        """
        prefix = f"{NAMESPACE}/{POLICIES}/"
        if api.change_policies(
            {prefix + key: text for key, text in self._bundle.modules.items()}, ()
        ):
            return
        left = sorted(self._bundle.modules, key=lambda key: (key == MAIN, key))
        while left:
            refused, problem = [], None
            for key in left:
                try:
                    api.put_policy(prefix + key, self._bundle.modules[key])
                except PolicyRejected as error:
                    refused.append(key)
                    problem = error
            if problem and refused == left:
                raise problem
            left = refused

    def _file_modules(self) -> set[str]:
        paths = {str(Path(self.files.authz) / name) for name in policy_files.FILE_MODULES}
        return paths | {path.lstrip("/") for path in paths}

    def _write_file_modules(self) -> None:
        authz = {policy_files.AUTHZ: self._authz(self.tokens, self.scoped)}
        modules = bundles.file_modules(self.tokens, self.scoped) | authz
        volume.write(
            Path(self.files.authz), {name: text.encode() for name, text in modules.items()}
        )


OpaKind = TypeVar("OpaKind", bound=Opa)


@contextmanager
def running(opa: OpaKind) -> Iterator[OpaKind]:
    """Run `opa` during the block."""
    try:
        opa.start()
        yield opa
    finally:
        opa.stop()
