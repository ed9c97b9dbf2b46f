"""Asks the API server who the user of the kubeconfig is."""

from __future__ import annotations

from fairlead.kube import clients
from fairlead.kube.errors import Refused


def user(objects: clients.Objects) -> str | None:
    """The user's name, as the API server knows it; None if it does not say. Raises Unreachable.

    Every authenticated user may ask, unless somebody took the right of `system:basic-user` away.
    """
    return user_and_groups(objects)[0]


def user_and_groups(objects: clients.Objects) -> tuple[str | None, list[str]]:
    """The user's name and groups, as the API server knows them. Raises Unreachable."""
    question = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "SelfSubjectReview",
        "metadata": {},
    }
    try:
        review = objects.create(question)
    except Refused:
        return None, []
    info = (review.get("status") or {}).get("userInfo") or {}
    return info.get("username") or None, list(info.get("groups") or ())
