"""What commands print for people: messages, the status and the history."""

from __future__ import annotations

import io
import re
import sys
from typing import Any

import pytest
from rich.console import Console

from fairlead.cli import output
from fairlead.cli.operations import history, outcomes, status
from fairlead.operations.applying import UNKNOWN, Outcome

ADVICE = (
    "found no decision in the logs of opa, sync. A new decision is logged after a few seconds: run "
    "the command again"
)
STATUS: dict[str, Any] = {
    "name": "dev",
    "cluster": "embedded",
    "kubeconfig": "/dev/kubeconfig",
    "engine": "opa",
    "sidecar": "sync",
    "opa": [
        {
            "pod": "opa",
            "url": "https://127.0.0.1:1",
            "ready": True,
            "revision": "3a90ea6def41",
            "confirmed": "2026-11-22T15:11:34Z",
        }
    ],
    "sidecars": [{"pod": "opa", "url": "https://127.0.0.1:2", "healthy": True, "reasons": []}],
    "controllers": [],
    "intents": [
        {"name": "node-pool", "enforcement": "warn", "kinds": ["DaemonSet", "Pod"]},
        {"name": "no-host-network", "enforcement": "deny", "kinds": ["Pod"]},
    ],
    "policies": [{"name": "fairlead-policies", "status": "ok", "error": None, "used": True}],
    "data": [],
    "objects": [
        {
            "kind": "MutatingWebhookConfiguration",
            "name": "fairlead",
            "failurePolicy": "Fail",
            "state": "as deployed",
        }
    ],
    "certificates": [
        {
            "name": "opa-tls",
            "notAfter": "2027-02-20T15:11:28Z",
            "renewed": "2026-11-22T15:11:31Z",
            "by": "fairlead",
            "renewer": "sync",
            "warning": None,
        }
    ],
    "disabled": [],
    "servers": [
        {"name": "etcd", "restarts": 0, "running": True},
        {"name": "opa", "restarts": 2, "running": True},
    ],
    "problems": [],
}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize("tell", [output.note, output.warning, output.error])
def test_on_a_terminal_messages_have_lines_of_whole_words(
    tell: Any, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    tell(f"{ADVICE}\n    policies/a.rego:1: {'x' * 100}")
    lines = re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue()).splitlines()
    assert " ".join(line.strip() for line in lines[:-1]).endswith(f"{ADVICE} policies/a.rego:1:")
    assert lines[-1] == f"    {'x' * 100}"
    assert all(len(line) <= width for line in lines[:-1])
    assert len(lines) <= len(ADVICE) // (width - 20) + 3


def test_elsewhere_messages_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    output.error(ADVICE)
    assert capsys.readouterr().err == f"error: {ADVICE}\n"


def drawn(data: dict[str, Any], width: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(width))
    text = io.StringIO()
    status._draw(data, Console(file=text, width=width, highlight=False, markup=False))
    return text.getvalue().splitlines()


def test_the_status_says_what_is_in_force_and_that_all_is_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert drawn(STATUS, 80, monkeypatch) == [
        "NAME  CLUSTER   ENGINE  SIDECAR  KUBECONFIG",
        "dev   embedded  opa     sync     /dev/kubeconfig",
        "",
        "opa",
        "POD  URL                  READY  REVISION      DATA AS OF",
        "opa  https://127.0.0.1:1  yes    3a90ea6def41  2026-11-22T15:11:34Z",
        "",
        "sidecars",
        "POD  URL                  READY  REASONS",
        "opa  https://127.0.0.1:2  yes    -",
        "",
        "intents",
        "NAME             ENFORCEMENT  KINDS",
        "node-pool        warn         DaemonSet, Pod",
        "no-host-network  deny         Pod",
        "",
        "policies",
        "NAME               STATUS  ERROR",
        "fairlead-policies  ok      -",
        "",
        "admission",
        "WHAT               OBJECTS  FAILURE POLICY  STATE",
        "mutating webhooks  1        Fail            as deployed",
        "",
        "certificates",
        "NAME     ENDS                  RENEWED               BY        RENEWER  WARNING",
        "opa-tls  2027-02-20T15:11:28Z  2026-11-22T15:11:31Z  fairlead  sync     -",
        "",
        "servers",
        "running    etcd, opa",
        "restarted  opa (2)",
        "",
        "no problems",
    ]


def test_the_status_names_what_is_disabled_not_ready_or_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = {
        **STATUS,
        "sidecars": [{**STATUS["sidecars"][0], "healthy": False, "reasons": ["a", "b"]}],
        "controllers": [
            {
                "pod": "fairlead-controller",
                "url": "https://127.0.0.1:3",
                "healthy": True,
                "leading": True,
                "bindings": 4,
                "reasons": [],
            }
        ],
        "disabled": [{"intent": "node-pool", "by": "a", "since": "b", "reason": None}],
        "servers": [{"name": "kwok", "restarts": 0, "running": False}],
        "policies": [{**STATUS["policies"][0], "used": False}],
        "problems": ["kwok does not run"],
    }
    lines = drawn(data, 160, monkeypatch)
    for line in (
        "opa  https://127.0.0.1:2  no     a; b",
        "fairlead-controller  https://127.0.0.1:3  yes    yes    4         -",
        "node-pool        disabled     DaemonSet, Pod",
        "ended      kwok",
        "fairlead-policies  loaded; no decision uses it  -",
    ):
        assert line in lines
    assert lines[-2:] == ["problems", "- kwok does not run"]


@pytest.mark.parametrize(("number", "current", "shown"), [(3, True, "3 *"), (2, False, "2")])
def test_the_history_marks_the_entry_in_force(number: int, current: bool, shown: str) -> None:
    assert history._number({"number": number, "current": current}) == shown


def test_a_plan_and_the_history_print_nothing_that_steers_a_terminal() -> None:
    hostile = "x\x1b[31m\u202e"
    target = Console(file=io.StringIO(), width=80)
    outcome = Outcome("v1", "ConfigMap", hostile, "fairlead", UNKNOWN, note=hostile)
    outcomes.draw_plan([outcome], target)
    policy = {"policy": "p", "diff": f"+{hostile}"}
    history._draw({"policies": [policy], "settings": [], "missing": [], "from": 1, "to": 2}, target)
    printed = target.file.getvalue()  # type: ignore[attr-defined]
    assert printed.count(r"x\x1b[31m\u202e") == 3
    assert "\x1b" not in printed


def test_a_tab_in_an_error_is_spaces_and_no_escape(capsys: pytest.CaptureFixture[str]) -> None:
    output.error("a.rego:3: rego_parse_error\n\tdeny contains\n\t     ^")
    assert capsys.readouterr().err == (
        "error: a.rego:3: rego_parse_error\n    deny contains\n         ^\n"
    )


def test_a_command_is_not_divided_between_two_lines() -> None:
    text = "no cluster 'fairlead' is running (running: demo): add `ARGS='--name demo'`, or not"
    assert output._folded(f"error: {text}", 80).splitlines() == [
        "error: no cluster 'fairlead' is running (running: demo): add",
        "`ARGS='--name demo'`, or not",
    ]
    long = f"run `fairlead {'x ' * 60}`"
    assert max(map(len, output._folded(long, 40).splitlines())) <= 40
