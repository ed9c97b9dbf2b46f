"""Chaos: breaks every component at random under load, and checks every pod that is created
meanwhile.

schedule.py plans the faults from a seed, and faults.py carries them out. Meanwhile load.py creates
pods, access.py grants access, and changes.py pushes policies and rotates credentials. invariants.py
checks the recorded attempts, report.py summarises them, and run.py combines all of it.
"""
