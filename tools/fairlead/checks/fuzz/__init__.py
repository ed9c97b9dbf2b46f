"""Fuzzing: sends odd and hostile requests to a real OPA, started as it is deployed, and checks its
answers.

guard.py sends requests with every path, method, spelling and credential (spellings.py), and
reviews.py sends malformed AdmissionReviews (bodies.py). Their oracles are written from the
contract, not from the policies. load.py attacks the memory and time (attacks.py) of an OPA or a
whole cluster (sites.py) with the limits of the deployment (limits.py), while others send ordinary
requests (bystanders.py). search.py drives hypothesis and keeps the smallest failing example,
server.py runs the OPA, and client.py sends requests exactly as they are spelt.
"""
