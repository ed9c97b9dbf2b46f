"""Decides about the requests of one cluster without changing it, for `fairlead eval`, `audit` and
`diff`."""
