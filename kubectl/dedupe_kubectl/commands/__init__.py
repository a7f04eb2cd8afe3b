"""The commands of `kubectl dedupe`, a module each."""
