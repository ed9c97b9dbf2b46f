"""The Deployment of OPA in a cluster of pods, which API servers reach by connections that they keep
open."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from pathlib import Path

from fairlead.clusters import webhook_connections
from fairlead.clusters.pod_deployment import PodDeployment
from fairlead.common.progress import Progress
from fairlead.deployment.names import OPA
from fairlead.kube import clients
from fairlead.opa.containers import UNROUTED


class OpaDeployment(PodDeployment):
    """See PodDeployment. After a rollout, API servers leave the pods that end."""

    def __init__(self, kubeconfig: Path) -> None:
        super().__init__(clients.connect(kubeconfig), OPA, "OPA")
        self._objects = clients.Objects(kubeconfig)

    def _finish(self, progress: Progress) -> str:
        leaves_pods = self._leave_ending_pods(progress)
        return ", and API servers left the pods that end" if leaves_pods else ""

    def _leave_ending_pods(self, progress: Progress) -> bool:
        """Have API servers connect again if they may be connected to pods that end; once for the
        same pods. Returns whether that was needed.
        """
        last = self._last_deletion()
        if not last or webhook_connections.since(self._objects) >= last:
            return False
        progress.update("opa", "having API servers leave the pods that end")
        time.sleep(UNROUTED)
        webhook_connections.renew(self._objects, last)
        return True

    def _last_deletion(self) -> datetime | None:
        """When the last of the pods that end now was deleted, by the API server's clock; None if no
        pod ends.
        """
        deletions = [
            # The timestamp is when the grace period is over.
            pod.metadata.deletion_timestamp
            - timedelta(seconds=pod.metadata.deletion_grace_period_seconds or 0)
            for pod in self._all_pods()
            if pod.metadata.deletion_timestamp
        ]
        return max(deletions, default=None)
