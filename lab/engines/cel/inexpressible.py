"""Says which cases no policy in CEL can decide."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import TemplateError

from fairlead.common.errors import InputError
from fairlead.engines.base import Decision, Outcome, Undecided
from fairlead.engines.cel import definition as definitions
from fairlead.policy.case_policies import CasePolicies
from fairlead.policy.cases import Case
from fairlead.policy.expressions import rendered
from fairlead.policy.intents import Intent
from lab.engines.live import answers, case_names

NO_TIME = (
    "the case has exceptions, and API servers tell policies no time of requests to a subresource "
    "with objects of its own kind, such as a Scale"
)
"""Why a case with exceptions cannot be decided."""


def reason(case: Case, policies: CasePolicies) -> str | None:
    """Why no policy in CEL can decide the case; None if one can."""
    if case.exceptions and case.request.sub_resource:
        return NO_TIME
    names = {**case_names.of(case), "settings": case.settings.document()}
    for instance in policies.of(case).active:
        if instance.intent.name == case.intent:
            text = of_intent(instance.intent, {**names, "parameters": dict(instance.parameters)})
            if text:
                return text
    return None


def of_intent(intent: Intent, names: Mapping[str, Any]) -> str | None:
    """Why no policy in CEL can decide about a request; None if one can. Raises InputError."""
    definition = definitions.of(intent)
    if definition is None:
        return f"the intent {intent.name} has no {definitions.FILE}"
    try:
        reasons = (part.reason for part in definition.inexpressible if rendered(part.when, names))
        return next(reasons, None)
    except TemplateError as error:
        path = Path(intent.source).parent / definitions.FILE
        raise InputError(path, f"inexpressible: {error}") from error


def outcome(case: Case, outcome: Outcome, failed: re.Pattern[str]) -> Outcome:
    """The outcome of a case, of which policies in CEL were part. A message that matches `failed`
    says that a policy failed: that refuses the request, but it is not a decision.
    """
    if not isinstance(outcome, Decision) or outcome.allowed:
        return outcome
    if failed.search(outcome.message):
        return Undecided(f"a policy fails: {outcome.message}")
    return answers.refused_early(case, outcome, "a policy")
