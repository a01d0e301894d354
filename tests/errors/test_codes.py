"""The index of error codes holds every code of the source, each with its class and one line."""

from __future__ import annotations

from tests.errors import error_codes

# What is given for a size, param or input: by the command line, by a caller, by a checkpoint.
SEVERAL_CLASSES = {"GLA0806"}


def test_the_index_is_what_the_source_raises():
    assert error_codes.PAGE.read_text() == error_codes.page(), "run: python -m tests.errors.error_codes"


def test_every_code_has_a_class_and_a_line():
    empty = {code: row for code, row in error_codes.lines_of_page().items() if not all(part.strip() for part in row)}
    assert empty == {}


def test_a_code_has_one_class():
    several = {code: use.classes for code, use in error_codes.uses().items() if len(use.classes) > 1}
    assert set(several) == SEVERAL_CLASSES


def test_a_code_stands_in_the_hundred_of_its_kind():
    hundreds = {"GlaSyntaxError": {"00"}, "ShapeError": {"03", "08"}, "AliasError": {"07"}, "CheckError": {"06"}, "GraphError": {"09"},
                "CaptureError": {"09"}, "OutOfMemoryError": {"05"}, "TraceError": {"02", "04"}, "GlaFileError": {"08"}}  # fmt: skip
    strangers = {
        code: given
        for code, use in error_codes.uses().items()
        for given in use.classes
        if code[3:5] not in hundreds.get(given, {code[3:5]})
    }
    assert strangers == {}
