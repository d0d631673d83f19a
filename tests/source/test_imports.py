"""Imports between schema files."""

import pytest

from specgen.diagnostics import Sink
from specgen.source import Imports, Mapping, declared, parse_yaml, resolve_imports


def resolve(files: dict[str, str], unreadable: tuple[str, ...] = ()) -> tuple[Imports, Sink]:
    sink = Sink()
    roots = {path: parse_yaml(path, text, sink) for path, text in files.items()}
    assert not sink.items
    return resolve_imports(
        {path: root for path, root in roots.items() if isinstance(root, Mapping)}, sink, unreadable
    ), sink


def found(sink: Sink) -> list[tuple[str, str, str | None]]:
    return [(str(item.span), f"{item.code} {item.message}", item.help) for item in sink.items]


CART = "envs:\n  Cart: {doc: a}\n"


@pytest.mark.parametrize("written", ["../envs/cart", "../envs/cart.yaml", "./../envs/cart"])
def test_names_of_an_imported_file_are_visible(written: str) -> None:
    imports, sink = resolve(
        {"s/envs/cart.yaml": CART, "s/chains/c.yaml": f"import: [{written}]\nchains: {{C: {{}}}}\n"}
    )
    assert not sink.items
    assert imports.order == ("s/envs/cart.yaml", "s/chains/c.yaml")
    assert imports.direct["s/chains/c.yaml"] == ("s/envs/cart.yaml",)
    seen = imports.visible["s/chains/c.yaml"]
    assert list(seen["envs"]) == ["Cart"]
    assert seen["envs"]["Cart"].file == "s/envs/cart.yaml"
    assert seen["envs"]["Cart"].key.span.line == 2
    assert seen["envs"]["Cart"].name == "Cart"
    assert not seen["chains"]
    assert not any(imports.visible["s/envs/cart.yaml"].values())


def test_other_suffixes_and_installed_libraries() -> None:
    files = {"s/a.yml": CART, "s/b.py (as YAML)": "x: 1\n", "std/t/sum.yaml": "transforms: {Sum: {doc: a}}\n"}
    imports, sink = resolve({**files, "s/c.yaml": "import: [a, std/t/sum]\nx: 1\n"})
    assert not sink.items
    assert imports.direct["s/c.yaml"] == ("s/a.yml", "std/t/sum.yaml")
    assert list(imports.visible["s/c.yaml"]["transforms"]) == ["Sum"]


def test_only_direct_imports_are_visible() -> None:
    imports, sink = resolve(
        {"a.yaml": CART, "b.yaml": "import: [a]\nx: 1\n", "c.yaml": "import: [b]\nx: 1\n"}
    )
    assert not sink.items
    assert not any(imports.visible["c.yaml"].values())
    assert imports.order == ("a.yaml", "b.yaml", "c.yaml")


def test_missing_files() -> None:
    _, sink = resolve(
        {"s/envs/cart.yaml": CART, "s/c.yaml": "import:\n  - envs/cartt\n  - cart\n  - zzz\nx: 1\n"}
    )
    assert found(sink) == [
        ("s/c.yaml:2:5", "SG032 no schema file `s/envs/cartt`", "did you mean 'envs/cart'?"),
        ("s/c.yaml:3:5", "SG032 no schema file `s/cart`", "did you mean 'envs/cart'?"),
        ("s/c.yaml:4:5", "SG032 no schema file `s/zzz`", None),
    ]


def test_misspelt_libraries() -> None:
    _, sink = resolve({"std/t/sum.yaml": CART, "s/c.yaml": "import: [std/t/sums]\nx: 1\n"})
    assert found(sink)[0][2] == "did you mean 'std/t/sum'?"


def test_unreadable_files_are_not_missing() -> None:
    imports, sink = resolve({"s/c.yaml": "import: [a]\nx: 1\n"}, ("s/a.yaml",))
    assert not sink.items
    assert imports.direct["s/c.yaml"] == ()


def test_cycles() -> None:
    imports, sink = resolve(
        {"a.yaml": "import: [b]\nx: 1\n", "b.yaml": "import: [c]\nx: 1\n", "c.yaml": "import: [a]\nx: 1\n"}
    )
    assert found(sink) == [
        (
            "c.yaml:1:10",
            "SG033 imports go in a circle: a.yaml -> b.yaml -> c.yaml -> a.yaml",
            "move what both need into a third file",
        )
    ]
    assert sorted(imports.order) == ["a.yaml", "b.yaml", "c.yaml"]
    _, sink = resolve({"a.yaml": f"import: [a]\n{CART}"})
    assert found(sink) == [
        ("a.yaml:1:10", "SG033 a file imports itself", "remove it: what a file declares, all of it may name")
    ]


def test_long_chains_of_imports() -> None:
    files = {f"f{i}.yaml": f"import: [f{i + 1}]\nx: 1\n" for i in range(2000)} | {"f2000.yaml": "x: 1\n"}
    imports, sink = resolve(files)
    assert not sink.items
    assert imports.order[0] == "f2000.yaml"


def test_clashes() -> None:
    files = {"a.yaml": CART, "b.yaml": "chains: {Cart: {}}\n"}
    _, sink = resolve({**files, "c.yaml": f"import: [a]\n{CART}"})
    assert found(sink)[0][:2] == (
        "c.yaml:3:3",
        "SG034 'Cart' is declared here and in the imported file `a.yaml`",
    )
    assert sink.items[0].notes[0].span is not None
    _, sink = resolve({**files, "c.yaml": "import: [a, b]\nx: 1\n"})
    assert found(sink)[0][:2] == ("c.yaml:1:13", "SG034 `a.yaml` and `b.yaml` both declare 'Cart'")


@pytest.mark.parametrize(
    ("written", "help"),
    [
        ("envs/cart", "write import: [envs/cart]"),
        ("{a: 1}", None),
        ("[3]", None),
        ("[/etc/passwd]", "write etc/passwd"),
        ("['a\\b']", "write a/b"),
        ("[[a]]", None),
        ("[cart, cart.yaml]", "keep one of them"),
    ],
)
def test_wrong_forms(written: str, help: str | None) -> None:
    _, sink = resolve({"cart.yaml": CART, "a.yaml": f"import: {written}\nx: 1\n"})
    assert [(item.code, item.help) for item in sink.items] == [("SG031", help)]


def test_declared() -> None:
    root = parse_yaml("a.yaml", "consts: {g: {}}\nenvs: {A: {}, B: {}}\nlosses: 3\n", Sink())
    assert root is not None
    assert [(item.section, item.name) for item in declared("a.yaml", root)] == [
        ("consts", "g"),
        ("envs", "A"),
        ("envs", "B"),
    ]
