"""The engine `python`: decides on cases by the intents in Python, without a server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fairlead.common.progress import Progress
from fairlead.engines.base import Decision, Outcome, Undecided, without_data
from fairlead.engines.python import decisions
from fairlead.engines.python.decisions import Policies
from fairlead.kube import admission_reviews
from fairlead.policy.case_policies import CasePolicies
from fairlead.policy.cases import Case
from fairlead.policy.exceptions import PolicyException
from fairlead.policy.policy_set import PolicySet
from fairlead.policy.python_code import MissingError


class PythonEngine:
    """The intents in Python. A request counts as allowed if they allow it, and also allow the
    object with their own patch.
    """

    name = "python"
    asks_cluster = False

    def __init__(self, policies: PolicySet | None = None) -> None:
        self._case_policies = CasePolicies(policies)
        self._prepared: dict[str, Policies | MissingError] = {}

    def inexpressible(self, case: Case) -> str | None:
        """See fairlead.engines.base.Engine."""
        if reason := without_data(case):
            return reason
        policies = self._policies(case)
        return str(policies) if isinstance(policies, MissingError) else None

    def decide(self, cases: Sequence[Case], progress: Progress) -> Iterator[tuple[Case, Outcome]]:
        """See fairlead.engines.base.Engine."""
        for case in cases:
            policies = self._policies(case)
            if isinstance(policies, MissingError):
                raise policies
            yield case, _outcome(case, policies)

    def _policies(self, case: Case) -> Policies | MissingError:
        """The policies with the settings of the case, which many cases share."""
        key = case.settings.model_dump_json()
        if key not in self._prepared:
            try:
                self._prepared[key] = decisions.of_policies(self._case_policies.of(case))
            except MissingError as error:
                self._prepared[key] = error
        return self._prepared[key]


def _outcome(case: Case, policies: Policies) -> Outcome:
    namespace = case.namespace
    labels = namespace.labels if namespace and namespace.state != "absent" else None
    try:
        return decision(policies, case.review(), labels, case.exceptions)
    except Exception as error:
        return Undecided(f"{type(error).__name__}: {error}")


def decision(
    policies: Policies,
    review: Mapping[str, Any],
    labels: Mapping[str, str] | None,
    exceptions: Sequence[PolicyException] = (),
) -> Decision | Undecided:
    """The decision on a review of a namespace with these labels and exceptions, and what becomes of
    its object.
    """
    answer = policies.answer(review, labels, exceptions=exceptions)
    response, manifest = answer["response"], review["request"]["object"]
    warnings = tuple(response.get("warnings", ()))
    if not response["allowed"]:
        return Decision(False, response["status"]["message"], None, warnings)
    patch = admission_reviews.patch_of(answer)
    if not patch:
        return Decision(True, "", manifest, warnings)
    patched = admission_reviews.apply(patch, manifest)
    patched_review = {**review, "request": {**review["request"], "object": patched}}
    final = policies.answer(patched_review, labels, exceptions=exceptions)
    if not final["response"]["allowed"]:
        message = final["response"]["status"]["message"]
        return Undecided(f"the policies refuse what they made of the object themselves: {message}")
    if "patch" in final["response"]:
        return Undecided("the policies patch what they made of the object once more")
    return Decision(True, "", patched, warnings)
