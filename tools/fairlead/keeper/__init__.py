"""Renews OPA's certificate and CA before they expire: in the cluster itself, and for `fairlead
rotate cert`."""
