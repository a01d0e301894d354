"""gla/__init__.pyi says what the package has."""

import ast

import gla
from tests import stub


def test_the_stub_is_current():
    assert stub.PATH.read_text() == stub.text(), "run: python -m tests.stub"


def test_the_stub_names_everything_public():
    names = set()
    for node in ast.parse(stub.PATH.read_text()).body:
        if isinstance(node, ast.ImportFrom):
            names.update(a.asname or a.name for a in node.names)
        elif isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.AnnAssign):
            names.add(node.target.id)
    assert set(gla.__all__) <= names
