"""On which clusters workloads run, what would change that, and how engines carry it out."""
