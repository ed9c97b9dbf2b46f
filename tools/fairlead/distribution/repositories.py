"""Repositories of an OCI registry, from which OPA can pull bundles."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fairlead.common.errors import UsageError

_SCHEME = "oci://"
_URL = re.compile(
    rf"{_SCHEME}(?P<host>[A-Za-z0-9.-]+(:[0-9]{{1,5}})?)/"
    r"(?P<path>[a-z0-9]+(?:[._/-]+[a-z0-9]+)*)(:(?P<tag>\w[\w.-]{0,127}))?/?"
)
_LATEST = "latest"


@dataclass(frozen=True)
class Repository:
    """The part of a registry below which each bundle has a repository of its own, and the tag that
    OPAs follow: `oci://registry.example.com/fleet:prod`.
    """

    host: str
    path: str
    tag: str

    @classmethod
    def parse(cls, url: str) -> Repository | None:
        """The repository that a URL names, by default with the tag `latest`; None for the URL of an
        HTTP server. Raises UsageError.
        """
        if not url.startswith(_SCHEME):
            return None
        match = _URL.fullmatch(url)
        if match is None:
            raise UsageError(
                f"{url!r} names no repository: write it like oci://registry.example.com/fleet or "
                "oci://registry.example.com/fleet:prod"
            )
        return cls(match["host"], match["path"], match["tag"] or _LATEST)

    def image(self, name: str) -> str:
        """The image of a bundle, by which OPA pulls it."""
        return f"{self.host}/{self.path}/{name}:{self.tag}"

    def url(self, *, plain: bool) -> str:
        """The address of the registry; `plain` is HTTP without TLS."""
        return f"{'http' if plain else 'https'}://{self.host}"
