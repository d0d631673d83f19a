"""What a fork server imports last: it hears Ctrl-C again, which waited while the server came up.

Ctrl-C in a terminal is for all of its processes. It is the process that asked for the server that says what it means; the
server would only print where it was interrupted.
"""

from __future__ import annotations

import signal

if signal.SIGINT in signal.pthread_sigmask(
    signal.SIG_BLOCK, ()
):  # nobody else imports this with Ctrl-C held back
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # forgets one that waits
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which its copies begin with
