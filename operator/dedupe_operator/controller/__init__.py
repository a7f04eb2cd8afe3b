"""Reconcile streams: queue, observe, decide, apply, write status."""
