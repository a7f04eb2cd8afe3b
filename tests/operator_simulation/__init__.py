"""The real reconciler on a simulated cluster, with faults at any read or write: see __main__.py."""
