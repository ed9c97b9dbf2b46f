"""Admission policies that check the final state of objects, in place of webhooks that would ask OPA
a second time.

The ConfigMap of the policies holds them in an annotation, so that a rollback brings those of its
revision. A second annotation says that they are in force. Without it, the webhooks are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import yaml

from fairlead.common import packed_texts
from fairlead.common.errors import FairleadError
from fairlead.deployment import switches
from fairlead.deployment.names import (
    FINAL_STATE_ANNOTATION,
    FINAL_STATE_LABEL,
    IN_PLACE_ANNOTATION,
    POLICIES,
)
from fairlead.deployment.webhooks import Webhooks

_IN_PLACE = "policy"


@dataclass(frozen=True)
class FinalState:
    """The policies and bindings of a revision, as the text of YAML documents; `in_place` says
    whether they are in force in place of the webhooks.
    """

    objects: str
    in_place: bool = False

    @classmethod
    def of(cls, config_map: Mapping[str, Any] | None) -> FinalState | None:
        """What the ConfigMap of the policies records; None if webhooks alone check the final state.
        Raises FairleadError if somebody damaged it.
        """
        annotations = (config_map or {}).get("metadata", {}).get("annotations") or {}
        if FINAL_STATE_ANNOTATION not in annotations:
            return None
        try:
            objects = packed_texts.unpack(annotations[FINAL_STATE_ANNOTATION])
        except (TypeError, ValueError) as error:
            raise FairleadError(
                f"the annotation {FINAL_STATE_ANNOTATION} of the ConfigMap {POLICIES} cannot be "
                "read: run `fairlead deploy`"
            ) from error
        return cls(objects, annotations.get(IN_PLACE_ANNOTATION) == _IN_PLACE)

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations of the ConfigMap of the policies."""
        recorded = {FINAL_STATE_ANNOTATION: packed_texts.pack(self.objects)}
        return recorded | ({IN_PLACE_ANNOTATION: _IN_PLACE} if self.in_place else {})

    @property
    def manifests(self) -> list[dict[str, Any]]:
        """The policies, each before its binding."""
        return list(yaml.load_all(self.objects, yaml.CSafeLoader))

    @property
    def intents(self) -> set[str]:
        """The intents whose final state they check."""
        return {str(each["metadata"]["labels"][FINAL_STATE_LABEL]) for each in self.manifests}

    def put(self, *, in_place: bool) -> FinalState:
        """The same, in force or not."""
        return replace(self, in_place=in_place)

    def left(self, webhooks: Webhooks) -> Webhooks:
        """The webhooks that are needed beside the policies: all, unless these are in force."""
        if not self.in_place:
            return webhooks
        names = {each["metadata"]["name"] for each in self.manifests}
        validating = [
            one for one in webhooks.validating if switches.final_state_policy(one.name) not in names
        ]
        return replace(webhooks, validating=validating)


def as_disabled(
    manifests: Iterable[Mapping[str, Any]], disabled: Iterable[str]
) -> list[Mapping[str, Any]]:
    """The objects, with the policies of disabled intents switched off."""
    off = {*disabled}
    return [
        switches.policy_off(each)
        if each["kind"] == "ValidatingAdmissionPolicy"
        and each["metadata"]["labels"][FINAL_STATE_LABEL] in off
        else each
        for each in manifests
    ]
