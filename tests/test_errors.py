"""The tree of errors."""

from __future__ import annotations

import copy
import inspect
import pickle
import re

import pytest

from apl import errors
from apl.errors import APLError, MissingDependency

CLASSES = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, APLError)]
VALUES = {"command": "pip install x", "location": "kb.db", "found": 3, "expected": 4}


def make(error: type[APLError]) -> APLError:
    """An error of a class with every attribute it takes."""
    taken = inspect.signature(error.__init__).parameters
    return error("what is wrong", **{name: value for name, value in VALUES.items() if name in taken})


def drawn() -> dict[str, str]:
    """Child and parent of every class in the module docstring's drawing."""
    parents, path = {}, ["APLError"]
    for branch, name in re.findall(r"^ {4}((?:│ {3}| {4})*[├└]── )(\w+)", errors.__doc__ or "", re.MULTILINE):
        depth = len(branch) // 4
        path = [*path[:depth], name]
        parents[name] = path[depth - 1]
    return parents


def test_docstring_draws_the_tree_that_exists() -> None:
    """The drawing names every class, under its parent, and none that does not exist."""
    assert drawn() == {error.__name__: error.__bases__[0].__name__ for error in CLASSES if error is not APLError}


def test_every_drawn_line_says_what_it_is_for() -> None:
    """No class stands in the drawing, or in the code, without its claim."""
    lines = [line for line in (errors.__doc__ or "").splitlines() if "── " in line]
    assert len(lines) == len(CLASSES) - 1
    assert all(re.search(r"── \w+ {2,}\w", line) for line in lines)
    assert all(error.__doc__ for error in CLASSES)


@pytest.mark.parametrize("error", CLASSES)
def test_every_error_is_an_apl_error_with_its_message(error: type[APLError]) -> None:
    """Catching the root catches all; the text is the message and nothing else."""
    assert issubclass(error, APLError)
    assert str(make(error)) == "what is wrong"


@pytest.mark.parametrize("error", CLASSES)
def test_every_error_pickles_with_its_attributes(error: type[APLError]) -> None:
    """An error from a worker process arrives as it was raised."""
    raised = make(error)
    for twin in (pickle.loads(pickle.dumps(raised)), copy.copy(raised), copy.deepcopy(raised)):  # noqa: S301
        assert type(twin) is error
        assert (str(twin), twin.args, vars(twin)) == (str(raised), raised.args, vars(raised))


@pytest.mark.parametrize("error", CLASSES)
def test_attributes_are_optional(error: type[APLError]) -> None:
    """A message is enough; what was not given is None."""
    assert set(vars(error("x")).values()) <= {None}


def test_missing_dependency_is_an_import_error() -> None:
    """Code that guards an optional import catches it the usual way."""
    with pytest.raises(ImportError) as caught:
        raise MissingDependency("needs x: pip install x", command="pip install x")
    assert isinstance(caught.value, APLError)
