"""Classes of values are dataclasses: made, compared, hashed, shown, copied and pickled as Python's are."""

from __future__ import annotations

import dataclasses
import pickle
from dataclasses import field

import pytest

from specgen.values import dataclass, replace


@dataclass(frozen=True)
class Point:
    x: float
    y: float = 0.0
    label: str = field(default="", compare=False)
    hidden: list[int] = field(default_factory=list, compare=False, repr=False)


@dataclasses.dataclass(frozen=True)
class PythonPoint:
    x: float
    y: float = 0.0
    label: str = field(default="", compare=False)
    hidden: list[int] = field(default_factory=list, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Named(Point):
    name: str


@dataclass
class Counter:
    count: int = 0


@dataclass(frozen=True)
class Nothing:
    pass


@dataclass(frozen=True)
class Terse:
    x: int

    def __repr__(self) -> str:
        return f"<{self.x}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Terse)

    def __hash__(self) -> int:
        return 7


@dataclass(frozen=True, slots=True)
class Measured:
    text: str
    unit: str = "m"
    size: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", len(self.text))


NAN = float("nan")


@pytest.mark.parametrize(
    ("a", "b"),
    [((1, 2), (1, 2)), ((1, 2), (2, 1)), ((1, 2, "a"), (1, 2, "b")), ((NAN,), (NAN,)), ((1,), (1.0,))],
)
def test_values_are_equal_and_have_hashes_as_those_of_python(
    a: tuple[object, ...], b: tuple[object, ...]
) -> None:
    equal = PythonPoint(*a) == PythonPoint(*b)  # type: ignore[arg-type]
    assert (Point(*a) == Point(*b)) is equal  # type: ignore[arg-type]
    assert (hash(Point(*a)) == hash(Point(*b))) is equal  # type: ignore[arg-type]


def test_values_are_shown_as_those_of_python() -> None:
    assert repr(Point(1, label="a")) == repr(PythonPoint(1, label="a")).replace("PythonPoint", "Point")
    assert repr(Terse(1)) == "<1>"
    assert repr(Nothing()) == "Nothing()"


def test_methods_that_a_class_has_stay() -> None:
    assert (Terse(1), hash(Terse(1))) == (Terse(2), 7)


def test_values_of_other_classes_are_others() -> None:
    assert Point(1) != PythonPoint(1)
    assert Point(1) != Named(x=1, name="a")
    assert Named(x=1, name="a") != Named(x=1, name="b")
    assert Nothing() == Nothing()
    assert {Nothing(): 1, Point(1): 2}[Nothing()] == 1


def test_values_are_replaced_and_pickled() -> None:
    point = replace(Point(1, hidden=[3]), y=2)
    assert (point, point.hidden) == (Point(1, 2), [3])
    for value in (point, Named(x=1, name="a"), Counter(3)):
        assert pickle.loads(pickle.dumps(value)) == value


def test_what_can_change_has_no_hash() -> None:
    assert Counter(1) == Counter(1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(Counter())


def test_fields_by_name_only_and_slots() -> None:
    with pytest.raises(TypeError, match="positional"):
        Named(1, 2, "", [], "a")  # type: ignore[misc]

    @dataclass(frozen=True, slots=True)
    class Slim:
        x: int

    assert not hasattr(Slim(1), "__dict__")


def test_fields_can_be_matched() -> None:
    match Point(1, 2):
        case Point(x, y):
            assert (x, y) == (1, 2)


@pytest.mark.parametrize(
    ("value", "changes"),
    [
        (Point(1.0, 2.0, "a", [3]), {"y": 4.0}),
        (Point(1.0, 2.0, "a", [3]), {"label": "b", "x": NAN}),
        (Named(1.0, name="n"), {"name": "m"}),
        (Counter(3), {"count": 4}),
        (Measured("abc"), {"text": "four"}),
        (Nothing(), {}),
    ],
)
def test_fields_are_replaced_as_python_replaces_them(value: object, changes: dict[str, object]) -> None:
    made, expected = replace(value, **changes), dataclasses.replace(value, **changes)  # type: ignore[type-var]
    assert type(made) is type(expected)
    assert repr(made) == repr(expected)
    assert made is not value


def test_only_fields_can_be_replaced() -> None:
    for wrong in ({"z": 1.0}, {"size": 1}):
        with pytest.raises((TypeError, KeyError, ValueError)):
            replace(Measured("abc"), **wrong)
