"""Settings of the unit tests."""

from hypothesis import settings

# How long an example takes is the machine's affair.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
