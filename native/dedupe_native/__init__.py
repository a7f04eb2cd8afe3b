"""An experimental data path of the worker, off by default: docs/decisions/0050.

Reader and output of the loop, without a Python object for each record: the extension `_native` does the work.
"""
