"""What keeps the plugin from an answer. Each message is one line that says what to do."""


class PluginError(Exception):
    """Something a user can mend."""


class NoAccess(PluginError):
    """No cluster to ask, or one that does not answer."""


class Forbidden(PluginError):
    """The API server knows the user, and does not allow this."""


class WorkerRefused(PluginError):
    """A worker does not do what it was asked; the message is its own."""


class NotFound(PluginError):
    """What was asked for does not exist."""


class TimedOut(PluginError):
    """What was waited for did not come."""
