"""What could have stood where reading stopped, in words: the last resort of mistakes.py. No terminal is named as such."""

from __future__ import annotations

ITEMS = (
    "import",
    "from",
    "option",
    "const",
    "size",
    "param",
    "input",
    "state",
    "struct",
    "export",
    "fn",
    "test",
    "bench",
    "run",
)

# What an expected terminal is called, in the order in which they are told.
WORDS: tuple[tuple[str, str], ...] = (
    ("INT", "a value"),
    ("NAME", "a name"),
    ("STRING", 'a text `"..."`'),
    ("ADD_OP", "an operator"),
    ("FN", "`fn`"),
    ("LBRACE", "`{`"),
    ("EQUAL", "`=`"),
    ("COLON", "`:`"),
    ("COMMA", "`,`"),
    ("LPAR", "`(`"),
    ("RPAR", "`)`"),
    ("RSQB", "`]`"),
    ("RBRACE", "`}`"),
    ("IN", "`in`"),
    ("TO", "`to`"),
    ("IF", "`if`"),
    ("IMPORT", "`import`"),
    ("RANGE_OP", "a range `a..b`"),
    ("BAR", "`|`"),
    ("_NL", "a new line"),
)
# Where a value may begin, that says enough of these.
BEGINS_VALUE = frozenset({"NAME", "STRING", "ADD_OP", "LBRACE", "LPAR", "BAR", "IF", "FN"})
# After a value these may always come; `an operator` says enough.
MOST = 6


def wanted(expected: frozenset[str]) -> str:
    """A help line that names what was expected."""
    if {"FN", "SIZE", "PARAM"} <= expected:
        return f"an item begins with one of {', '.join(ITEMS[:-1])} or {ITEMS[-1]}"
    words = [word for terminal, word in WORDS if terminal in expected and not ("INT" in expected and terminal in BEGINS_VALUE)][
        :MOST
    ]
    if not words:
        return "remove it"
    return "expected here: " + (f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0])


def shorten(text: str) -> str:
    """A piece of source as it may stand in a message."""
    return text if len(text) <= 40 else f"{text[:37]}..."
