"""Invalid input on the command line: exit code 2, and one or two lines on stderr that name the
place."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from command_line import fairlead, refused

from fairlead import __version__
from fairlead.__main__ import COMMANDS, cli
from fairlead.common import paths
from fairlead.common.errors import UsageError


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("up", "--engine", "x"), "'x' is not one of 'opa', 'cel'"),
        (("up", "--cluster", "x"), "'x' is not one of 'embedded', 'kind', 'context'"),
        (("up", "--name", "No_Name"), "cannot name a cluster"),
        (("up", "--name", ""), "--name is empty: name a cluster, or leave --name out"),
        (("up", "--name", " ", "--cluster", "kind"), "--name is empty"),
        (("status", "--context", ""), "--context is empty"),
        (("up", "--nodes", "Bad Pool=1"), "is not a pool name"),
        (("up", "--nodes", "a=x"), "a number is expected"),
        (("up", "--nodes", "a=-1"), "give 0 to 1000 nodes"),
        (("status", "--name", "nowhere"), "fairlead up --name nowhere"),
        (("logs", "--name", "nowhere"), "fairlead up --name nowhere"),
        (("push", "--name", "nowhere"), "fairlead up --name nowhere"),
        (("deploy", "--name", "nowhere"), "fairlead up --name nowhere"),
        (("rotate", "token", "--name", "nowhere"), "fairlead up --name nowhere"),
        (("rotate", "x"), "'x' is not one of"),
        (("eval", "nowhere.json"), "nowhere.json: cannot be read"),
        (("eval", "testdata/review.json", "--live", "--name", "nowhere"), "no cluster 'nowhere'"),
        (("eval", "testdata/review.json", "--namespace-labels", "a=b c"), "is not a label value"),
        (("verify", "--engine", "x"), "unknown engine 'x'"),
        (("statsu",), "No such command 'statsu'. Did you mean 'status'?"),
        (("help", "dwon"), "No such command 'dwon'. Did you mean 'down'?"),
        (("help", "down", "x"), "fairlead down` has no commands of its own."),
        (("completion", "csh"), "'csh' is not one of 'bash', 'zsh', 'fish'"),
        (("verify", "--cases", "nowhere.yaml"), "nowhere.yaml: cannot be read"),
        (("test", "--step", "x"), "no step 'x'"),
        (("tools", "--path", "x"), "x"),
        (("settings", "-o", "xml"), "'xml' is not one of"),
        (("sync", "--kubeconfig", "nowhere"), "nowhere"),
        (("nothing",), "No such command 'nothing'"),
    ],
)
def test_what_is_not_there_is_told(arguments: tuple[str, ...], words: str) -> None:
    assert words in refused(*arguments)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[" * 100_000,
        "a: [",
        "a: &x [*x]",
        '{"a": ' + "9" * 5000 + "}",
        "\x00",
        "a: {a: 1, a: 2}",
    ],
    ids=[
        "empty",
        "half",
        "deep",
        "half YAML",
        "cycle",
        "long number",
        "control character",
        "key twice",
    ],
)
def test_half_written_files_are_told_by_name(tmp_path: Path, text: str) -> None:
    for name, arguments in {
        "settings.yaml": ("settings", "--settings"),
        "review.json": ("eval",),
        "cases.yaml": ("verify", "--engine", "opa", "--cases"),
    }.items():
        path = tmp_path / name
        path.write_text(text)
        assert str(path) in refused(*arguments, path)


def test_a_long_value_is_told_in_short(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text("namespaceLabel: &a [" + "x," * 50_000 + "]\nnodeLabel: a\n")
    assert f"{path}:1" in refused("settings", "--settings", path)


def named(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command with --name, and its other required arguments."""
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            subcommand = command.get_command(click.Context(command), name)
            assert subcommand is not None
            yield from named(subcommand, (*path, name))
    elif any("--name" in parameter.opts for parameter in command.params):
        required = [
            parameter
            for parameter in command.params
            if isinstance(parameter, click.Argument) and parameter.required
        ]
        values = [
            parameter.type.choices[0]
            if isinstance(parameter.type, click.Choice)
            else "testdata/review.json"
            for parameter in required
        ]
        yield (*path, *map(str, values), *(["--live"] if path == ("eval",) else []))


@pytest.mark.parametrize("arguments", list(named(cli)), ids=" ".join)
def test_an_empty_name_is_a_mistake_to_every_command(arguments: tuple[str, ...]) -> None:
    before = sorted(paths.state("x").parent.glob("*"))
    with pytest.raises(UsageError, match="--name is empty"):
        cli.main([*arguments, "--name", ""], standalone_mode=False)
    assert sorted(paths.state("x").parent.glob("*")) == before


@pytest.mark.parametrize("command", ["status", "deploy", "push"])
def test_a_cluster_that_is_not_running_changes_nothing(command: str) -> None:
    before = sorted(paths.root().iterdir())
    refused(command, "--name", "not-here")
    assert sorted(paths.root().iterdir()) == before
    assert not paths.state("not-here").exists()


def test_results_are_all_that_is_on_standard_output(tmp_path: Path) -> None:
    for arguments in (
        ("settings", "-o", "json"),
        ("tools", "-o", "json"),
        ("deploy", "--dry-run", "-o", "json"),
        ("test", "--step", "opa fmt", "-o", "json"),
        ("eval", "testdata/review.json", "-o", "json"),
        ("verify", "--engine", "opa", "-o", "json"),
    ):
        done = fairlead(*arguments)
        assert done.returncode == 0, done.stderr
        json.loads(done.stdout)


def test_what_no_encoding_has_is_told_escaped(tmp_path: Path) -> None:
    path = tmp_path / "pod.json"
    path.write_text(
        '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "\\ud800"}, "spec": {}}'
    )
    for form in ("json", "yaml", "table"):
        done = fairlead("eval", path, "-o", form)
        assert "Traceback" not in done.stderr
        assert done.returncode in (0, 2)


def test_an_interrupt_that_a_finalizer_would_swallow_is_not_lost() -> None:
    script = """
import sys, time, weakref
import fairlead.__main__ as entry

class Thing: pass

def interrupted():
    raise KeyboardInterrupt

def work(**_):
    weakref.finalize(Thing(), interrupted)
    time.sleep(60)

entry.cli.main = work
entry.main()
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=50
    )
    assert done.returncode == 130
    assert done.stderr.strip() == "error: interrupted"


def test_the_help_begins_with_everyday_commands_and_has_all_in_groups() -> None:
    first = fairlead("--help").stdout
    listed = first.partition("Everyday commands:\n")[2].partition("\n\n")[0]
    assert len(re.findall(r"^  (\S+)", listed, re.MULTILINE)) == 10
    assert first.endswith("`fairlead help --all` lists all commands.\n")
    every = fairlead("help", "--all").stdout
    for names in (*COMMANDS.values(), ("Local clusters:", "Decisions:")):
        assert all(re.search(rf"^ *{re.escape(name)}( |$)", every, re.MULTILINE) for name in names)
    hidden = ("sync", "serve", "controller")
    assert not [name for name in hidden if re.search(rf"^ *{name} ", every, re.MULTILINE)]


def test_help_of_a_command_is_what_its_option_shows() -> None:
    assert fairlead("help").stdout.splitlines()[1:] == fairlead("--help").stdout.splitlines()[1:]
    assert fairlead("help", "down").stdout == fairlead("down", "--help").stdout


def test_versions_are_those_of_the_programs_that_are_pinned() -> None:
    versions = json.loads(fairlead("version", "-o", "json").stdout)
    listed = json.loads(fairlead("tools", "-o", "json").stdout)
    assert versions["fairlead"] == __version__
    assert {line["name"]: line["version"] for line in listed}.items() <= versions.items()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_a_script_that_asks_fairlead(shell: str) -> None:
    script = fairlead("completion", shell).stdout
    assert f"_FAIRLEAD_COMPLETE={shell}_complete" in script


def completed(*words: str) -> list[str]:
    """What bash offers for the last word."""
    environment = {
        **os.environ,
        "_FAIRLEAD_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    # click takes the variable's name from the program's.
    argv = [Path(sys.executable).with_name("fairlead")]
    done = subprocess.run(
        argv, env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == "", "it would be in the middle of what the user types"
    return done.stdout.splitlines()


def test_commands_and_names_of_clusters_are_completed() -> None:
    assert completed("fairlead", "stat") == ["plain,status"]
    assert "plain,status" in completed("fairlead", "statsu", "")
    name = f"shown-{os.getpid()}"
    folder = paths.state(name)
    folder.mkdir(parents=True)
    try:
        (folder / "processes.json").touch()
        assert completed("fairlead", "down", "--name", name[:-1]) == [f"plain,{name}"]
    finally:
        shutil.rmtree(folder)


def test_clusters_are_listed_with_their_kind_age_and_state() -> None:
    folder = paths.state(f"listed-{os.getpid()}")
    folder.mkdir(parents=True)
    try:
        kubeconfig = folder / "kubeconfig"
        kubeconfig.touch()
        (folder / "processes.json").touch()
        os.utime(kubeconfig, (time.time() - 7300,) * 2)
        (row,) = [
            line.split() for line in fairlead("list").stdout.splitlines() if folder.name in line
        ]
        assert row == [folder.name, "embedded", "2h", "ended"]
    finally:
        shutil.rmtree(folder)


def test_a_command_says_which_settings_it_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FAIRLEAD_SETTINGS", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fairlead.yaml").write_text("contact: me\n")
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / "other.yaml"
    other.write_text("contact: them\n")
    for arguments, line, contact in (
        ((), "settings: fairlead.yaml", "me"),
        (("--settings", other), "settings: other/other.yaml", "them"),
    ):
        done = fairlead("settings", "-o", "json", *arguments)
        assert done.stderr == f"{line}\n"
        assert json.loads(done.stdout)["contact"] == contact
    monkeypatch.chdir(tmp_path / "other")
    assert fairlead("settings", "--settings", tmp_path / "fairlead.yaml").stderr == (
        f"settings: {tmp_path / 'fairlead.yaml'}\n"
    )


def test_a_command_without_a_settings_file_says_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkout of this test has the policies alone."""
    checkout, here = tmp_path / "checkout", tmp_path / "here"
    (checkout / "policies").mkdir(parents=True)
    (checkout / "policies" / "main.rego").touch()
    here.mkdir()
    monkeypatch.delenv("FAIRLEAD_SETTINGS", raising=False)
    monkeypatch.setenv("FAIRLEAD_HOME", str(checkout))
    monkeypatch.chdir(here)
    done = fairlead("settings")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("status", "extra"), "The command takes no argument extra. See `"),
        (("rotate",), "Missing argument '{token|cert}'. Choose from: token, cert. See `"),
        (("logs", "opa", "--since=x"), "write for instance 90d, 36h, 45m or 90s. See `"),
        (("logs", "opa", "--denied"), "--denied is only for decisions: run `fairlead logs dec"),
        (
            ("logs", "decisions", "--name=web"),
            ". --name names the cluster: to name an object, use --object",
        ),
    ],
)
def test_wrong_usage_is_told_in_whole_sentences(arguments: tuple[str, ...], message: str) -> None:
    assert message in refused(*arguments)
