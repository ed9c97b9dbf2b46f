"""The setting of transient role bindings."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from fairlead.common import durations
from fairlead.settings.strict import Duration, Group, Strict, User

OWN_CONTROLLER = "system:serviceaccount:fairlead:fairlead-controller"
"""The account of `fairlead controller` (fairlead.deployment.names.CONTROLLER)."""
_FORMER = "system:serviceaccount:fairlead:fairlead-access"
"""Its account when it only carried out transient access; settings may name it."""
ANY_ROLE = "*"
"""In `roles`, this stands for every role."""

_Controller = Annotated[
    User, AfterValidator(lambda user: OWN_CONTROLLER if user == _FORMER else user)
]
# Source: ValidatePathSegmentName of Kubernetes, by which API servers check the names of roles.
_Role = Annotated[str, Field(pattern=r"^[^/%\s]+$", max_length=253)]


class Access(Strict):
    """Transient role bindings.

    `longest` is for how long one may give access at most, as a duration. `roles` are the names of
    the roles that the controller may bind at all. If there are `approvers`, access begins only when
    a member of one of these groups has approved it. With `recheck`, access begins only if the
    requester may still bind the role then. `controller` is the user that carries the decisions
    out. With `requests_by_service_accounts`, service accounts may ask for access that has to be
    approved.
    """

    longest: Duration = "30d"
    roles: list[_Role] = []
    approvers: list[Group] = []
    recheck: bool = True
    controller: _Controller = OWN_CONTROLLER
    requests_by_service_accounts: bool = False

    @property
    def longest_seconds(self) -> int:
        """The longest window, in seconds."""
        return int(durations.parse(self.longest).total_seconds())

    @property
    def every_role(self) -> bool:
        """Whether any role may be given."""
        return ANY_ROLE in self.roles

    @property
    def own_controller(self) -> bool:
        """Whether `fairlead controller` carries the decisions out."""
        return self.controller == OWN_CONTROLLER
