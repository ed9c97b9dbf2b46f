"""What controllers of Kubernetes make from a template that was admitted: the ReplicaSets of
Deployments, and the Jobs of CronJobs. An intent that decides about the owner leaves them alone,
because to refuse them would only stop the controller; it decides about their pods.

policies/lib/controllers/controllers.rego says the same for OPA.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fairlead.policy.requests import Condition, Kind, Operation, Request

_WITHOUT_OWN_ACCOUNT = "system:kube-controller-manager"
"""Every controller, where kube-controller-manager runs without --use-service-account-credentials.
"""


@dataclass(frozen=True)
class Maker:
    """The controller that makes objects of a kind from the template of another one.

    Anyone can write an owner reference, so it counts only in requests of the `users`.
    """

    kind: str
    owner_version: str
    owner_kind: str
    account: str

    @property
    def owner(self) -> str:
        """The owner's `group/Kind`."""
        return f"{self.owner_version.partition('/')[0]}/{self.owner_kind}"

    @property
    def users(self) -> tuple[str, str]:
        """The names by which the controller sends requests."""
        return f"system:serviceaccount:kube-system:{self.account}", _WITHOUT_OWN_ACCOUNT

    @property
    def expression(self) -> str:
        """Whether it makes the object of a request, in CEL."""
        users = ", ".join(f"'{user}'" for user in self.users)
        return (
            f"request.kind.kind == '{self.kind}' && request.userInfo.username in [{users}] && "
            "object.metadata.?ownerReferences.orValue([]).exists(owner, "
            "owner.?controller.orValue(false) "
            f"&& owner.apiVersion == '{self.owner_version}' && owner.kind == '{self.owner_kind}')"
        )


MAKERS: Mapping[str, Maker] = {
    "apps/ReplicaSet": Maker("ReplicaSet", "apps/v1", "Deployment", "deployment-controller"),
    "batch/Job": Maker("Job", "batch/v1", "CronJob", "cronjob-controller"),
}
"""By the `group/Kind` of what they make."""


def conditions(request: Request, requests: Sequence[Request]) -> Iterator[Condition]:
    """By which API servers do not ask about what a controller makes, if the same intent decides
    about its owner. `requests` are all of the intent.
    """
    for path, maker in MAKERS.items():
        if operations := _judged_with_owner(request, path, maker, requests):
            yield Condition(
                name=f"no-{maker.kind.lower()}-of-a-{maker.owner_kind.lower()}",
                operations=[] if operations == request.operations else operations,
                expression=f"!({maker.expression})",
            )


def _judged_with_owner(
    request: Request, path: str, maker: Maker, requests: Sequence[Request]
) -> list[Operation]:
    if not _concerns(request.kinds, path):
        return []
    return [
        operation
        for operation in request.operations
        if operation in ("CREATE", "UPDATE")
        and any(
            operation in other.operations
            and other.namespaces == request.namespaces
            and _concerns(other.kinds, maker.owner)
            for other in requests
        )
    ]


def _concerns(kinds: Sequence[Kind], path: str) -> bool:
    return any(kind.path == path for kind in kinds)
