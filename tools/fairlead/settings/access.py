"""The setting of transient role bindings."""

from __future__ import annotations

from pydantic import BaseModel

from fairlead.common import durations
from fairlead.settings.strict import STRICT, Duration, Group, User


class Access(BaseModel):
    """Transient role bindings.

    `longest` is for how long one may give access at most, as a duration. `controller` is the user
    that carries the decisions out. If there are `approvers`, access begins only when a member of
    one of these groups has approved it.
    """

    model_config = STRICT

    longest: Duration = "30d"
    controller: User = "system:serviceaccount:metacontroller:metacontroller"
    approvers: list[Group] = []

    @property
    def longest_seconds(self) -> int:
        """The longest window, in seconds."""
        return int(durations.parse(self.longest).total_seconds())
