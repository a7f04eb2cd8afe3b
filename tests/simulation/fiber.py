"""A thread that runs only while it is resumed, and pauses itself: a coroutine for code that knows nothing of it.

Invariant: of all fibers and the one thread that resumes them, exactly one runs at a time. So nothing that they share
needs a lock, and the order of everything is that of the resumes.
"""

from collections.abc import Callable
from threading import Semaphore, Thread


class Fiber:
    """Runs `target` step by step. `error` is what it raised, once it has `ended`."""

    def __init__(self, name: str, target: Callable[[], None]) -> None:
        self._target = target
        self._go = Semaphore(0)
        self._back = Semaphore(0)
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self.ended = False
        self.error: BaseException | None = None

    @property
    def started(self) -> bool:
        """Return whether it was resumed at least once."""
        return self._thread.ident is not None

    def resume(self) -> None:
        """Run it until it pauses or ends."""
        if self.ended:
            return
        if not self.started:
            self._thread.start()
        else:
            self._go.release()
        self._back.acquire()
        if self.ended:
            self._thread.join()

    def pause(self) -> None:
        """Let the others run until it is resumed; only its own code calls this."""
        self._back.release()
        self._go.acquire()

    def _run(self) -> None:
        try:
            self._target()
        except BaseException as error:  # noqa: BLE001 (a kill is one; whoever resumed it looks at it)
            self.error = error
        finally:
            self.ended = True
            self._back.release()
