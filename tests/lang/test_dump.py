"""The dump of a tree: what `gla ir --stage ast` prints."""

from __future__ import annotations

from gla.lang.dump import dump
from gla.lang.parser import parse


def test_a_dump_shows_classes_attributes_and_children() -> None:
    text = dump(parse('## Doubles.\nfn f(x: f64[n]) = 2.0 * x\nrun { print "f {f(1):.2}" }'))
    assert (
        text
        == """\
Program doc='Doubles.'
  items[0]: Function doc='Doubles.' export=False
    name: Name id='f'
    params[0]: Parameter
      name: Name id='x'
      type: ArrayType element='f64'
        dims[0]: Name id='n'
    body: Binary op='*'
      left: Number value=2.0 text='2.0'
      right: Name id='x'
  items[1]: Run
    body: Block
      statements[0]: Print
        values[0]: String
          parts[0]: 'f '
          parts[1]: Hole format='.2'
            value: Call
              function: Name id='f'
              args[0]: Number value=1 text='1'
"""
    )


def test_a_long_chain_is_dumped_without_recursion() -> None:
    chain = dump(parse(f"const x = {'1 + ' * 240}1"))
    assert chain.count("Binary") == 240
