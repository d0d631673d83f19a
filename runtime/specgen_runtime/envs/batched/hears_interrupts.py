"""What a fork server imports last: it hears Ctrl-C again, which waited while the server came up.

Ctrl-C in a terminal is for all of its processes. It is the process that asked for the server that says what it means; the
server would only print where it was interrupted.
"""

from __future__ import annotations

import signal

_held_back = signal.pthread_sigmask(signal.SIG_BLOCK, ())
if signal.SIGINT in _held_back:  # nobody else imports this with Ctrl-C held back
    _before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # forgets one that waits
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    signal.signal(signal.SIGINT, _before)  # also where the program ignores Ctrl-C
