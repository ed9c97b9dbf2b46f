"""Image sources: every image comes from an allowed registry or repository."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairlead.engines.python import pods
from fairlead.engines.python.api import Decision, Request, get, quoted
from fairlead.settings.models import Settings

# The grammar of github.com/distribution/reference, by its parts.
_LABEL = r"[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?"
_REGISTRY = re.compile(rf"({_LABEL}(\.{_LABEL})*|\[[a-fA-F0-9:]+\])(:[0-9]+)?")
_COMPONENT = re.compile(r"[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_HEX = {"sha256": 64, "sha384": 96, "sha512": 128}
_IMAGE_ID = re.compile(r"(sha256:)?[a-f0-9]{64}")


@dataclass(frozen=True)
class _Image:
    """An image of a pod spec. Its `place` is the list in which it is, and its number there."""

    place: tuple[str, int]
    title: str
    reference: str


def decide(request: Request, parameters: Mapping[str, Any], settings: Settings) -> Decision:
    """Refuse images from elsewhere. If they were there before the update, warn of new pods."""
    path = pods.judged_path(request)
    if path is None:
        return Decision()
    checked, left = _checked(request, path)
    problems = [*pods.problems(request.object, path), *_of_images(checked, parameters)]
    mode = settings.mode("image-sources")
    return pods.decision(request, mode, problems, _of_images(left, parameters))


def _checked(request: Request, path: Sequence[str]) -> tuple[list[_Image], list[_Image]]:
    """The images that the request is about, and those that an update has left in a template."""
    images = list(_images(get(request.object, *path, "spec")))
    if request.operation == "CREATE":
        return images, []
    before = list(_images(get(request.old_object, *path, "spec")))
    if path:  # the new pods of a template have all of its images
        return ([], images) if images == before else (images, [])
    known = {(image.place, image.reference) for image in before}
    return [image for image in images if (image.place, image.reference) not in known], []


def _of_images(images: Iterable[_Image], parameters: Mapping[str, Any]) -> list[str]:
    return [
        f"{image.title} has the image {quoted(image.reference)}{problem}"
        for image in images
        for problem in _problems(image.reference, parameters)
    ]


def _images(pod_spec: Any) -> Iterator[_Image]:
    for name, number, container in pods.containers(pod_spec):
        reference = container.get("image", "")
        yield _Image((name, number), pods.title(name, container), reference)
    for number, volume in enumerate(get(pod_spec, "volumes", default=[])):
        if get(volume, "image") is not None:
            title = f"volume {quoted(volume['name'])}"
            yield _Image(("volumes", number), title, volume["image"].get("reference", ""))


def _problems(reference: str, parameters: Mapping[str, Any]) -> Iterator[str]:
    repository = _repository(reference)
    if repository is None:
        yield ", which is not a valid reference: write it like registry.example.com/team/app:1.0"
        return
    sources: Sequence[str] = parameters["sources"]
    if not any(repository == source or repository.startswith(f"{source}/") for source in sources):
        yield (
            f" from {repository}, which is not an allowed source: use an image from "
            f"{' or '.join(sources)}"
        )
    if parameters["require_digest"] and "@" not in reference:
        yield " without a digest: write it like registry.example.com/team/app@sha256:DIGEST"


def _repository(reference: str) -> str | None:
    """The repository's full name, its registry in lower case; None if it is not a reference."""
    if _IMAGE_ID.fullmatch(reference):
        return None
    tagged, at, digest = reference.partition("@")
    if at and not _is_digest(digest):
        return None
    registry, path = _split(tagged)
    path, colon, tag = path.partition(":")
    if colon and not _TAG.fullmatch(tag):
        return None
    if not _REGISTRY.fullmatch(registry):
        return None
    if not all(_COMPONENT.fullmatch(component) for component in path.split("/")):
        return None
    return f"{registry.lower()}/{path}"


def _split(tagged: str) -> tuple[str, str]:
    """The registry, and the path in it with its tag."""
    first, slash, rest = tagged.partition("/")
    if not slash:
        registry, path = "docker.io", tagged
    elif first == "index.docker.io":
        registry, path = "docker.io", rest
    elif first == "localhost" or first != first.lower() or "." in first or ":" in first:
        registry, path = first, rest
    else:  # a user of Docker Hub
        registry, path = "docker.io", tagged
    if registry == "docker.io" and "/" not in path:
        path = f"library/{path}"
    return registry, path


def _is_digest(digest: str) -> bool:
    algorithm, _, text = digest.partition(":")
    return len(text) == _HEX.get(algorithm, 0) and re.fullmatch(r"[a-f0-9]+", text) is not None
