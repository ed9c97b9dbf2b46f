"""Says by API servers' own code which webhooks they call for requests, and why not the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from fairlead.common.progress import Progress
from fairlead.programs import matcher


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True)


class Requirement(_Answer):
    """A requirement of a label selector that does not hold. `actual` is the value of the label;
    None if there is none. `operator` is exists, !, in, notin, =, ==, !=, gt or lt.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()
    actual: str | None


class Verdict(_Answer):
    """Whether an API server calls a webhook for a request.

    `kind` and `configuration` are those of the webhook's configuration, `number` its place there.
    With `ignore`, the API server goes on without an answer.

    If it does not, `by` is the part of the webhook that excludes the request: RESOURCE, OPERATION,
    NAMESPACE_SELECTOR, OBJECT_SELECTOR or MATCH_CONDITIONS. `condition` is the matchCondition that
    is false, `error` says why one could not be evaluated. If it is `refused`, the API server
    refuses the request instead. `rights` is true if a matchCondition asks what the user may do; the
    webhook then counts as called.
    """

    kind: str
    configuration: str
    number: int
    webhook: str
    called: bool
    ignore: bool = False
    refused: bool = False
    by: str = ""
    requirements: tuple[Requirement, ...] = ()
    condition: str = ""
    error: str = ""
    rights: bool = False


RESOURCE, OPERATION = "resource", "operation"
NAMESPACE_SELECTOR, OBJECT_SELECTOR = "namespaceSelector", "objectSelector"
MATCH_CONDITIONS = "matchConditions"
PARTS = (RESOURCE, OPERATION, NAMESPACE_SELECTOR, OBJECT_SELECTOR, MATCH_CONDITIONS)
"""The parts of a webhook, in the order in which they are judged."""


class Matched(_Answer):
    """The verdict of each webhook on a request.

    There is none if the review is `unreadable`, which no API server sends, or if the object is
    `invalid`, which an API server refuses before it calls any webhook. Both are reasons.
    """

    webhooks: tuple[Verdict, ...] | None
    unreadable: str = ""
    invalid: str = ""

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdict of each webhook."""
        return self.webhooks or ()


def match(
    configurations: Sequence[Mapping[str, Any]],
    reviews: Sequence[Any],
    namespaces: Mapping[str, Mapping[str, str]],
    *,
    progress: Progress,
) -> list[Matched]:
    """The verdicts on each of `reviews`, in their order.

    Args:
        configurations: MutatingWebhookConfigurations and ValidatingWebhookConfigurations, or what
            has their form.
        reviews: AdmissionReviews; they need not be well-formed.
        namespaces: the labels of namespaces, by name. Those that are left out may have any.

    Raises FairleadError if the program cannot be built or fails.
    """
    question = {"configurations": list(configurations), "namespaces": namespaces}
    return [
        Matched.model_validate(answer) for answer in matcher.answers(question, reviews, progress)
    ]
