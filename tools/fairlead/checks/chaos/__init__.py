"""Chaos: everything that can break breaks at random under load, and what must hold is checked on every pod.

schedule.py says what breaks when (by a seed), faults.py does it, load.py creates pods meanwhile, changes.py pushes and
rotates, invariants.py judges what was seen, report.py counts it, and run.py brings them together.
"""
