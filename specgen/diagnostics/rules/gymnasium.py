"""SG7xx: environments whose behaviour is Gymnasium's."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

UNKNOWN_ID = Rule(
    "SG701",
    "unknown Gymnasium environment",
    """
No environment with this id is registered with the installed Gymnasium. Ids have a version; the
environments of other packages are registered when those packages are imported, so name these in
`gymnasium-modules` of `[tool.specgen]`.

    envs:
      Pendulum:
        gymnasium: {id: Pendulm-v1}      # SG701

Write:

    envs:
      Pendulum:
        gymnasium: {id: Pendulum-v1}
""",
    without="`gymnasium.make` raises NameNotFound when the environment is first made, on the machine that "
    "trains.",
)

NOT_RECORDED = Rule(
    "SG702",
    "Gymnasium environment that is not recorded",
    """
The spaces of a Gymnasium environment are recorded once, in `gymnasium.lock.json` beside the schemas,
and committed: so a check needs no Gymnasium, and a changed space is noticed. There is no record
of this one yet.

Run `specgen build` where Gymnasium is installed, and commit the file.
""",
    without="Specs would be asked of whatever Gymnasium is installed: another version, another shape, "
    "another policy.",
)

NOT_INSTALLED = Rule(
    "SG703",
    "Gymnasium is needed to record an environment",
    """
`specgen build` has to ask Gymnasium for the spaces of an environment that is not recorded yet, and
Gymnasium, or a package that this environment needs, is not installed here.

    pip install "specgen-rl[gym]"

Some environments need more: `pip install "gymnasium[mujoco]"`, `"gymnasium[box2d]"`.
""",
    without="ModuleNotFoundError in the middle of a build, from somewhere inside Gymnasium.",
)

CANNOT_MAKE = Rule(
    "SG704",
    "Gymnasium environment that cannot be made",
    """
`gymnasium.make` failed for this id and these keyword arguments, or the id is not one that a schema may
name: an id with a colon (`module:Name-v0`) would import a module that the schema chooses.

    envs:
      Walker:
        gymnasium: {id: "walkers:Walker-v0"}      # SG704

Write, and list the module in the project's own configuration:

    envs:
      Walker:
        gymnasium: {id: Walker-v0}

    [tool.specgen]
    gymnasium-modules = ["walkers"]
""",
    without="The traceback of the environment's own constructor; an id with a colon imports a module of "
    "the schema's choice.",
)

UNSUPPORTED_SPACE = Rule(
    "SG705",
    "Gymnasium space without a spec",
    """
An observation or action space of this environment has no counterpart among the specs that can be
declared: `Sequence`, `Graph` and `OneOf` have no fixed shape, `Text` is no tensor, a `Tuple` of observations
has no keys, and a `Box` of `bool` has no bounds.

Wrap the environment in one with spaces of fixed shape, and register that, in a module which
`gymnasium-modules` of `[tool.specgen]` names:

    import gymnasium

    def blackjack():
        return gymnasium.wrappers.FlattenObservation(gymnasium.make("Blackjack-v1"))

    gymnasium.register("BlackjackFlat-v0", entry_point=blackjack)

Or use `GymEnv` of the runtime, which reads `Text`, `Tuple`, `Sequence` and `Dict` when it is constructed.
""",
    without="The observation is an object without a shape, and the first `torch.stack` raises.",
)

BROKEN_LOCK = Rule(
    "SG706",
    "record of Gymnasium environments that cannot be read",
    """
`gymnasium.lock.json` is written by `specgen build` and is not meant to be edited; it is not what a build
wrote (a merge conflict, perhaps).

Delete the file and run `specgen build` where Gymnasium is installed.
""",
    without="Half of a merge conflict is taken for spaces, and the specs are those of nobody's environment.",
)

UNUSABLE_KEY = Rule(
    "SG707",
    "key of Gymnasium's that can't be a name",
    """
The keys of a `Dict` observation become keys of the tensordict and fields of the generated records, so they
are Python names, and none of those that every environment has (`action`, `reward`, `done`, `terminated`,
`truncated`). Those of a `Dict` of actions stand below `action`, and are Python names, too.

Wrap the environment in one with other keys, and register that.
""",
    without="`reward` of a Dict observation writes over the environment's reward.",
)
