"""The objects of a deployment, for any engine, without a cluster."""

from __future__ import annotations

from pathlib import Path

from fairlead.common.progress import Progress
from fairlead.deployment import render
from fairlead.deployment.names import OPA_ENGINE, PYTHON_ENGINE
from fairlead.engines import enforcement
from fairlead.engines.native import record
from fairlead.settings.models import Settings


def objects(
    settings: Settings,
    folder: Path | None = None,
    *,
    engine: str | None = None,
    sidecar: str | None = None,
    progress: Progress,
) -> render.Rendered:
    """The objects that `deploy` applies in a new cluster of pods. Raises UsageError, InputError."""
    engine = engine or OPA_ENGINE
    if engine not in record.ASKED:
        enforcement.refuse_sidecar(engine, sidecar)
        new = record.made(engine, settings, folder)
        return render.Rendered({"": [*new.objects, dict(new.manifest)]}, ())
    if engine == PYTHON_ENGINE:
        sidecar = enforcement.in_python(settings, folder, sidecar)
    return render.render(settings, folder, sidecar=sidecar, progress=progress)
