"""SG37x: networks of transforms; SG348: classes behind them."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

NETWORK_DECLARED = Rule(
    "SG371",
    "network whose rows are not known",
    """\
A network of a transform is called on rows, whatever batch dimensions a tensor has in front of them. So each role, or
output of an inverse one, that it reads names the dimensions of one row, and the network says what it gives for one. A
name that no role has is a size that only the network knows. What is computed of it has a declared type.

```yaml
in: {image: {key: pixels, type: "float32[...]"}}
networks: {encoder: {in: [image], out: "float32[...]"}}
out: {feature: {key: feature}}
```

```yaml
in: {image: {key: pixels, type: "float32[3, H, W]"}}
networks: {encoder: {in: [image], out: "float32[64]"}}
out: {feature: {key: feature, type: "float32[64]"}}
```
""",
    without="a convolution gets images of several environments and times as if they were channels.",
)

NETWORK_CALLED = Rule(
    "SG372",
    "network called with something else",
    """\
A network is called with what it reads, as `in` lists it.

```yaml
in: {x: {key: observation, type: "float32[n]"}}
networks: {encoder: {in: [x], out: "float32[64]"}}
map: {feature: encoder(sum(x))}
```

```yaml
map: {feature: encoder(2 * x)}
```
""",
    without="torch raises at the first step, or the network broadcasts its input.",
)

SAME_KEYWORD = Rule(
    "SG373",
    "two networks of a chain under one keyword",
    """\
The networks of the transforms of a chain are keywords of its constructor, under the names that the transforms give
them. The chain can give others.

```yaml
transforms: [{Encoder: {in_keys: [image]}}, {Encoder: {in_keys: [depth]}}]
```

```yaml
transforms: [{Encoder: {in_keys: [image]}}, {Encoder: {in_keys: [depth], encoder: depth_encoder}}]
```
""",
    without="one network works for both, and the other is never used.",
)

PYTHON_PHASES = Rule(
    "SG348",
    "phases of a Python class",
    """\
`python:` names a class that says what happens in place of statements, and `phases` its methods: `map`, for what depends
on nothing but the same moment, or `reset` and `step`; and `inverse`, for what the environment is given. Where all that the
class writes is left to the policy, `reset` alone begins it. `offline` alone is given whole episodes of recorded data, and
`offline: {reads: [next.reward]}` says which entries.

```yaml
python: mypackage.embed:Embedder
phases: [step]
```

```yaml
python: mypackage.embed:Embedder
phases: [reset, step]
```
""",
    without="a method is never called, or AttributeError at the first step.",
)
