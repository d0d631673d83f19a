"""Read by each Python that tests start, as it begins: garbage is looked for less often, and not once more at the end.

A process that imports torch and tensordict makes a million objects that stay. Going through them again and again was
1.1 of its 2.9 processor seconds.
"""

import atexit
import gc

gc.set_threshold(50_000, 10, 20)
atexit.register(gc.freeze)  # the last to be called: those that are registered later are called before it
