"""The environment variables that override the images of the settings."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError

from fairlead.common.errors import UsageError
from fairlead.settings.models import Images

IMAGE_VARIABLES = {
    "opa": "OPA_IMAGE",
    "kube_mgmt": "KUBE_MGMT_IMAGE",
    "fairlead": "FAIRLEAD_IMAGE",
    "pull_policy": "IMAGE_PULL_POLICY",
}
"""The environment variable that overrides each field of Images."""


def overridden(images: Images, environment: Mapping[str, str]) -> Images:
    """`images`, overridden by the variables of IMAGE_VARIABLES that are set and not empty.

    Raises UsageError with the variable.
    """
    for field, variable in IMAGE_VARIABLES.items():
        if value := environment.get(variable):
            try:
                images = Images.model_validate({**images.model_dump(), field: value}, by_name=True)
            except ValidationError as error:
                expected = (
                    "IfNotPresent, Always or Never"
                    if field == "pull_policy"
                    else "an image's name, like name:1.2.3"
                )
                raise UsageError(
                    f"{variable}: {value!r} is not {expected}: set another, or unset it"
                ) from error
    return images
