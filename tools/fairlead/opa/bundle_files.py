"""Checks and signs the files of bundles, by the program `opa`."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path

from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.opa import cli


def check(modules: Mapping[str, str], progress: Progress) -> None:
    """Compile modules (name -> text). Raises BrokenPolicies for mistakes in their files, and
    FairleadError with OPA's messages.
    """
    with tempfile.TemporaryDirectory(prefix="fairlead-") as folder:
        _write(Path(folder), {name: text.encode() for name, text in modules.items()})
        completed = cli.run(["check", "."], Path(folder), progress)
    if completed.returncode:
        raise cli.failure(
            "OPA does not take the policies", cli.output(completed), modules, Path(folder)
        )


def sign(
    files: Mapping[str, bytes], key: bytes, algorithm: str, claims: Mapping[str, str]
) -> bytes:
    """The text of `.signatures.json` for files (path -> content), by a private key (PEM). Raises
    FairleadError with OPA's message.
    """
    with tempfile.TemporaryDirectory(prefix="fairlead-") as folder:
        at = Path(folder)
        _write(at / "bundle", files)
        _write(at, {"key.pem": key, "claims.json": json.dumps(claims).encode()})
        completed = cli.run(
            [
                "sign",
                "--bundle",
                ".",
                f"--signing-key={at / 'key.pem'}",
                f"--signing-alg={algorithm}",
                f"--claims-file={at / 'claims.json'}",
                f"--output-file-path={at}",
            ],
            at / "bundle",
        )
        if completed.returncode:
            raise FairleadError(f"opa sign: {cli.output(completed)}")
        return (at / ".signatures.json").read_bytes()


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    for path, content in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
