"""Mutants of the worker, to prove that random schedules find what they break.

Each mutant takes back a mend, or breaks an invariant that a module's docstring names. See __main__.py.
"""
