"""Fuzzing: sends odd and hostile requests to a real OPA, started as it is deployed, and checks its
answers.

guard.py asks its API by every path, method, spelling and credential (spellings.py), reviews.py
sends AdmissionReviews gone wrong (bodies.py); their oracles are written from the contract, not from
the policies. load.py takes memory and time (attacks.py) from an OPA or a whole cluster (sites.py)
within the limits of the deployment (limits.py) while others ask for nothing odd (bystanders.py).
search.py drives hypothesis and keeps the smallest failing example, server.py runs the OPA,
client.py sends requests just as they are spelt.
"""
