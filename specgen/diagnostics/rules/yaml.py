"""SG00x to SG03x: YAML files and the imports between them."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

NUMBER_SPELLING = Rule(
    "SG001",
    "number that YAML reads as text",
    """
YAML programs do not agree on numbers such as `1e-4`: many read them as the text "1e-4", because
there is no dot, and the wrong type then travels through the program. specgen asks for the spelling
that all of them read as the same number. (Inside an expression, `1e-4 * x` is fine.)

    lr: 1e-4          # SG001
    size: 1_000       # SG001

Write:

    lr: 1.0e-4
    size: 1000
""",
    without='PyYAML loads `lr: 1e-4` as the text "1e-4", which travels until an optimizer compares a '
    "string with 0.",
)

WRONG_VALUE = Rule(
    "SG002",
    "value of the wrong type",
    """
A number, an integer, a yes/no value or a text was expected and another kind of value is there.
Quotes make a text of anything; `yes`, `no`, `on` and `off` are texts in YAML 1.2.

    min: "0.5"        # SG002: a text
    static: yes       # SG002: a text

Write:

    min: 0.5
    static: true
""",
    without='`"0.5"` or `yes` stays a text: arithmetic fails far from the file, and `if params.flag` takes '
    '"no" for true.',
)

TAB = Rule(
    "SG003",
    "tab in indentation",
    """
YAML allows only spaces for indentation: how far a tab indents depends on who looks.

    transforms:
    <TAB>RewardSum: {}      # SG003

Indent with spaces; most editors do so for `.yaml` files when told once.
""",
    without="PyYAML stops at the first tab and says that a character cannot start a token, without a word "
    "of indentation.",
)

SYNTAX = Rule(
    "SG004",
    "not valid YAML",
    """
The file cannot be read as YAML at this place. The usual causes: a bracket or a quote that is not
closed, two entries of one mapping that do not start in the same column, or a `: ` inside a text
without quotes.

    doc: Pendulum: swing it up       # SG004

Write:

    doc: "Pendulum: swing it up"
""",
    without="The reader stops at the first slip with its own vocabulary, or takes the rest of the file for "
    "one long text.",
)

ALIAS = Rule(
    "SG005",
    "anchor, alias or merge key",
    """
Anchors (`&name`), aliases (`*name`) and merge keys (`<<`) copy one part of a file into another
place. They hide where a value was declared, and a few lines of them can grow to gigabytes. One
definition belongs in one place, with a name: a `spec`, a `const`, an `import`.

    first: &obs float32[3]
    second: *obs                # SG005

Write:

    specs:
      obs: float32[3]

A text that really starts with `*` or `&` needs quotes.
""",
    without="The reader does not see what an alias brings in, and nine lines of nested ones are gigabytes "
    "to whatever walks them.",
)

DUPLICATE_KEY = Rule(
    "SG006",
    "key given twice",
    """
A mapping has the same key twice. Many YAML programs silently keep the last one, so that the first
declaration is ignored.

    state:
      th: float32
      th: float64     # SG006

Keep one of them.
""",
    without="PyYAML keeps the last of two equal keys in silence: the first declaration is gone.",
)

NULL = Rule(
    "SG007",
    "key without a value",
    """
YAML reads an empty value (also `~` and `null`) as null, which means nothing in a declaration; it is
mostly a slip: a value forgotten, indented too little, or cut off by ` #`. So is `None`, which YAML takes for a text.

    reset:
      th:             # SG007

Write the value, or `{}` for an empty mapping and `[]` for an empty list. What is not there is left out: a field that may be
None, such as `clip_value`, is None where nothing says it.
""",
    without="The value is `None`, and the first thing that uses it raises a TypeError about NoneType.",
)

FLOW_TEXT = Rule(
    "SG008",
    "unquoted expression inside { } or [ ]",
    """
Inside `{...}` and `[...]` a comma ends a value and a bracket starts a new list, so an expression or a
type without quotes falls apart: `{loss: min(a, b)}` is, for YAML, the two entries `loss: min(a` and
`b): null`.

    terms: {loss: min(a, b)}          # SG008
    state: {x: float32[3]}            # SG008

Put quotes around it, or write one entry a line:

    terms: {loss: "min(a, b)"}
    state:
      x: float32[3]

So does a number whose digits are grouped by commas, `{frames: 100,000}`: write `100_000`.
""",
    without="YAML reads `{loss: min(a, b)}` as two entries, `loss: min(a` and `b): null`, and reports "
    "nothing.",
)

COMMENT_CUTS = Rule(
    "SG009",
    "comment inside an expression",
    """
In YAML a space and `#` start a comment, also in the middle of a value without quotes. What stands
before it is not a complete expression, so the comment cut it off.

    step:
      u: clip(action[0],     # the torque
        -2, 2)               # SG009

Move the comment to a line of its own above the entry, or behind the end of the expression.
""",
    without="YAML drops what stands behind ` #`: `x + # more` arrives as `x +`, and `clip(a, # …` as half "
    "a call.",
)

DOCUMENTS = Rule(
    "SG010",
    "several documents in one file",
    """
`---` starts a second YAML document. One file declares one module; what stands in a second document
would be ignored by some programs.

    specgen: 1
    ---
    specgen: 1        # SG010

Put each into a file of its own.
""",
    without="`yaml.safe_load` raises, other readers take the first document only, and what stands in the "
    "second is never built.",
)

ROOT = Rule(
    "SG011",
    "file is not a mapping",
    """
A schema file is a mapping: `key: value` entries at its left edge. This one is empty, a list or a
plain text.

    - Pendulum        # SG011

Write:

    specgen: 1
    envs:
      Pendulum: ...
""",
    without='The first `data["envs"]` raises TypeError: list indices must be integers.',
)

CHARACTER = Rule(
    "SG012",
    "character that is not allowed",
    """
Control characters, unusual line breaks and characters that turn the reading direction make a file
look different from what it says: two reviewers can read two different expressions. They are not
allowed, written directly or as escapes in a quoted text.

    doc: "before\\0after"     # SG012

Remove the character. Tabs inside a line and newlines are allowed.
""",
    without="Two people who look at one file see two expressions: a character that turns the reading "
    "direction hides a sign.",
)

ENCODING = Rule(
    "SG013",
    "file is not UTF-8",
    """
Schema files are UTF-8. At this place stands a byte sequence that UTF-8 does not have; the file was
probably saved in another encoding, or is not a text.

Save the file as UTF-8 (editors call it "UTF-8 without BOM"; a BOM is accepted).
""",
    without="The reader raises UnicodeDecodeError with a byte offset, or shows other characters than were "
    "written.",
)

TOO_DEEP = Rule(
    "SG014",
    "nested too deeply",
    """
Values are nested deeper than any declaration needs. Mostly brackets were opened and never closed;
it is also how files are made that exhaust a reader's memory.

    low: [[[[[[[[[[ ...      # SG014, a hundred deep
""",
    without="The reader recurses until Python raises RecursionError, or the process dies.",
)

KEY = Rule(
    "SG015",
    "key that is not a text",
    """
The key of a mapping is a name. YAML also allows lists and mappings as keys (`? [a, b]`), which no
declaration uses.

    {{n}: 3}          # SG015

Write:

    {n: 3}
""",
    without="The key becomes a tuple or a dict, or the reader raises that it is unhashable.",
)

IMPORT_FORM = Rule(
    "SG031",
    "import is not a list of paths",
    """
`import` is a list of paths of schema files, relative to the file that imports, with or without
`.yaml`; forward slashes on every system, and inside the folder of schemas.

    import: envs/pendulum                 # SG031

Write:

    import: [../envs/pendulum]
""",
    without="A text is iterated letter by letter, and the first letter is looked for as a file.",
)

IMPORT_MISSING = Rule(
    "SG032",
    "imported file does not exist",
    """
There is no schema file at the path that is imported. Paths start at the folder of the file that
imports.

    import: [../envs/pendulm]             # SG032

Write:

    import: [../envs/pendulum]
""",
    without="The names of the file are undefined wherever they are used: many errors, none of which names "
    "the path.",
)

IMPORT_CYCLE = Rule(
    "SG033",
    "files import each other",
    """
A file imports itself, directly or through others. The generated modules would import each other in a
circle, which Python cannot do.

    # a.yaml
    import: [b]
    # b.yaml
    import: [a]       # SG033

Move what both need into a third file. A file that imports itself can leave that out: all of it may name what it declares.
""",
    without="Python raises ImportError: cannot import name … from partially initialized module.",
)

IMPORT_CLASH = Rule(
    "SG034",
    "name declared twice",
    """
An imported file declares a name that this file, or another one it imports, declares too. No
declaration shadows another: a reader could not tell which is meant.

    import: [envs/pendulum]     # declares Pendulum
    envs:
      Pendulum: ...             # SG034

Rename one of them.
""",
    without="The later of two equal names wins, by the order of imports; a reader looks at the wrong one.",
)
