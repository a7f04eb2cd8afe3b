"""Schedules: what a seed makes of a stream's settings, its input, and the faults on the way.

settings.py   the configuration of the stream
steps.py      a step: when it happens, and its action
input.py      records to send
faults.py     actions on processes, volumes and clocks
topics.py     actions on topics, groups and brokers
routers.py    actions on routers, inputs and the controller of a growth
generate.py   a seed to a schedule
routed.py     a seed to a schedule with routers
shrink.py     a failing schedule to a minimal one
"""
