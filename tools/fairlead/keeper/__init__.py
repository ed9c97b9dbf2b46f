"""Renews OPA's certificate and its authority before they end, in the cluster itself and for `fairlead rotate cert`."""
