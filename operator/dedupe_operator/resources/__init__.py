"""What a stream consists of: one pure builder for each kind of child object.

A builder returns the fields the operator owns, for server-side apply, and nothing else: fields that
other controllers set stay theirs.
"""
