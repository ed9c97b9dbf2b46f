"""What registries answer when they refuse, as messages say it."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path

from fairlead.common import texts
from fairlead.distribution.exchanges import Answer

_LONGEST = 300  # characters of what a registry says


def reason(answer: Answer) -> str:
    """The status of an answer, and what the registry says of it. Source: OCI Distribution
    Specification 1.1, "Error Codes".
    """
    try:
        messages = [str(each["message"]) for each in answer.document["errors"]]
    except (KeyError, TypeError):
        messages = []
    said = quoted("; ".join(messages) or answer.reason)
    target = answer.headers.get("Location") if 300 <= answer.status < 400 else None
    return f"{answer.status}: {said}{f', to {quoted(target)}' if target else ''}"


def quoted(text: str) -> str:
    """What a registry says, which could be long or steer the terminal."""
    return texts.printable(text[:_LONGEST])


def way_out(answer: Answer, repository: str, file: Path | None) -> str:
    """What to do when a repository, or what gives its tokens, refuses the user in the file."""
    if answer.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        if file is None:
            return "name a file with USER:PASSWORD by --token-file"
        return (
            f"correct the user and the password in {file}, or give the user the right to push to "
            f"{repository}"
        )
    if answer.status == HTTPStatus.NOT_FOUND:
        return f"correct the URL, or create the repository {repository}"
    if answer.status == HTTPStatus.TOO_MANY_REQUESTS or answer.status >= 500:
        return "try again later"
    return "correct the URL"
