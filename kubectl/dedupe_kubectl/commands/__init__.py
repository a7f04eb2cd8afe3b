"""The commands of `kubectl dedupe`: their options and their work."""
