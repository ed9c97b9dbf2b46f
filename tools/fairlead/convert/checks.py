"""What a policy asks of an object, field by field, and the intents that ask the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from fairlead.convert import parameters
from fairlead.convert.parameters import MOST, Amounts, Kinds, Parameters
from fairlead.convert.targets import Untakable

Path = tuple[str, ...]

EACH = "[]"
"""In a path: each element of a list."""
MISSING = "null"
"""The test of a field that must be missing."""
LISTS = ("containers", "initContainers", "ephemeralContainers")
WRITE = "write a policy (fairlead new policy NAME)"

_TEMPLATES: tuple[Path, ...] = (
    ("spec", "template"),
    ("spec", "jobTemplate", "spec", "template"),
)


@dataclass(frozen=True)
class Check:
    """A field has a value as Kyverno's patterns write it (`?*`, `>1`, `a* | b*`), or one with a
    part that matches the regular expression, if `is_regex`. An `optional` field may be missing.
    """

    path: Path
    test: str
    optional: bool = False
    is_regex: bool = False

    def __str__(self) -> str:
        return ".".join(self.path).replace(f".{EACH}", "")


Checks = Sequence[Check]


@dataclass
class Outcome:
    """The parameters of the intents that ask the same, and why the rest is left out."""

    instances: list[Parameters]
    left_out: list[str]


def outcome(alternatives: Sequence[Checks], kinds: Kinds) -> Outcome:
    """What intents can say of a policy that asks for one of the `alternatives`. Raises Untakable
    with the reasons, if that is nothing.
    """
    of_pods = [_of_pods(checks) for checks in alternatives]
    are_known = all(kind in _PLACED for _, kind in kinds.pairs)
    if are_known and of_pods != [list(checks) for checks in alternatives]:
        result = outcome(of_pods, Kinds([("", "Pod")], kinds.field, templates=True))
        result.left_out.append(
            f"it is about the templates of {kinds}, and intents also decide about pods and the "
            "templates of other kinds: check that these keep to it"
        )
        return result
    alternatives = _joined([_together(_without_presence(checks)) for checks in alternatives])
    if len(alternatives) > 1:
        return Outcome([_either(alternatives, kinds)], [])
    result = Outcome([], [])
    (checks,) = alternatives
    rest = list(checks)
    for is_about, convert in _TOPICS:
        chosen = [check for check in checks if check.test != MISSING and is_about(check.path)]
        rest = [check for check in rest if check not in chosen]
        if not chosen:
            continue
        try:
            instance = convert(chosen, kinds)
        except Untakable as error:
            reason, names = str(error), _named(chosen)
            is_named = reason.startswith(str(chosen[0]))
            result.left_out.append(reason if is_named else f"{names}: {reason}")
            continue
        parameters.note_foreign_kinds(instance, kinds)
        result.instances.append(instance)
    if rest:
        result.left_out.append(unsaid(kinds, (str(check) for check in rest)))
    if not result.instances:
        raise Untakable(*(result.left_out or ["it asks for nothing"]))
    return result


def _joined(alternatives: Sequence[Checks]) -> Sequence[Checks]:
    """Alternatives that each ask one thing of the same field, as one."""
    plain = {replace(each[0], test="") if len(each) == 1 else None for each in alternatives}
    if len(alternatives) == 1 or len(plain) > 1 or None in plain:
        return alternatives
    ((first,), *_) = alternatives
    return [[replace(first, test=" | ".join(check.test for (check,) in alternatives))]]


def unsaid(kinds: Kinds, fields: Iterable[str]) -> str:
    """Why nothing is taken over of a policy that asks something else of these fields."""
    names = [*dict.fromkeys(fields)]
    by = f" by {_some(names)}" if names else ""
    intent, why = _nearest(kinds, names)
    if intent:
        why = f"{intent} is nearest, but {why or 'does not say the same'}"
    if not why and not _places(kinds):
        return f"it validates {kinds}{by}, and places no pods: {WRITE}"
    return f"it validates {kinds}{by}: {why or 'no intent of Fairlead says the same'}: {WRITE}"


def unread(kinds: Kinds, what: str, fields: Iterable[str] = ()) -> str:
    """Why nothing is taken over of a policy that asks something of these fields by `what` convert
    does not read.
    """
    names = [*dict.fromkeys(fields)]
    by = what + (f" about {_some(names)}" if names else "")
    intent, why = _nearest(kinds, names)
    if not intent and not why and not _places(kinds):
        return f"it validates {kinds} by {by}, and places no pods: {WRITE}"
    because = f"it validates {kinds} by {by}, which convert does not read"
    if intent and not why:
        return (
            f"{because}: write an instance of {intent}, if that says the same, or a policy "
            "(fairlead new policy NAME)"
        )
    return f"{because}: {why}: {WRITE}" if why and not intent else f"{because}: {WRITE}"


def _places(kinds: Kinds) -> bool:
    return any(kind.removesuffix("/scale") in _PLACED for _, kind in kinds.pairs)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (" and more" if len(names) > 4 else "")


def _nearest(kinds: Kinds, names: Sequence[str]) -> tuple[str, str]:
    """The intent that is nearest to what asks something of these fields, and why it does not say
    the same. Only labels are for all kinds.
    """
    for pattern, intent, why in _NEAREST:
        if not _places(kinds) and intent != "required-labels":
            continue
        if any(re.match(pattern, _TEMPLATE.sub("", name)) for name in names):
            return intent, why
    return "", ""


_TEMPLATE = re.compile(r"^spec\.(jobTemplate\.spec\.)?template\.")
_PLACED = {"Pod", "*"} | {"DaemonSet", "Deployment", "ReplicaSet", "StatefulSet", "Job", "CronJob"}
_NEAREST = (
    (
        r"spec\.(nodeSelector|nodeName|tolerations|affinity)",
        "node-pool",
        "gives pods the nodeSelector and the tolerations of the pool of their namespace, and "
        "refuses others by podSelector and allowedTolerations",
    ),
    (
        r"spec\.(hostNetwork|hostPID|hostIPC)",
        "",
        "no intent of Fairlead is about host namespaces (docs/policies.md writes one as its "
        "example)",
    ),
    (r"metadata\.annotations", "required-labels", "is about labels"),
    (r"metadata\.labels", "required-labels", ""),
    (r"spec\.\w*[cC]ontainers\.image$", "image-sources", ""),
    (r"spec\.\w*[cC]ontainers\.resources", "resource-limits", ""),
    (r"spec\.(\w+\.)*(runAsUser|runAsNonRoot)$", "run-as-user", ""),
    (r"spec\.replicas", "replica-limits", ""),
)
"""By fields, the intent that is nearest to them, and why it does not say the same."""


def _named(checks: Checks) -> str:
    return ", ".join(dict.fromkeys(str(check) for check in checks))


def _of_pods(checks: Checks) -> list[Check]:
    """The checks, those of templates as those of their pods."""
    for template in _TEMPLATES:
        if checks and all(check.path[: len(template)] == template for check in checks):
            below = [replace(check, path=check.path[len(template) :]) for check in checks]
            if all(check.path[:1] == ("spec",) for check in below):
                return below
    return list(checks)


def _without_presence(checks: Checks) -> list[Check]:
    """The checks without those that say only that something is there which always is, or of which
    others ask more.
    """
    return [
        check
        for check in dict.fromkeys(checks)
        if check.test != "*"
        or not (
            check.optional
            or check.path[-2:] == (EACH, "name")
            or any(_asks_more(other, check) for other in checks)
        )
    ]


def _asks_more(other: Check, check: Check) -> bool:
    """Whether a check asks for more than that something is there, or than that a part of it is."""
    is_below = other.path[: len(check.path)] == check.path
    return is_below and not other.optional and (other.path != check.path or other.test != "*")


def _together(checks: Checks) -> list[Check]:
    """The checks, those that ask several things of one field as one."""
    tests: dict[Check, list[str]] = {}
    for check in checks:
        is_one = not check.is_regex and "|" not in check.test
        tests.setdefault(replace(check, test="") if is_one else check, []).append(check.test)
    return [replace(check, test=" & ".join(asked)) for check, asked in tests.items()]


def _labels(checks: Checks, kinds: Kinds) -> Parameters:
    tests: dict[str, str | list[str]] = {}
    for check in checks:
        key = check.path[2]
        if re.search(r"[*?]", key):
            raise Untakable(f"required-labels knows no wildcards in keys: {WRITE}")
        if check.optional:
            raise Untakable(f"required-labels has no label that may be missing: {WRITE}")
        if key in tests:
            raise Untakable(f"required-labels asks one thing of a label: {WRITE}")
        tests[key] = (
            parameters.whole_value(check.test) if check.is_regex else _text_test(check.test)
        )
    return parameters.required_labels(tests, kinds)


def _text_test(test: str) -> str | list[str]:
    """The values that a pattern for a text allows, or a regular expression of them."""
    globs = _alternatives(test)
    if any(re.match(r"[<>!]|.*&|\d+\S*\s*-\s*\d", glob) for glob in globs):
        raise Untakable(f"required-labels compares no numbers, and excludes no values: {WRITE}")
    if not any(re.search(r"[*?]", glob) for glob in globs):
        return globs
    if globs == ["?*"]:
        return ".+"
    parts = [re.escape(glob).replace(r"\*", ".*").replace(r"\?", ".") for glob in globs]
    return "|".join(parts)


def _alternatives(test: str) -> list[str]:
    return [part.strip() for part in test.split("|")]


def _images(checks: Checks, kinds: Kinds) -> Parameters:
    tests = {check.test for check in checks}
    if len(tests) > 1 or any(check.is_regex or check.optional for check in checks):
        raise Untakable(f"image-sources asks the same of all images, by prefixes: {WRITE}")
    globs = _alternatives(tests.pop())
    if all(re.fullmatch(r"\*@(\*|sha\d+:\*)", glob) for glob in globs):
        raise parameters.digests()
    if any(re.fullmatch(r"!?(\*:.*|:.*\*)", glob) for glob in globs):
        raise Untakable(
            "no intent of Fairlead is about tags: image-sources with require_digest: true is "
            f"nearest: {WRITE}"
        )
    if any(re.fullmatch(r"![^*?]+(\*|/\*)?", glob) for glob in globs):
        raise Untakable(
            "image-sources lists the sources that are allowed, and this excludes some: write an "
            "instance with the registries that you use"
        )
    if any(re.search(r"[*?&!]", glob.removesuffix("*")) for glob in globs):
        raise Untakable(f"image-sources is about registries and repositories: {WRITE}")
    result = parameters.allowed_images(globs, str(checks[0]), kinds)
    _note_lists(result, checks, LISTS)
    return result


def _resources(checks: Checks, kinds: Kinds) -> Parameters:
    amounts = {"requests": Amounts(), "limits": Amounts()}
    lists = {
        name: {replace(check, path=check.path[3:]) for check in checks if check.path[1] == name}
        for name in (check.path[1] for check in checks)
    }
    if any(asked != lists[checks[0].path[1]] for asked in lists.values()):
        raise Untakable(f"resource-limits asks the same of all containers: {WRITE}")
    for check in checks:
        entry, name = amounts[check.path[4]], check.path[5]
        most = re.fullmatch(r"<=\s*([0-9.]+\w*)", check.test)
        if re.match(r"<[^=]", check.test):
            raise Untakable(
                f"resource-limits allows a maximum itself, and {check.test} does not: {WRITE}"
            )
        if check.is_regex or not (most or (check.test in ("*", "?*") and not check.optional)):
            raise Untakable(
                "resource-limits requires requests and limits, or keeps them to a maximum (<=), "
                f"and this asks for something else: {WRITE}"
            )
        if not check.optional and name not in entry.required:
            entry.required.append(name)
        if most and entry.container_max.setdefault(name, most[1]) != most[1]:
            raise Untakable(f"resource-limits has one maximum for all containers: {WRITE}")
    result = parameters.resource_limits(amounts["requests"], amounts["limits"], kinds)
    if names := sorted({*amounts["limits"].container_max} - {*amounts["limits"].required}):
        result.left_out.append(
            f"containers may have no limit of {' and '.join(names)}, but resource-limits requires "
            "one where there is a maximum: check that they have one"
        )
    _note_lists(result, checks, LISTS[:2])
    return result


def _note_lists(result: Parameters, checks: Checks, lists: Sequence[str]) -> None:
    """Note the lists of containers that the policy leaves out."""
    asked = {check.path[1] for check in checks}
    if "containers" not in asked:
        raise Untakable(f"{result.intent} is about all containers: {WRITE}")
    if missing := [name for name in lists if name not in asked]:
        result.left_out.append(
            f"it leaves out {' and '.join(missing)}, which {result.intent} decides about, too: "
            "check that these keep to it, or set enforcement to warn first"
        )


def _users(checks: Checks, kinds: Kinds) -> Parameters:
    non_root = [check for check in checks if check.path[-1] == "runAsNonRoot"]
    users = {check.test for check in checks if check.path[-1] == "runAsUser"}
    required = [check for check in checks if not check.optional]
    if any(check.test != "true" for check in non_root) or len(users) > 1:
        raise Untakable(f"run-as-user asks the same of all containers: {WRITE}")
    if not required:
        raise Untakable(
            "run-as-user is nearest, but also refuses containers that leave their user to their "
            "image: write an instance of it, if that will do"
        )
    ranges = numbers(users.pop()) if users else [(1, MOST)]
    by_user = any(check.path[-1] == "runAsUser" for check in required)
    if not by_user and ranges != [(1, MOST)]:
        raise Untakable(
            "run-as-user is nearest, but refuses containers that leave their user to their image, "
            "unless it may be any but root: write an instance of it, if that will do"
        )
    result = parameters.run_as_user(ranges, kinds, require_user=by_user)
    if all(check.path[1] in LISTS for check in required):
        _note_lists(result, [check for check in checks if check.path[1] in LISTS], LISTS)
    return result


def _either(alternatives: Sequence[Checks], kinds: Kinds) -> Parameters:
    """That pods, or all of their containers, say that they do not run as root."""
    checks = [check for each in alternatives for check in each]
    if not all(_is_user(check.path) and check.path[-1] == "runAsNonRoot" for check in checks):
        names = (str(check) for check in checks)
        raise Untakable(unsaid(kinds, names))
    result = _users(checks, kinds)
    parameters.note_foreign_kinds(result, kinds)
    return result


def _replicas(checks: Checks, kinds: Kinds) -> Parameters:
    (check, *others) = checks
    if others or check.is_regex:
        raise Untakable(f"{check.test!r} is no range of numbers that convert reads: {WRITE}")
    return parameters.replica_limits(numbers(check.test), kinds)


_BOUND = re.compile(r"(>=|<=|>|<|)\s*(\d+)|(\d+)\s*-\s*(\d+)")


def numbers(test: str) -> list[tuple[int, int]]:
    """The ranges of numbers that a pattern allows: `>1`, `2-5`, `>=2 & <9`, `0 | >2`. Raises
    Untakable.
    """
    ranges = []
    for alternative in test.split("|"):
        least, most = 0, MOST
        for part in alternative.split("&"):
            low, high = _bounds(part.strip())
            least, most = max(least, low), min(most, high)
        if least > most:
            raise Untakable(f"{test!r} allows no number at all")
        ranges.append((least, most))
    return ranges


def _bounds(text: str) -> tuple[int, int]:
    bound = _BOUND.fullmatch(text)
    if text in ("*", "?*", "!0"):
        return int(text == "!0"), MOST
    if not bound:
        raise Untakable(f"{text!r} is no range of numbers that convert reads: {WRITE}")
    if bound[3]:
        return int(bound[3]), int(bound[4])
    number = int(bound[2])
    return {
        ">=": (number, MOST),
        ">": (number + 1, MOST),
        "<=": (0, number),
        "<": (0, number - 1),
        "": (number, number),
    }[bound[1]]


def _is_label(path: Path) -> bool:
    return path[:2] == ("metadata", "labels") and len(path) == 3


def _is_image(path: Path) -> bool:
    return _is_of_container(path) and path[3:] == ("image",)


def _is_resource(path: Path) -> bool:
    below = path[3:5] in (("resources", "requests"), ("resources", "limits"))
    return _is_of_container(path) and below and len(path) == 6


def _is_user(path: Path) -> bool:
    above, name = path[:-1], path[-1]
    of_pod = above == ("spec", "securityContext")
    of_container = _is_of_container(path) and above[3:] == ("securityContext",)
    return name in ("runAsUser", "runAsNonRoot") and (of_pod or of_container)


def _is_of_container(path: Path) -> bool:
    return path[:1] == ("spec",) and path[1:2] != () and path[1] in LISTS and path[2:3] == (EACH,)


_TOPICS: tuple[tuple[Callable[[Path], bool], Callable[[Checks, Kinds], Parameters]], ...] = (
    (_is_label, _labels),
    (_is_image, _images),
    (_is_resource, _resources),
    (_is_user, _users),
    (lambda path: path == ("spec", "replicas"), _replicas),
)
"""Which fields each intent is about, and what makes its parameters."""
