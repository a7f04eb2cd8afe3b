"""The kubectl plugin: show and manage DedupeStreams."""
