"""The command `fairlead`: finds a command's module by its name, and turns errors into messages and
exit codes."""

from __future__ import annotations

import importlib
import io
import os
import signal
import sys
import threading
from types import FrameType

import click

from fairlead import __version__
from fairlead.cli import output
from fairlead.common.errors import FairleadError

# Command -> (module under fairlead.cli, one-line help), in the order that --help shows. A module is
# imported when its command runs: the Kubernetes client alone takes half a second to load.
COMMANDS = {
    "demo": "See the main job: a cluster, three pools, and where each pod lands.",
    "up": "Start a cluster with all that places pods.",
    "down": "Stop a cluster and remove what it left.",
    "status": "Tell what runs and what it serves.",
    "logs": "Show the logs of OPA, its sidecar or another server.",
    "deploy": "Deploy into a cluster; safe to repeat.",
    "render": "Write the manifests, for GitOps and kustomize.",
    "uninstall": "Remove from a cluster all that Fairlead brought into it.",
    "push": "Test the policies and push them into a running cluster.",
    "history": "List the revisions of the policies that were in force.",
    "rollback": "Bring an earlier revision back.",
    "rotate": "Replace OPA's token or certificate without a refused request.",
    "eval": "The decision for one AdmissionReview or manifest.",
    "audit": "What the policies would change, refuse or find misplaced in a cluster as it is.",
    "diff": "What changed policies would decide otherwise for a cluster as it is.",
    "verify": "Run the conformance cases on each engine.",
    "chaos": "Break everything under load, and check what must hold.",
    "fuzz": "Send OPA what nobody should, and check what it answers.",
    "test": "Check, lint and test policies and code.",
    "image": "Build the image of the sidecar.",
    "e2e": "Run the integration tests on a cluster of any kind.",
    "docker-e2e": "Run the end-to-end checks in a container.",
    "new": "Start a policy: its folder, its test, and all registrations.",
    "settings": "Show the settings in force.",
    "tools": "The programs that Fairlead runs, and where they are.",
    "sync": "Run as OPA's sidecar: keep its policies and data current.",
    "keeper": "Renew OPA's certificate in time, beside kube-mgmt.",
}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"fairlead.cli.{cmd_name.replace('-', '_')}")
        command = module.command
        assert isinstance(command, click.Command)  # noqa: S101 - each command module has one, named so
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@click.version_option(__version__, prog_name="fairlead")
def cli() -> None:
    """Policy-driven placement for Kubernetes: every pod lands in its namespace's node pool, decided
    by OPA.

    Exit code: 0 on success, 1 when what was checked does not hold, 2 on wrong usage.
    """


def main() -> None:
    """Run the command line and exit."""
    signal.signal(signal.SIGTERM, _interrupt)
    sys.unraisablehook = _again
    for stream in (sys.stdout, sys.stderr):
        # what no encoding has, such as half a surrogate pair, is told escaped
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = cli.main(standalone_mode=False)
    except click.Abort:
        output.error("interrupted")
        sys.exit(130)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(error.exit_code)
    except click.ClickException as error:
        where = (
            error.ctx.command_path
            if isinstance(error, click.UsageError) and error.ctx
            else "fairlead"
        )
        output.error(f"{error.format_message()} See `{where} --help`.")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        output.error("interrupted")
        sys.exit(130)
    except FairleadError as error:
        output.error(str(error))
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        output.error(f"{error.strerror or error}{where}")
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)


def _interrupt(_signum: int, _frame: FrameType | None) -> None:
    """A SIGTERM ends as Ctrl-C does, so that what was started is stopped."""
    raise KeyboardInterrupt


def _again(lost: sys.UnraisableHookArgs) -> None:
    """An interrupt that came while a finalizer ran, where Python drops it, is sent once more, a
    moment later.
    """
    if isinstance(lost.exc_value, KeyboardInterrupt):
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM)).start()
    else:
        sys.__unraisablehook__(lost)


if __name__ == "__main__":
    main()
