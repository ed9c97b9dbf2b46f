"""What a deployment applied is written down, however it ends: uninstall has to find it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from stored_objects import StoredObjects

from fairlead.common.errors import FairleadError
from fairlead.deployment import ownership
from fairlead.kube.errors import Unreachable
from fairlead.operations import deploy


class Objects(StoredObjects):
    """An API server in memory."""

    def apply_whole(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Store the ConfigMap."""
        return self.apply(manifest)


def applier(objects: Objects) -> Any:
    return SimpleNamespace(objects=objects, uids=["u-1"])


def test_a_deployment_that_succeeds_is_written_down() -> None:
    objects = Objects()
    with deploy._written_down(applier(objects)):
        assert ownership.recorded(objects) == ()  # type: ignore[arg-type]
    assert ownership.recorded(objects) == ("u-1",)  # type: ignore[arg-type]


@pytest.mark.parametrize("error", [FairleadError("OPA does not come up"), KeyboardInterrupt()])
def test_so_is_one_that_fails_half_way_or_is_interrupted(error: BaseException) -> None:
    objects = Objects()
    with pytest.raises(type(error)), deploy._written_down(applier(objects)):
        raise error
    assert ownership.recorded(objects) == ("u-1",)  # type: ignore[arg-type]


def test_the_first_error_counts_and_nobody_waits_for_an_api_server_that_is_away() -> None:
    objects = Objects()
    objects.forbidden = {"ConfigMap"}
    with (
        pytest.raises(FairleadError, match="does not come up"),
        deploy._written_down(applier(objects)),
    ):
        raise FairleadError("OPA does not come up")
    with pytest.raises(Unreachable), deploy._written_down(applier(Objects())):
        raise Unreachable("applying", "no route")
