"""The kinds of Fairlead's own objects by which people say what is to be in force.

Standard library only: the sidecar reads them.
"""

from __future__ import annotations

GROUP = "policy.fairlead.dev"
"""Their API group, which is also that of the parameters of admission policies."""
FAIRLEADS = ("fairleads", "Fairlead", "v1")
"""The resource, kind and version of the settings, of which there is one object."""
NAME = "fairlead"
"""The name of that object."""
PINNED = "fairlead.dev/pinned"
"""The annotation of that object with the revision that is in force in place of what the objects
say."""
ROTATE = "fairlead.dev/rotate"
"""The annotation of that object with the request of a rotation: what to rotate, and a word that
tells one request from another."""
POLICIES = ("policies", "Policy", "v1")
"""The resource, kind and version of a policy."""
EXCEPTIONS = ("policyexceptions", "PolicyException", "v1")
"""The resource, kind and version of an exception."""
VERSION = f"{GROUP}/{POLICIES[2]}"
"""The apiVersion of all of them."""
LONGEST_REGO = 200_000
"""The most characters of the Rego of one module. OPA lists the rules of such a text within
seconds."""
