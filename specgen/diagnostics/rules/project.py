"""SG05x and SG06x: configuration, files and folders of a project."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

CONFIG_KEY = Rule(
    "SG051",
    "unknown configuration key",
    """
`[tool.specgen]` in `pyproject.toml` has a key that specgen does not know; it would change nothing.

    [tool.specgen]
    schema = "schemas"        # SG051

Write:

    [tool.specgen]
    schemas = "schemas"       # the folder of schema files
    output = "src/my_envs"    # the folder of the generated package
    package = "my_envs"       # the name it is imported by
    exclude = ["drafts/*"]    # optional: schema files to leave out
    gymnasium-modules = []    # optional: modules that register Gymnasium environments
""",
    without="The setting has no effect: files go to the default folder, and the old ones stay.",
)

CONFIG_VALUE = Rule(
    "SG052",
    "configuration value that cannot be used",
    """
A value in `[tool.specgen]` is missing, of the wrong type, or names a folder that cannot be used: paths
are relative to the folder of `pyproject.toml` and inside it, `schemas` and `output` are two folders that do
not contain each other, `package` is a dotted Python name.

    [tool.specgen]
    schemas = "."             # SG052: every Python file of the project would be read as a schema

Write:

    [tool.specgen]
    schemas = "schemas"
""",
    without="Generated files are written outside of the project or over its schemas, or the first `open` "
    "raises.",
)

SAME_OUTPUT = Rule(
    "SG054",
    "two schema files for one module",
    """
Each schema file becomes one Python module of the same name. Two files differ only in their suffix (or
one has the name of a folder beside it), so both would be written to the same place. Names that differ only in
upper and lower case are one name for many file systems, and one of the two modules would be lost there.

    schemas/pendulum.yaml
    schemas/pendulum.py       # SG054

Rename one of them.
""",
    without="One generated module overwrites the other, and which one depends on the order of the folder.",
)

PYTHON_SCHEMA = Rule(
    "SG057",
    "Python schema file that declares nothing",
    """
A `.py` file in the folder of schemas is run by `specgen build` and must define `schema`, a
`specgen.Module`. It could not be run, or defines something else.

    pendulum = Module(...)    # SG057: nothing named `schema`

Write:

    schema = Module(...)

Helpers that are no schema have names that start with an underscore.
""",
    without="The file is run and nothing of it is built; the module that others import is missing.",
)

MODULE_NAME = Rule(
    "SG058",
    "file name that is no Python module name",
    """
The name of a schema file, and of each folder above it, becomes part of the name of a Python module:
letters, digits and `_`, not starting with a digit, no keyword of Python, at most 100 characters.

    schemas/half-cheetah.yaml      # SG058

Write:

    schemas/half_cheetah.yaml
""",
    without="The generated file exists and `import my_rl.half-cheetah` is a syntax error.",
)

UNREADABLE = Rule(
    "SG059",
    "file that cannot be read",
    """
The operating system refuses to open a schema file, or the file is larger than any declaration is. Mostly a matter
of permissions or of a broken link.
""",
    without="A traceback of PermissionError, after some files were read and before others were.",
)

PACKAGE_FOLDER = Rule(
    "SG065",
    "package that does not match its folder",
    """
`output` is the folder of the generated package, `package` the name that it is imported by. Python finds a
package by its folder, so the path has to end with the name: `src/my_rl/gen` is imported as `my_rl.gen`.

    [tool.specgen]
    output = "src/my_rl/gen"
    package = "my_rl"              # SG065: this is the folder `src/my_rl`

Write one of:

    package = "my_rl.gen"

    output = "src/my_rl"
""",
    without="generated modules that import each other, and every `import` of the package, would raise "
    "ModuleNotFoundError.",
)
