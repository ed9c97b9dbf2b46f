"""Commands about workloads on several clusters: where they run, and what would move them."""
