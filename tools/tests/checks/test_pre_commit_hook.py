"""The hook for pre-commit, installed and run by pre-commit itself in a scratch repository."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import offline_pip
import pytest
import yaml

from fairlead.common import paths

REFUSED = """\
apiVersion: v1
kind: Namespace
metadata: {name: payments, labels: {agentpool: pool1}}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: payments}
spec: {containers: [], nodeName: n1}
"""


class Repositories:
    """A Git repository with Fairlead's files as they are now, and one that uses its hook."""

    def __init__(self, folder: Path) -> None:
        self.here = folder / "user"
        self.environment = {
            **offline_pip.environment(),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull,
            **{
                f"GIT_{who}_{what}": "someone@example.com"
                for who in ("AUTHOR", "COMMITTER")
                for what in ("NAME", "EMAIL")
            },
            "PRE_COMMIT_HOME": str(folder / "pre-commit"),
            "PRE_COMMIT_COLOR": "never",
        }
        fairlead = folder / "fairlead"
        offline_pip.copy_checkout(fairlead)
        self._commit(fairlead)
        self.here.mkdir()
        self._git("init", "--quiet", at=self.here)
        hook = {
            "repo": str(fairlead),
            "rev": self._git("rev-parse", "HEAD", at=fairlead).strip(),
            "hooks": [{"id": "fairlead"}],
        }
        (self.here / ".pre-commit-config.yaml").write_text(yaml.safe_dump({"repos": [hook]}))
        self.run("pre-commit", "install")

    def commit(self) -> subprocess.CompletedProcess[str]:
        """Commit everything, which runs the hook."""
        self._git("add", "--all", at=self.here)
        return self.run("git", "commit", "--message=manifests")

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            argv,
            cwd=self.here,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def _commit(self, folder: Path) -> None:
        self._git("init", "--quiet", at=folder)
        self._git("add", "--all", at=folder)
        self._git("commit", "--quiet", "--no-verify", "--message=all", at=folder)

    def _git(self, *arguments: str, at: Path) -> str:
        done = subprocess.run(
            ["git", *arguments],  # noqa: S607 - the user's own
            cwd=at,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> Repositories:
    return Repositories(tmp_path_factory.mktemp("repositories"))


def test_the_hook_refuses_a_commit_and_admits_its_correction(repositories: Repositories) -> None:
    manifest = repositories.here / "apps" / "web.yaml"
    manifest.parent.mkdir()
    manifest.write_text(REFUSED)
    refused = repositories.commit()
    output = refused.stdout + refused.stderr
    assert refused.returncode == 1, output
    assert 'apps/web.yaml:5: refused: Pod payments/web: pod "web" sets spec.nodeName=n1' in output
    manifest.write_text(REFUSED.replace(", nodeName: n1", ""))
    corrected = repositories.commit()
    output = corrected.stdout + corrected.stderr
    assert corrected.returncode == 0, output
    assert "placement policies" in output
    (program,) = repositories.here.parent.glob("pre-commit/*/py_env-*/bin/python")
    used = repositories.run(
        str(program), "-P", "-c", "from fairlead.common import paths; print(paths.root())"
    ).stdout.strip()
    assert used.startswith(str(repositories.here.parent / "pre-commit")), (
        "the hook reads the policies that are installed with it"
    )


def test_the_manifest_of_hooks_is_valid() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pre_commit",
            "validate-manifest",
            str(paths.root() / ".pre-commit-hooks.yaml"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
