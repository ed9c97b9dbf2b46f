"""A cluster of its own on loopback: the real control plane, simulated nodes, and a supervisor that owns them all."""
