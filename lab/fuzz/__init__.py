"""Fuzzing: sends odd and hostile requests to a real OPA, started as it is deployed, and checks its
answers.

guard.py sends requests with every path, method, spelling and credential (api_requests.py), and
reviews.py sends malformed AdmissionReviews (bodies.py). Their oracles are written from the
contract, not from the policies. decision.py and log.py compare short ways of policies with their
general rules. engines.py compares the answers of engines to batches of requests
(batches.py) about node pools (pool_requests.py), replicas (replica_requests.py), and
containers and labels (container_requests.py). agreement.py adds an API server to the engines, for
requests that it accepts (acceptable.py, completion.py). load.py tries to exhaust an OPA or a whole
cluster (sites.py) within the limits of the deployment (limits.py) by costly requests
(costly_requests.py), while others send ordinary ones (bystanders.py). search.py drives hypothesis
and keeps the smallest failing example, server.py runs the OPA, and client.py sends requests exactly
as they are spelt.
"""

ENGINES = ("opa", "python", "cel")
"""The engines that engines.py compares."""
