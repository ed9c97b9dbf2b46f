"""Where OPA's data are that Fairlead's policies read, and that only data bring: no policy of a user
may define anything there.

Standard library only: the sidecar uses it.
"""

from __future__ import annotations

ROOTS = ("inventory", "placement")
"""The documents that files and OPA's API bring."""
PLACEMENT = ("fairlead", "placement")
"""The path of the ConfigMap with the data of placement, by its namespace and name. It counts if
there is no data.placement (policies/lib/workload_placement/basics.rego)."""
