"""Says which cases no policy in CEL can decide."""

from __future__ import annotations

import re

from fairlead.engines.base import Decision, Outcome, Undecided
from fairlead.engines.cel import definition as definitions
from fairlead.engines.live import answers
from fairlead.policy.case_policies import CasePolicies
from fairlead.policy.cases import Case


def reason(case: Case, policies: CasePolicies) -> str | None:
    """Why no policy in CEL can decide the case; None if one can."""
    names = {**case.names(), "settings": case.settings.document()}
    for instance in policies.of(case).active:
        if instance.intent.name == case.intent:
            text = definitions.reason(
                instance.intent, {**names, "parameters": dict(instance.parameters)}
            )
            if text:
                return text
    return None


def outcome(case: Case, outcome: Outcome, failed: re.Pattern[str]) -> Outcome:
    """The outcome of a case, of which policies in CEL were part. A message that matches `failed`
    says that a policy failed: that refuses the request, but it is not a decision.
    """
    if not isinstance(outcome, Decision) or outcome.allowed:
        return outcome
    if failed.search(outcome.message):
        return Undecided(f"a policy fails: {outcome.message}")
    return answers.refused_early(case, outcome, "a policy")
