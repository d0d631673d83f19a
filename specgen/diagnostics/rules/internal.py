"""SG99x: faults of specgen itself."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

INTERNAL = Rule(
    "SG991",
    "internal error",
    """\
Something went wrong inside specgen while it worked on this file. Whatever the schema says, that is a fault of specgen:
a mistake in a schema has a message of its own. Nothing was written, and the exit code is 4.

To see where it happened, ask for the traceback, and report both:

    specgen --traceback check         # or SPECGEN_TRACEBACK=1

Until it is mended, leave out what was changed last:

    specgen check                     # says SG991 no more
""",
    without="the command ends in a traceback of specgen's own code, which does not name the schema file.",
)
