"""Fuzzing: sends odd and hostile requests to a real OPA, started as it is deployed, and checks its
answers.

`make fuzz ARGS=guard` runs guard.py, and so on. Each of these has a module that generates what it
sends:

- guard.py: requests with every path, method, spelling and credential (guard_requests.py).
- reviews.py: malformed AdmissionReviews (review_bodies.py). The oracles of both are written from
  the contract, not from the policies.
- engines.py compares the answers of engines to batches of requests (engine_batches.py) about node
  pools (engine_pool_requests.py), replicas (engine_replica_requests.py), and containers and labels
  (engine_container_requests.py). agreement.py adds an API server to the engines, for requests that
  it accepts (acceptable.py, completion.py).
- load.py tries to exhaust an OPA or a whole cluster (sites.py) within the limits of the deployment
  (limits.py) by costly requests (load_requests.py), while others send ordinary ones
  (bystanders.py).

search.py drives hypothesis and keeps the smallest failing example, server.py runs the OPA, and
client.py sends requests exactly as they are spelt.
"""

ENGINES = ("opa", "python", "cel")
"""The engines that engines.py compares."""
