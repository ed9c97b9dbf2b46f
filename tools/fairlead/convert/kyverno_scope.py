"""Which objects Kyverno's rules are about."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import Any

from fairlead.convert.findings import Named, Target
from fairlead.convert.parameters import Kinds, group_of_kind
from fairlead.convert.reading import AnySelector, Lenient, Metadata, unknown
from fairlead.convert.targets import Untakable, check_names, namespaces, targets
from fairlead.settings.models import Exempt
from fairlead.settings.selectors import Selector

AUTOGEN = "pod-policies.kyverno.io/autogen-controllers"

_NAME = re.compile(r"[^\s,*?]+")
_SUBJECTS = {
    "Group": "%(name)s",
    "ServiceAccount": "system:serviceaccount:%(namespace)s:%(name)s",
    "User": "%(name)s",
}
"""What a request says of each kind of subject."""
_OPERATION = re.compile(r"\{\{\s*request\.operation\s*(\|\|\s*['\"`]\w*['\"`]\s*)?\}\}")


class Subject(Lenient):
    """A user, group or service account."""

    kind: str = ""
    name: str = ""
    namespace: str = ""


class Resources(Lenient):
    """Objects that a rule selects."""

    kinds: list[str] = []
    namespaces: list[str] = []
    namespace_selector: AnySelector | None = None
    operations: list[str] = []

    def names(self) -> list[str]:
        """The names of the namespaces; none for all."""
        return [] if self.namespaces == ["*"] else self.namespaces

    def concern(self, operation: str) -> bool:
        """Whether a rule about these objects is about this operation, too."""
        return not self.operations or operation in self.operations


class Filter(Lenient):
    """Objects, and who asks."""

    resources: Resources = Resources()
    subjects: list[Subject] = []

    def conditions(self) -> list[str]:
        """The fields that select some objects of a namespace only."""
        fields = [*unknown(self), *unknown(self.resources)]
        return [f"match.{name}" for name in [*fields, *(["subjects"] if self.subjects else [])]]


class Match(Lenient):
    """What a rule matches or excludes."""

    any: list[Filter] = []
    all: list[Filter] = []
    resources: Resources | None = None
    subjects: list[Subject] = []

    def filters(self) -> list[Filter]:
        """The filters, one of which has to match. Raises Untakable."""
        if (self.any and self.all) or len(self.all) > 1:
            raise Untakable(
                "match.all: several filters have to match: write one filter that says all of them"
            )
        if self.any or self.all:
            if fields := unknown(self):
                raise Untakable(without([f"match.{name}" for name in fields], "objects"))
            return self.any or self.all
        resources = self.resources or Resources()
        extra = self.model_extra or {}
        return [Filter.model_validate({**extra, "resources": resources, "subjects": self.subjects})]


@dataclass(frozen=True)
class Scope:
    """The objects of these kinds in these namespaces, but for whom the instance exempts: all, or
    those that are `only_new`.
    """

    kinds: Kinds
    namespaces: Selector
    exempt: Exempt
    only_new: bool = False


def without(fields: Sequence[str], of: str) -> str:
    """Why a rule with conditions in these fields is left out."""
    it = "it" if len(fields) == 1 else "them"
    return (
        f"{', '.join(fields)}: Fairlead decides about all {of} of a namespace, without conditions: "
        f"remove {it}, if that will do"
    )


def preconditions(value: Any, operation: str) -> list[str]:
    """The field with preconditions, unless they hold for every object of this operation."""
    if isinstance(value, list):
        value = {"all": value}
    either, every = (value.get("any"), value.get("all")) if isinstance(value, dict) else (None, [0])
    passes = partial(_passes, operation=operation)
    holds = not either or (isinstance(either, list) and any(map(passes, either)))
    hold = not every or (isinstance(every, list) and all(map(passes, every)))
    return ["preconditions"] if value and not (holds and hold) else []


def _passes(condition: Any, operation: str) -> bool:
    """Whether a condition is about the operation, and lets this one pass."""
    if not isinstance(condition, dict) or not _OPERATION.fullmatch(str(condition.get("key"))):
        return False
    value = condition.get("value")
    values = value if isinstance(value, list) else [value]
    operator = str(condition.get("operator", "")).lower()
    positive = operator in ("equals", "equal", "in", "anyin", "allin")
    negative = operator in ("notequals", "notequal", "notin", "anynotin", "allnotin")
    return (operation in values and positive) or (operation not in values and negative)


def check_pods(kinds: Kinds) -> None:
    """Raises Untakable if a policy is not about pods."""
    if ("", "Pod") not in kinds.pairs:
        raise Untakable(
            f"it is about {kinds}, and Fairlead places pods and the templates of DaemonSets: match "
            "Pod, and change its spec"
        )


def targets_of(
    metadata: Metadata, kind: str, match: Match, exclude: Match | None, conditions: Sequence[str]
) -> list[Target]:
    """The namespaces whose pods a rule places, if it has none of these `conditions`. Raises
    Untakable.
    """
    filters = [each for each in match.filters() if any(map(_is_pod, each.resources.kinds))]
    exempt = _checked(filters, exclude, conditions, "pods")
    if exempt.users or exempt.groups:
        raise Untakable(without(["exclude.subjects"], "pods"))
    added = [
        target
        for each in filters
        for target in targets(
            each.resources.names(), each.resources.namespace_selector, exempt.namespaces
        )
    ]
    if kind == "Policy":
        return list(in_namespace(metadata.namespace or "default", added))
    return added


def _checked(
    filters: Sequence[Filter], exclude: Match | None, conditions: Sequence[str], of: str
) -> Exempt:
    """Whom a rule leaves out. Raises Untakable if it has these or other conditions."""
    kinds = {_pair(kind) for each in filters for kind in each.resources.kinds}
    exempt, problems = _exempt(exclude, {("", "Pod")} if of == "pods" else kinds)
    fields = [field for each in filters for field in each.conditions()]
    if fields := [*dict.fromkeys([*conditions, *fields, *problems])]:
        raise Untakable(without(fields, of))
    if not all(each.resources.concern("CREATE") for each in filters):
        raise Untakable("match.operations leaves out CREATE, when Fairlead decides: name it")
    return exempt


def in_namespace(name: str, targets: list[Target]) -> Iterator[Target]:
    """Those of a policy that is only about its own namespace. Raises Untakable."""
    check_names([name])
    for target in targets:
        match target:
            case Named(other_name) if other_name != name:
                continue
            case Named():
                yield target
            case _ if getattr(target, "excluded", None) is None:
                raise Untakable("it is about its own namespace: remove the namespaceSelector")
            case _ if name not in getattr(target, "excluded", ()):
                yield Named(name)


def kinds_of(match: Match, annotations: Mapping[str, str] | None) -> Kinds:
    """All kinds that a rule matches. Raises Untakable."""
    names = [kind for each in match.filters() for kind in each.resources.kinds]
    only_pods = bool(names) and all(map(_is_pod, names))
    return Kinds(
        [*dict.fromkeys(_pair(name) for name in names)],
        templates=only_pods and (annotations or {}).get(AUTOGEN, "all") != "none",
    )


def _is_pod(name: str) -> bool:
    return _pair(name) == ("", "Pod")


def _pair(name: str) -> tuple[str, str]:
    """The group and the kind of `Kind`, `version/Kind` or `group/version/Kind`; a subresource stays
    behind the kind.
    """
    steps = name.strip("/").split("/")
    at = next((i for i, step in enumerate(steps) if step[:1].isupper()), len(steps) - 1)
    kind = "/".join(steps[at:]).replace(".", "/", 1)
    is_named = at > 1 and steps[0] != "*"
    return (steps[0] if is_named else group_of_kind(steps[at].partition(".")[0]), kind)


def scopes_of(
    metadata: Metadata,
    kind: str,
    match: Match,
    exclude: Match | None,
    conditions: Sequence[str],
    *,
    only_new: bool,
) -> list[Scope]:
    """The objects that a rule of a policy of this kind validates, if it has none of these
    `conditions`; they are new ones by `only_new` or by the operations. Raises Untakable.
    """
    filters = match.filters()
    exempt = _checked(filters, exclude, conditions, "objects")
    by_namespaces: list[tuple[Selector, list[Filter]]] = []
    for each in filters:
        names = each.resources.names()
        if kind == "Policy":
            own = metadata.namespace or "default"
            if names and own not in names:
                continue
            names = [own]
        selector = namespaces(names, each.resources.namespace_selector)
        same = next((members for other, members in by_namespaces if other == selector), None)
        if same is None:
            by_namespaces.append((selector, [each]))
        else:
            same.append(each)
    return [
        Scope(
            kinds_of(Match(any=members), metadata.annotations),
            selector,
            exempt,
            only_new=only_new or not any(each.resources.concern("UPDATE") for each in members),
        )
        for selector, members in by_namespaces
    ]


def _exempt(exclude: Match | None, kinds: Set[tuple[str, str]]) -> tuple[Exempt, list[str]]:
    """Whom a rule about these kinds leaves out, and the fields that say what cannot be said so."""
    names: dict[str, list[str]] = {"Namespace": [], "User": [], "Group": []}
    for each in exclude.filters() if exclude and exclude != Match() else []:
        resources = each.resources
        selects = resources.namespace_selector or unknown(each) or unknown(resources)
        all_kinds = not resources.kinds or kinds <= {*map(_pair, resources.kinds)}
        is_one = bool(resources.namespaces) != bool(each.subjects)
        if selects or not all_kinds or not is_one or resources.operations:
            return Exempt(), ["exclude"]
        check_names(resources.namespaces)
        names["Namespace"] += resources.namespaces
        for subject in each.subjects:
            if not _NAME.fullmatch(subject.name) or subject.kind not in _SUBJECTS:
                return Exempt(), ["exclude.subjects"]
            name = _SUBJECTS[subject.kind] % subject.model_dump()
            names["Group" if subject.kind == "Group" else "User"].append(name)
    return Exempt(users=names["User"], groups=names["Group"], namespaces=names["Namespace"]), []
