"""Workers and commands that are killed at a chosen step, and checks after it.

`steps` and `inner_crashes` name the moments; the modules run as `python -m` put them into a real worker.
"""
