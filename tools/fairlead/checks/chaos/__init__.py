"""Chaos: breaks every component at random under load, and checks every pod that is created
meanwhile.

schedule.py says what breaks when (by a seed), faults.py does it, load.py creates pods meanwhile,
changes.py pushes and rotates, invariants.py judges what was seen, report.py counts it, and run.py
brings them together.
"""
