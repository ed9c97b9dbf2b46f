"""The sidecar `sync`: keeps the policies and data of one OPA equal to the cluster's ConfigMaps,
namespaces and objects.

watches.py follows the API server and updates the desired state (desired.py). plans.py and stores.py
compute what OPA lacks, reconcile.py sends it, and statuses.py writes the result into the
ConfigMaps' annotations. server.py answers /health, /metrics and lookups within the limits of
connection_limits.py. decision_uploads.py logs the decisions that OPA uploads, and
decision_batches.py parses them. sidecar.py starts all of it, and hung_threads.py tells which of its
threads make no progress.
"""
