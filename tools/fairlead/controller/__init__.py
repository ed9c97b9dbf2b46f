"""`fairlead controller`: brings settings and policies that are objects into force, renews OPA's
certificate, enables intents in time, and gives access that ends.

process.py runs these parts. lifecycle.py follows the objects, which objects_watch.py watches,
changes the cluster as inside.py reaches it, and writes what statuses.py and decided.py make of it.
reviews.py answers API servers before an object is stored. restoring.py puts back what is deleted,
rotations.py rotates what somebody asks for, and exception_statuses.py says which exceptions hold.
"""
