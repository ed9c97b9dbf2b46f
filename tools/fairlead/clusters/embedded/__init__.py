"""A cluster on loopback: a real control plane, simulated nodes, and a supervisor that owns
all processes."""
