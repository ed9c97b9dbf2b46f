"""The command `fairlead`: finds a command's module by its name, and turns errors into messages and
exit codes."""

from __future__ import annotations

import difflib
import importlib
import io
import os
import re
import signal
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from types import FrameType, MappingProxyType
from typing import Any

import click

from fairlead import __version__
from fairlead.cli import output
from fairlead.common.errors import FairleadError

# Package -> command -> one-line help, in the order that `help --all` shows. A command's module is
# imported when the command runs: the Kubernetes client alone takes half a second to load.
COMMANDS = {
    "fairlead.cli.clusters": {
        "demo": "See Fairlead at work: a cluster, three pools, and where each pod lands.",
        "up": "Start a local cluster with Fairlead installed.",
        "down": "Stop a local cluster and remove its state.",
        "list": "List the clusters that Fairlead created in this checkout.",
    },
    "fairlead.cli.operations": {
        "status": "Show what runs in a cluster and which policies are in force.",
        "policies": "List the policies that OPA loads, with their status.",
        "logs": "Show the logs of OPA, its sidecar or another server, and the decisions in them.",
        "deploy": "Deploy into a cluster; safe to repeat.",
        "render": "Write the manifests as files, for GitOps and kustomize.",
        "bundle": "Give policies to the OPAs of many clusters, as signed bundles.",
        "uninstall": "Remove everything that Fairlead created in a cluster.",
        "push": "Test the policies and push them into a running cluster.",
        "history": "List the pushes, rollbacks and deployments, and compare two of them.",
        "rollback": "Go back to an earlier revision of the policies.",
        "disable": "Let pods in without OPA, in an emergency.",
        "enable": "Have OPA decide again after `fairlead disable`.",
        "rotate": "Replace OPA's token or certificate without a refused request.",
        "access": "Give access that ends on time, approve it, revoke it, and see what happened.",
    },
    "fairlead.cli.decisions": {
        "eval": "Show the decision for one AdmissionReview or manifest, or check many.",
        "audit": "Show what the policies would change, refuse or find misplaced in a cluster.",
        "diff": "Show which decisions changed policies would change in a cluster.",
        "verify": "Run the conformance cases on each engine.",
    },
    "fairlead.cli.placement": {
        "place": "Show on which clusters workloads run, and why not on the others.",
        "what-if": "Show which workloads move if a cluster loses a certification or costs more.",
        "query": "Answer questions of auditors: where a customer's applications run, and more.",
    },
    "fairlead.cli.authoring": {
        "test": "Check and test policies, or the whole checkout.",
        "convert": "Write fairlead.yaml from policies of Gatekeeper, Kyverno or admission plugins.",
        "init": "Start a repository of policies.",
        "new": "Create a policy: its folder, its test and its cases.",
        "generate": "Write the files that are made from the policies' facts and cases.",
        "settings": "Show the settings in force.",
    },
    "fairlead.cli": {
        "image": "Build the image of OPA and of its sidecar.",
        "tools": "List the programs that Fairlead runs, and where they are.",
        "completion": "Print the script that makes bash, zsh or fish complete commands.",
    },
}
TITLES = {
    "fairlead.cli.clusters": "Local clusters",
    "fairlead.cli.operations": "A deployment",
    "fairlead.cli.decisions": "Decisions",
    "fairlead.cli.placement": "Placement over clusters",
    "fairlead.cli.authoring": "Policies and settings of your own",
    "fairlead.cli": "The programs around it",
}
"""What the help calls the commands of each package."""
EVERYDAY = ("demo", "up", "deploy", "status", "push", "rollback", "eval", "audit", "logs", "test")
"""The commands that the help shows first."""
HIDDEN = {
    "fairlead.cli": ("help", "version"),
    "fairlead.cli.processes": ("sync", "serve", "controller"),
}
"""Commands that --help leaves out: pods run them, or it says the same."""


class CommandGroup(click.Group):
    """Commands with one line of help each; `commands` and `hidden` have the packages of their
    modules. The help shows those of `everyday`, and all with `titles` of their packages if the
    context says so (output.ALL_COMMANDS); without `everyday`, it shows all.
    """

    def __init__(
        self,
        *,
        commands: Mapping[str, Mapping[str, str]],
        hidden: Mapping[str, Iterable[str]] = MappingProxyType({}),
        everyday: Sequence[str] = (),
        titles: Mapping[str, str] = MappingProxyType({}),
        **attributes: Any,
    ) -> None:
        super().__init__(**attributes)
        self._everyday = everyday
        self._groups = {titles.get(package, "Commands"): commands[package] for package in commands}
        self._lines = {name: line for lines in commands.values() for name, line in lines.items()}
        self._packages = {
            name: package
            for package, names in (*commands.items(), *hidden.items())
            for name in names
        }

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._packages)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._packages:
            return None
        module = importlib.import_module(f"{self._packages[cmd_name]}.{cmd_name.replace('-', '_')}")
        command = module.command
        assert isinstance(command, click.Command)  # noqa: S101 - each command module has one, named so
        command.hidden = cmd_name not in self._lines
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not ctx.resilient_parsing and name not in self._packages and not name.startswith("-"):
            close = difflib.get_close_matches(name, self._packages, n=3)
            advice = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
            raise click.UsageError(f"No such command {name!r}.{advice}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if not self._everyday or ctx.meta.get(output.ALL_COMMANDS):
            for title, lines in self._groups.items():
                with formatter.section(title):
                    formatter.write_dl(list(lines.items()))
            return
        with formatter.section("Everyday commands"):
            formatter.write_dl([(name, self._lines[name]) for name in self._everyday])
        formatter.write_paragraph()
        formatter.write_text(f"`{ctx.command_path} help --all` lists all commands.")


@click.group(
    cls=CommandGroup,
    commands=COMMANDS,
    hidden=HIDDEN,
    everyday=EVERYDAY,
    titles=TITLES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@click.version_option(__version__, prog_name="fairlead")
def cli() -> None:
    """Policy-driven placement for Kubernetes: every pod lands in its namespace's node pool, decided
    by OPA.

    Exit code: 0 on success, 1 if a check failed, 2 on wrong usage.
    """


def main(command: click.Command = cli) -> None:
    """Run a command, by default the whole command line, and exit."""
    signal.signal(signal.SIGTERM, _interrupt)
    sys.unraisablehook = _resend_interrupt
    for stream in (sys.stdout, sys.stderr):
        # Characters that the encoding lacks, such as half a surrogate pair, are escaped.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = command.main(standalone_mode=False)
    except click.Abort as error:  # click raises it for KeyboardInterrupt, too
        output.error("interrupted")
        _print_notes(error.__cause__)
        sys.exit(130)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(error.exit_code)
    except click.ClickException as error:
        location = (
            error.ctx.command_path
            if isinstance(error, click.UsageError) and error.ctx
            else "fairlead"
        )
        output.error(f"{_sentence(error.format_message())} See `{location} --help`.")
        sys.exit(error.exit_code)
    except KeyboardInterrupt as error:
        output.error("interrupted")
        _print_notes(error)
        sys.exit(130)
    except FairleadError as error:
        output.error(str(error))
        _print_notes(error)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:
        location = f" ({error.filename})" if error.filename else ""
        output.error(f"{error.strerror or error}{location}")
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)


def _print_notes(error: BaseException | None) -> None:
    """Print what was added to an error, such as what became of a cluster."""
    for note in getattr(error, "__notes__", ()):
        output.note(note)


def _sentence(message: str) -> str:
    """click's message as one line of whole sentences."""
    text = " ".join(message.split())
    text = re.sub(
        r"^Got unexpected extra arguments? \((.*)\)$", r"The command takes no argument \1.", text
    )
    return text if text.endswith((".", "?", "!")) else f"{text}."


def _interrupt(_signum: int, _frame: FrameType | None) -> None:
    """Treat SIGTERM like Ctrl-C, so that everything that was started is stopped."""
    raise KeyboardInterrupt


def _resend_interrupt(is_lost: sys.UnraisableHookArgs) -> None:
    """Send an interrupt again that came during a finalizer, where Python drops exceptions."""
    if isinstance(is_lost.exc_value, KeyboardInterrupt):
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM)).start()
    else:
        sys.__unraisablehook__(is_lost)


if __name__ == "__main__":
    main()
