"""The decision on one request, and what the API server makes of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from fairlead.admission.asked import Asked
from fairlead.kube import admission_reviews

NO_ANSWER = (
    "the policies give no answer (data.system.main is undefined), which an API server "
    "treats as a refusal"
)


NOTE = "fairlead.dev/assigned"
"""The annotation of a pod that says what it has after the decision (docs/node-pool.md)."""
_ANNOTATIONS = "/metadata/annotations"


@dataclass(frozen=True)
class Decision:
    """The decision on one request. `message` says why it is refused, `patch` is a JSON Patch.

    `pool` is the pool that decides on a pod, `selector` the labels of that pool's nodes. They are
    None and {} if no pool decides, and always for staged policies.

    `intents` has the decision of each intent, {deny, warn, patch}, and `excepted` are those that
    leave the object alone by an exception. `asked` is false if the API server decides without OPA;
    `reason` says why, or which patch it drops; see `admitted`.
    """

    allowed: bool
    message: str
    warnings: tuple[str, ...] = ()
    patch: tuple[dict[str, Any], ...] = ()
    pool: str | None = None
    selector: Mapping[str, str] = field(default_factory=dict)
    intents: Mapping[str, Any] = field(default_factory=dict)
    excepted: tuple[str, ...] = ()
    asked: bool = True
    reason: str = ""

    def without_note(self) -> Self:
        """The decision without the note of what a pod has after it: that is for the API server, and
        says nothing that the rest of the patch does not say.
        """
        intents = {
            intent: {**decided, "patch": _without_note(decided["patch"])}
            for intent, decided in self.intents.items()
        }
        return replace(self, patch=tuple(_without_note(self.patch)), intents=intents)

    def admitted(self, admission: Asked) -> Self:
        """What the API server makes of the decision, or decides alone if it does not ask OPA. It
        accepts no patch from a validating webhook.
        """
        if not admission.asked:
            return replace(
                self,
                allowed=not admission.refused,
                message=admission.reason if admission.refused else "",
                warnings=(),
                patch=(),
                intents={},
                asked=False,
                reason=admission.reason,
            )
        patching = [intent for intent, decided in self.intents.items() if decided["patch"]]
        unpatched, error = admission.unpatched(patching if self.allowed else ())
        if not unpatched:
            return self
        intents = {
            intent: {**decided, "patch": []} if error or intent in unpatched else decided
            for intent, decided in self.intents.items()
        }
        patch = tuple(step for decided in intents.values() for step in decided["patch"])
        dropped = f"the API server drops the patch of {', '.join(sorted(unpatched))}"
        reason = "" if error else f"{dropped}: no mutating webhook asks for it"
        return replace(
            self, allowed=not error, message=error, patch=patch, intents=intents, reason=reason
        )


def _without_note(patch: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        operation
        for operation in patch
        if operation["path"] != f"{_ANNOTATIONS}/{NOTE.replace('/', '~1')}"
        and not (operation["path"] == _ANNOTATIONS and [*operation.get("value", ())] == [NOTE])
    ]


def refused(decided: Sequence[Decision]) -> int | None:
    """The number of the refusal that counts: that of an object itself, whose decision is the last,
    before that of its pods. None if nothing is refused.
    """
    numbers = [number for number, decision in enumerate(decided) if not decision.allowed]
    return max(numbers, default=None)


def fields(answer: Mapping[str, Any] | None) -> dict[str, Any]:
    """What an AdmissionReview answers, as the first fields of a Decision; None for no answer."""
    if answer is None:
        return {"allowed": False, "message": NO_ANSWER}
    response = answer["response"]
    return {
        "allowed": response["allowed"],
        "message": response.get("status", {}).get("message", ""),
        "warnings": tuple(response.get("warnings", ())),
        "patch": tuple(admission_reviews.patch_of(answer)),
    }
