"""The sidecar `sync`: keeps the policies and data of one OPA equal to the cluster's ConfigMaps,
namespaces and objects.

desired.py holds what should be, plan.py and tree.py what is missing, reconcile.py does it; watch.py
brings the news from the API server (apiserver.py), status.py takes word back to the ConfigMaps,
server.py answers /health, /metrics and look-ups within the bounds of connections.py, decisions.py
logs what OPA uploads, which batches.py reads, and sidecar.py starts all of them.
"""
