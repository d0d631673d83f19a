"""Transforms of every form, for random chains."""

from __future__ import annotations

OWN_NAMES = (
    "Smooth",
    "Change",
    "Final",
    "Peak",
    "Ends",
    "Square",
    "Above",
    "Push",
    "Frames",
    "Window",
    "Drop",
    "Rename",
    "Split",
    "Noise",
    "Jitter",
    "Toward",
    "Centred",
    "Joint",
    "Least",
    "LastAction",
    "Memory",
    "Pooled",
)
"""The transforms of `OWN`; `Since` needs the key of another."""

OWN = """\
specgen: 1
doc: Transforms of every form.

transforms:
  Smooth:
    doc: A carry that begins at its input.
    params: {rate: {default: 0.25, above: 0, max: 1}}
    in: {x: {each: [], type: "float[...]"}}
    out: {y: {each: x, name: "smooth_{}"}}
    carry: [y]
    reset: {y: x}
    step: {next.y: y + rate * (next.x - y)}
  Change:
    doc: Reads its input before the step.
    in: {x: {each: [], type: "float[...]"}}
    out: {y: {each: x, name: "change_{}"}}
    reset: {y: zeros_like(x)}
    step: {next.y: next.x - x}
  Final:
    doc: What stood there when an episode ended, by the done flag above it.
    in: {ends: {flag: done, of: x}, x: {each: [], type: "float[...]"}}
    out: {y: {each: x, name: "final_{}", type: like(x)}}
    carry: [y]
    reset: {y: zeros_like(y)}
    step: {next.y: "where(next.ends, next.x, y)"}
  Peak:
    doc: A carry of rewards, and a flag beside them.
    params: {enough: {type: float, optional: true}, ends: true}
    in: {reward: {each: env.reward, type: "float[...]"}}
    out:
      peak: {each: reward, name: "best_{}", type: like(reward)}
      truncated: {each: reward, name: truncated, type: "bool[...]", keyword: flag_key, when: given(enough)}
    carry: [peak]
    derive_done: ends
    reset: {peak: "full_like(peak, -100.0)"}
    step:
      gain: next.reward - peak
      next.peak: peak + max(gain, 0)
      next.truncated: next.truncated or next.reward >= enough
  Ends:
    doc: Two flags and a count, beside each done set.
    params: {after: {type: int, default: 9, min: 1}}
    in: {done: {each: env.done, type: "bool[...]"}}
    out:
      age: {each: done, type: "int32[...] in [0, 1000000]", name: age, keyword: age_key}
      terminated: {each: done, type: "bool[...]", name: terminated, keyword: over_key}
      truncated: {each: done, type: "bool[...]", name: truncated, keyword: late_key}
    carry: [age]
    reset: {age: zeros_like(age)}
    step:
      next.age: age + 1
      next.terminated: next.terminated or next.age >= 2 * after
      next.truncated: next.truncated or next.age >= after
  Square:
    doc: A map that neither rises nor falls.
    in: {x: {each: [], type: "float[...]"}}
    out: {y: {each: x, name: same}}
    map: {y: x * x - 0.5 * x}
  Above:
    doc: A map to truth values.
    params: {level: 0.0}
    in: {x: {each: [], type: "float[...]"}}
    out: {y: {each: x, name: "above_{}", type: "bool[...]"}}
    map: {y: x > level}
  Push:
    doc: An inverse of the actions.
    params: {gain: 1.0}
    in: {u: {each: env.action, type: "float[...]", inverse: true}}
    out: {v: {each: u, name: same, type: like(u)}}
    inverse: {u: "clip(gain * v, -1, 1)"}
  Frames:
    doc: A carry in the place of its input, of inferred type, along a new front axis; a choice by a word.
    params: {n: {type: int, min: 2, static: true}, padding: {type: "enum(first, none)", default: first, static: true}}
    in: {x: {each: [], type: "float[...]"}}
    out: {y: {each: x, name: same}}
    carry: [y]
    reset: {y: "tile(where(padding == first, x, zeros_like(x))[None], n, axis=0)"}
    step: {next.y: "concat(narrow(y, 1, axis=0), next.x[None], axis=0)"}
  Window:
    doc: A hidden carry, and a map of it.
    params: {n: {type: int, min: 2, static: true}}
    in: {x: {each: [], type: "float[...]"}}
    out: {kept: {each: x, hidden: true}, y: {each: x, name: same}}
    reset: {kept: "tile(x[None], n, axis=0)"}
    step: {next.kept: "concat(narrow(kept, 1, axis=0), next.x[None], axis=0)"}
    map: {y: "max(kept, axis=0)"}
  Drop:
    doc: Keys that go.
    in: {xs: {all: [], varargs: true}}
    drops: [xs]
  Rename:
    doc: An identity and a drop.
    params: {keep: {default: false, static: true}}
    in: {x: {each: [], type: "any[...]"}}
    out: {y: {each: x, name: same}}
    map: {y: x}
    drops: {x: not keep}
  Split:
    doc: Two outputs of one map, one of them under a condition.
    params: {least: {type: float, optional: true}}
    in: {x: {each: [], type: "float[...]"}}
    out:
      low: {each: x, name: "low_{}"}
      high: {each: x, name: "high_{}", when: given(least)}
    map: {low: "min(x, 0.0)", high: "max(x, least)"}
  Noise:
    doc: Draws at each reset and step, some by choice of Python, some for an output under a condition.
    params: {std: 0.25, walks: true, most: {type: int, min: 1, optional: true}}
    in: {x: {each: [], type: "float[...]"}}
    out:
      kept: {each: x, hidden: true}
      noisy: {each: x, name: "noisy_{}"}
      count: {each: x, name: "count_{}", type: "int64[...]", when: given(most)}
    carry: [kept]
    reset:
      least: randint(0, 3, like=x)
      kept: std * normal(0, 1, like=x)
      count: least + randint(1, most + 2, like=x)
      noisy: x + kept
    step:
      hit: bernoulli(0.25, like=next.x)
      push: where(walks, std * normal(0, 1, like=next.x), next.x)
      next.kept: where(hit, 0.5 * kept + push, kept)
      next.count: randint(1, most + 2, like=next.x)
      next.noisy: next.x + next.kept * uniform(0.5, 1.5, like=next.x)
  Jitter:
    doc: Noise on actions.
    params: {width: 0.5}
    in: {u: {each: env.action, type: "float[...]", inverse: true}}
    out: {v: {each: u, name: same, type: like(u)}}
    inverse: {u: "clip(v + uniform(-width, width, like=v), -1, 1)"}
  Toward:
    doc: A map, and a carry under a condition, of a key that may be missing.
    in: {x: {each: [], type: "float[...]"}, goal: {key: goal, type: "float[...x]", optional: true}}
    out: {error: {each: x, name: "error_{}"}, kept: {each: x, name: "kept_{}", type: like(x), when: given(goal)}}
    carry: [kept]
    reset: {kept: x}
    step: {next.kept: "where(next.goal > next.x, next.x, 0.5 * kept)"}
    map: {error: "where(given(goal), x - goal, 0.5 * x)"}
  Centred:
    doc: Statistics of one key, and a map of them and of one that may be missing.
    in: {x: {each: [], type: "float[...]"}, goal: {key: goal, type: "float[...x]", optional: true}}
    out: {y: {each: x, name: "centred_{}", type: like(x)}}
    buffers: {mean: {each: x, type: "float64[...]", init: 0.0}}
    update: {next.mean: 0.5 * mean + 0.5 * batch_mean(x)}
    map: {y: "where(given(goal), cast(goal - mean, x), cast(x - mean, x))"}
  Joint:
    doc: Keys that are read together, and statistics of them.
    in: {xs: {all: [], type: "float[...]"}}
    out: {y: {key: joint, keyword: joint_key}}
    buffers:
      count: {type: float64, init: 0.0}
      mean: {type: "like(float64(concat(*xs, axis=-1)))", init: 0.0}
    update:
      x: concat(*xs, axis=-1)
      next.count: count + batch_count()
      next.mean: mean + batch_sum(x - mean) / next.count
    map: {y: "concat(*xs, axis=-1) - mean"}
  Least:
    doc: The least of keys of one shape.
    in: {xs: {all: [], type: "float[...]"}}
    out: {y: {key: least, keyword: least_key}}
    map: {y: "min(*xs)"}
  LastAction:
    doc: Actions as the policy wrote them.
    in: {a: {each: env.action, type: "any[...]", written_by: policy}}
    out: {last: {each: a, name: "last_{}", type: like(a)}}
    reset: {last: zeros_like(last)}
    step: {next.last: a}
  Memory:
    doc: A state of the policy, before and after what this makes of it.
    out:
      memory: {key: memory, keyword: memory_key, type: "float32[2]", written_by: policy}
      moved: {key: moved, keyword: moved_key, type: "float32[2]"}
    carry: [moved]
    reset: {memory: "uniform(-1, 1, shape=(2,))", moved: "zeros((2,))"}
    step: {next.moved: moved + next.memory - memory}
  Pooled:
    doc: Several steps as one, with keys that may be missing.
    params: {count: {type: int, default: 2, min: 1, static: true}}
    in:
      x: {each: [], type: "float[...]"}
      goal: {key: goal, type: "float[...x]", optional: true}
      reward: {key: reward, type: "float[]", optional: true}
    out: {spans: {each: x, name: "spans_{}", type: like(x), when: given(goal)}}
    around:
      repeat: count
      until: "where(given(goal), next.goal > 3, false)"
      fold: {reward: acc.reward + next.reward, goal: "max(acc.goal, next.goal)"}
      collect: {spans: next.goal - 0.5 * x}
  Since:
    doc: A key beside each done flag, and what a map makes of it.
    in: {done: {each: env.done, type: "bool[...]"}, age: {key: age, beside: done, type: "int32[...done]"}}
    out: {young: {each: done, name: young, type: "bool[...]", keyword: young_key}}
    map: {young: age < 3}
"""
