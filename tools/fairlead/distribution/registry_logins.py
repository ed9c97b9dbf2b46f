"""What a registry asks for before it takes something: a password, or a token for it.

Source: the documentation of Docker's registry, "Token Authentication Specification", which most
registries follow.
"""

from __future__ import annotations

import base64
import re
from pathlib import Path
from urllib.parse import urlencode, urlsplit
from urllib.request import parse_http_list

from fairlead.common import cached_urls, files
from fairlead.common.errors import UsageError
from fairlead.distribution import exchanges
from fairlead.distribution.exchanges import Answer
from fairlead.distribution.registry_answers import quoted, reason, way_out

_TOKEN = re.compile(r"[!-~]+")


class Login:
    """The right of a user to push to a repository, or without a user of anyone.

    `authorization` is the header of that name, empty as long as the registry has asked for nothing.
    """

    def __init__(self, base: str, repository: str, ca: Path | None, file: Path | None) -> None:
        """`base` is the URL of the repository, and `file` has the user and the password. Raises
        UsageError, also if they would be sent without TLS.
        """
        if file:
            exchanges.require_private(base)
        self._base, self._repository, self._ca, self._file = base, repository, ca, file
        self._user = _basic(file) if file else ""
        self.authorization = ""

    def renew(self, refusal: Answer) -> bool:
        """Get what the registry asks for: the password itself, or a token for it; whether that is
        new. Raises UsageError.
        """
        before = self.authorization
        challenges = _challenges(refusal.headers.get("WWW-Authenticate", ""))
        if "bearer" in challenges:
            self.authorization = f"Bearer {self._token(challenges['bearer'])}"
        elif "basic" in challenges:
            self.authorization = self._user
        return self.authorization != before

    def _token(self, parameters: dict[str, str]) -> str:
        """The token that the host in a challenge gives. Raises UsageError."""
        realm = parameters.get("realm", "")
        shown = self._checked(realm)
        # Registries may name less than a push needs.
        scopes = dict.fromkeys(
            (f"repository:{self._repository}:pull,push", parameters.get("scope", ""))
        )
        query = [("service", parameters.get("service", "")), *(("scope", each) for each in scopes)]
        url = f"{realm}{'&' if urlsplit(realm).query else '?'}"
        answer = exchanges.exchange(
            "GET",
            url + urlencode([(name, value) for name, value in query if value]),
            headers={"Authorization": self._user} if self._user else {},
            ca=self._ca,
        )
        if not answer.ok:
            raise UsageError(
                f"{shown}: gives no token for the registry, but answers {reason(answer)}: "
                f"{way_out(answer, self._repository, self._file)}"
            )
        document = answer.document if isinstance(answer.document, dict) else {}
        token = document.get("token") or document.get("access_token")
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise UsageError(
                f"{shown}: answers, but with no token for the registry: ask who runs the registry"
            )
        return token

    def _checked(self, realm: str) -> str:
        """The realm as messages name it. Raises UsageError for one without TLS, which would show
        the password, unless it is on the registry's own host, which was asked without TLS, too. OPA
        has the same rule.
        """
        own, host, _ = exchanges.origin(self._base)
        try:
            scheme, name, _ = exchanges.origin(realm)
            good = bool(name) and (
                scheme == "https" or (scheme, name) == ("http", host) == (own, host)
            )
        except ValueError:
            good = False
        if not good:
            raise UsageError(
                f"{self._base}: sends to {quoted(realm)} for a token, which has no TLS, so it "
                "gets no password: ask who runs the registry"
            )
        return quoted(cached_urls.shown(realm))


def _challenges(header: str) -> dict[str, dict[str, str]]:
    """The parameters of each scheme in a header WWW-Authenticate, by names in lower case."""
    challenges: dict[str, dict[str, str]] = {}
    parameters: dict[str, str] = {}
    for item in parse_http_list(header):
        first, _, rest = item.partition(" ")
        if "=" not in first:
            parameters = challenges.setdefault(first.lower(), {})
            item = rest
        name, _, value = item.partition("=")
        parameters.setdefault(name.strip().lower(), value.strip().strip('"'))
    return challenges


def _basic(file: Path) -> str:
    """The header Authorization with the user and the password in a file, as OPA sends it. Raises
    UsageError, InputError.
    """
    text = files.read_text(file).strip()
    user, _, password = text.partition(":")
    if not (user and password):
        raise UsageError(f"{file}: holds no USER:PASSWORD, which a registry needs")
    return f"Basic {base64.b64encode(text.encode()).decode()}"
