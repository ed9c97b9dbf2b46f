"""`fairlead access` refuses what makes no sense before it looks for a cluster, says what becomes of
a request, and shows to people what others wrote."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from fairlead.access import granting, requests
from fairlead.access.granting import NotGranted
from fairlead.access.requests import Request
from fairlead.cli.operations import access
from fairlead.clusters import registry
from fairlead.common import paths
from fairlead.common.errors import FairleadError, UsageError
from fairlead.kube import identity
from fairlead.kube.clients import Objects
from fairlead.kube.errors import ApiServerError, NotServed

PAGE = (paths.root() / "docs" / "access.md").read_text(encoding="utf-8")
GRANT = ("grant", "a", "--for", "2h")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (GRANT, "give one role"),
        (("grant", "a", "--clusterrole", "b", "--user", "u"), "say for how long: --for 2h"),
        ((*GRANT, "--role", "b", "--clusterrole", "c"), "give one role"),
        ((*GRANT, "--role", "b", "--user", "u"), "--role is about a namespace"),
        ((*GRANT, "--clusterrole", "b"), "nobody would get the role"),
        ((*GRANT, "--clusterrole", "b", "--serviceaccount", "c"), "'c' is not NAMESPACE:NAME"),
        ((*GRANT[:3], "soon", "--clusterrole", "b", "--user", "u"), "'soon' is not a duration"),
        (
            (*GRANT, "--clusterrole", "b", "--user", "u", "--from", "noon"),
            "'noon' is not a time such as 2026-11-24T09:00",
        ),
        (
            (*GRANT, "--clusterrole", "b", "--user", "u", "--from", "2027-02-29T09:00Z"),
            "--from: '2027-02-29T09:00:00Z' is not in the calendar: day is out of range for month",
        ),
        (
            (*GRANT, "--clusterrole", "b", "--user", "u", "--from", "2027-02-28T24:00"),
            "--from: '2027-02-28T24:00' is not in the calendar: hour must be in 0..23",
        ),
    ],
)
def test_wrong_usage_is_told(arguments: tuple[str, ...], message: str) -> None:
    result = CliRunner().invoke(access.command, arguments)
    assert isinstance(result.exception, UsageError)
    assert message in str(result.exception)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0.4, "0s"),
        (59.9, "59s"),
        (60, "1m 0s"),
        (7199, "1h 59m"),
        (86_400 * 3 + 60, "3d 0h"),
    ],
)
def test_what_is_left_has_two_units(seconds: float | None, text: str) -> None:
    assert access._left(seconds) == text


def test_a_time_that_no_calendar_has_is_shown_as_it_is_written() -> None:
    last = "9999-12-31T23:59:59-23:59"
    assert access._local(last) == last
    assert access._local("2026-11-21T10:00:00Z").startswith("2026-11-2")


class Api:
    """An API server with one transient binding, as its client. Each get answers with the next of
    `states`: its conditions.
    """

    def __init__(self, *states: list[dict[str, str]] | None, **spec: Any) -> None:
        self.states = list(states)
        self.created: dict[str, Any] = {}
        self.deleted: list[tuple[str, str, str | None]] = []
        self.spec = spec

    def create(self, manifest: dict[str, Any]) -> dict[str, Any]:
        self.created = {**manifest, "spec": {**manifest["spec"], **self.spec}}
        return self.created

    def delete(self, _: str, kind: str, name: str, namespace: str | None) -> None:
        self.deleted.append((kind, name, namespace))

    def get(self, _: str, kind: str, *__: Any) -> dict[str, Any] | None:
        if kind == "RoleBinding":
            return None
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return {**self.created, "status": {"conditions": state or []}}

    def list(self, _: str, kind: str, __: str | None) -> list[dict[str, Any]]:
        return [self.created] if kind == "TransientRoleBinding" else []


def condition(kind: str, status: str, reason: str, message: str = "") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "message": message}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs `fairlead access` on an API server."""
    monkeypatch.setattr(requests, "SETTLED", 0.2)

    def run(api: Any, *arguments: str, groups: tuple[str, ...] = ("ops",)) -> Result:
        who = ("ada", list(groups))
        monkeypatch.setattr(identity, "user_and_groups", lambda _: who)
        cluster = SimpleNamespace(objects=lambda: api)
        monkeypatch.setattr(registry, "find", lambda _: cluster)
        return CliRunner().invoke(access.command, arguments)

    return run


GIVEN = ("grant", "night", "-n", "shop", "--clusterrole", "view", "--user", "bob", "--for", "2h")


def test_a_grant_is_shown_as_the_controller_has_decided(run: Any) -> None:
    not_yet = [condition("effective", "False", "NotObserved")]
    granted = [condition("effective", "True", "Granted"), condition("failed", "False", "Valid")]
    api = Api(None, not_yet, granted)
    result = run(api, *GIVEN, "-o", "json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["effective"] is True
    assert api.created["spec"]["requestedBy"] == "ada"
    assert api.created["spec"]["requestedByGroups"] == ["ops"]


def test_a_grant_that_gives_nothing_says_why_and_fails(run: Any) -> None:
    failed = [
        condition("effective", "False", "RoleNotFound"),
        condition("failed", "True", "RoleNotFound", "there is no ClusterRole view"),
    ]
    api = Api(failed)
    result = run(api, *GIVEN)
    assert isinstance(result.exception, FairleadError)
    assert api.deleted == [("TransientRoleBinding", "night", "shop")]
    assert str(result.exception) == (
        "night gives no access, and is deleted again: RoleNotFound: there is no ClusterRole view"
    )
    assert "RoleNotFound" in result.stdout


def test_a_grant_that_cannot_be_deleted_again_says_so_after_the_cause(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = [condition("failed", "True", "RoleNotFound", "there is no ClusterRole view")]
    api = Api(failed)

    def forbidden(*_: Any) -> None:
        raise ApiServerError("cannot delete TransientRoleBinding night", 403)

    monkeypatch.setattr(api, "delete", forbidden)
    assert re.fullmatch(
        "night gives no access: RoleNotFound: there is no ClusterRole view; it could not be "
        "deleted again: cannot delete TransientRoleBinding night.*",
        str(run(api, *GIVEN).exception),
    )


def test_a_role_that_the_controller_may_not_bind_is_told_with_the_remedy(run: Any) -> None:
    refusal = ApiServerError(
        "cannot create RoleBinding night",
        403,
        message='roles "admin" is forbidden: user is attempting to grant RBAC permissions not '
        'currently held:\n{APIGroups:[""], Resources:["pods"]}',
    )
    cause = granting._explained(refusal)
    assert isinstance(cause, NotGranted)
    assert (cause.reason, str(cause)) == ("NotAllowed", NOT_IN_ROLES)
    failed = [
        condition("effective", "False", "NotAllowed"),
        condition("failed", "True", cause.reason, str(cause)),
    ]
    result = run(Api(failed), *GIVEN)
    assert isinstance(result.exception, FairleadError)
    assert result.exception.exit_code == 1
    assert str(result.exception) == (
        f"night gives no access, and is deleted again: NotAllowed: {NOT_IN_ROLES}"
    )
    assert "NotAllowed" in result.stdout


NOT_IN_ROLES = (
    "the role is not in access.roles of the settings, so the controller may not bind it: "
    "add it there, and run `fairlead deploy`"
)


def test_a_grant_that_nobody_decides_about_says_so(run: Any) -> None:
    result = run(Api(None), *GIVEN)
    assert result.exit_code == 0
    assert "no controller has decided about it yet: `fairlead status`" in result.stderr


class Off:
    """An API server without the kinds of access."""

    def create(self, _: Any) -> None:
        raise NotServed("cannot create")

    def list(self, *_: Any) -> None:
        raise NotServed("cannot list")

    get = list


@pytest.mark.parametrize(
    "arguments", [GIVEN, ("list",), ("approve", "night"), ("revoke", "night", "-n", "shop")]
)
def test_where_access_is_off_it_says_how_to_switch_it_on(
    run: Any, arguments: tuple[str, ...]
) -> None:
    result = run(Off(), *arguments)
    assert isinstance(result.exception, UsageError)
    assert "access is switched off in this cluster: write `access: {roles: [...]}` into" in str(
        result.exception
    )


def test_the_groups_that_fit_are_named(run: Any) -> None:
    long = tuple(f"{number:03}" + "\U0001f600" * 60 for number in range(200))
    api = Api(None)
    assert run(api, *GIVEN, groups=long).exit_code == 0
    named = api.created["spec"]["requestedByGroups"]
    assert 60 < len(named) <= 100
    assert sum(len(group.encode()) for group in named) <= 16_384


@pytest.mark.parametrize(
    ("begin", "length", "message"),
    [
        (datetime(2020, 1, 1, tzinfo=UTC), timedelta(hours=1), "is over: it ends at 2020-01-01T01"),
        (datetime.now(UTC) - timedelta(hours=2), timedelta(hours=1), "the window is over"),
        (datetime(9999, 12, 31, 23, tzinfo=UTC), timedelta(hours=1), "ends after the year 9999"),
    ],
)
def test_a_window_in_which_nobody_gets_access_is_refused(
    begin: datetime, length: timedelta, message: str
) -> None:
    asking = Request(("", "a"), ("ClusterRole", "b"), [], begin, length, None, needs_approval=False)
    with pytest.raises(UsageError, match=message):
        requests.grant(cast(Objects, None), asking)


def test_the_window_is_exact(run: Any) -> None:
    api = Api(None)
    begin = "2999-11-24T09:00:00.123456+01:00"
    assert run(api, *GIVEN, "--from", begin).exit_code == 0
    assert api.created["spec"]["validFrom"] == "2999-11-24T08:00:00.123456Z"
    assert api.created["spec"]["validUntil"] == "2999-11-24T10:00:00.123456Z"


HOSTILE = "eve\nshop  forged  ClusterRole view\x1b[31m\u202eadmin"


def test_a_name_forges_no_row_and_turns_no_text_round(run: Any) -> None:
    api = Api(None)
    assert run(api, *GIVEN).exit_code == 0
    spec: dict[str, Any] = {"subjects": [{"kind": "User", "name": HOSTILE}], "reason": HOSTILE}
    spec["roleRef"] = {"kind": "ClusterRole", "name": HOSTILE}
    api.created = {**api.created, "spec": {**api.created["spec"], **spec}}
    table = run(api, "list")
    assert table.exit_code == 0
    assert len(table.stdout.splitlines()) == 2
    for output in (table, run(api, "list", "-o", "yaml"), run(api, "list", "-o", "json")):
        assert not {"\x1b", "\u202e"} & set(output.stdout)
    (line,) = yaml.safe_load(run(api, "list", "-o", "yaml").stdout)
    assert line["subjects"] == [f"User {HOSTILE}"]


def test_an_event_that_anybody_wrote_forges_no_row(run: Any) -> None:
    event = {
        "source": {"component": "fairlead-access"},
        "involvedObject": {"kind": "TransientRoleBinding", "namespace": "shop", "name": "a"},
        "firstTimestamp": None,
        "reason": "Granted\n",
        "message": HOSTILE,
        "metadata": {"resourceVersion": "5", "creationTimestamp": "2026-11-24T09:00:00Z"},
    }
    result = run(SimpleNamespace(list=lambda *_: [event]), "history")
    assert result.exit_code == 0, result.exception
    assert len(result.stdout.splitlines()) == 2


@pytest.mark.parametrize(
    ("name", "words"), re.findall(r"^\| `fairlead access (\w+) ?([^`]*)`", PAGE, re.MULTILINE)
)
def test_the_page_names_the_arguments_as_the_help_does(name: str, words: str) -> None:
    parameters = access.command.commands[name].params
    arguments = [each for each in parameters if isinstance(each, click.Argument)]
    first = [word for word in words.split()[:1] if word.isupper()]
    assert first == [argument.metavar for argument in arguments]


def test_the_page_names_all_commands_but_the_demo() -> None:
    named = set(re.findall(r"^\| `fairlead access (\w+)", PAGE, re.MULTILINE))
    assert named == set(access.command.commands) - {"demo"}
