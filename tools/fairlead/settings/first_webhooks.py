"""The names of webhooks in versions that had one intent only."""

FIRST_WEBHOOKS = frozenset(
    {
        "final-state",
        "workloads",
        "daemonsets",
        "opted-out-daemonsets",
        "unlabelled-daemonsets",
        "namespaces",
    }
)
"""The webhooks of node-pool, without the domain. Nothing else may have these names."""
