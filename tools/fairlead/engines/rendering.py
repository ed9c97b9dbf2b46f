"""The objects of a deployment, for any engine or two, without a cluster."""

from __future__ import annotations

from pathlib import Path

from fairlead.common.progress import Progress
from fairlead.deployment import render, sidecars
from fairlead.deployment.names import OPA_ENGINE, PYTHON_ENGINE
from fairlead.deployment.shadowing import Engines
from fairlead.engines import enforcement
from fairlead.engines.native import final_state, record
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
    engines = Engines.parse(engine) if engine else Engines(OPA_ENGINE)
    if engines.asked is None:
        enforcement.refuse_sidecar(str(engines), sidecar)
        new = record.made(engines.enforcing, settings, folder)
        return render.Rendered({"": [*new.objects, dict(new.manifest)]}, ())
    if engines.asked == PYTHON_ENGINE:
        sidecar = enforcement.in_python(settings, folder, sidecar)
    if not engines.shadow:
        checked = final_state.render(settings, folder, engine=engines.enforcing, progress=progress)
        return render.render(
            settings, folder, sidecar=sidecar, final_state=checked, progress=progress
        )
    running = sidecars.SIDECARS[sidecar] if sidecar else sidecars.DEFAULT
    pair, new = record.paired(engines, running, settings, folder, progress=progress)
    asked = render.render(settings, folder, sidecar=sidecar, pair=pair, progress=progress)
    native = new.shadow if engines.enforcing in record.ASKED else list(new.native)
    return render.Rendered({**asked.files, "cel": native}, asked.notes)
