"""A cluster on loopback: the real control plane, simulated nodes, and a supervisor that owns all
processes."""
