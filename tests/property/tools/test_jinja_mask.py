"""The mask of Jinja against Jinja's own lexer, over random templates."""

from __future__ import annotations

import re
from random import Random

import jinja2
import pytest

from sparkcep.tools.jinja_mask import jinja_mask
from tests.selection import first

PIECES = [
    "SELECT x FROM ", "A{2,3} ", "{- B -} ", "'it''s' ", "\n", "-- note\n", "{ {a} } ", "} ", "%} ",
    "{{ a }}", "{{ ref('t') }}", "{{ \"}}\" }}", "{{ f({'a': {'b': 1}}) }}", "{{ '{%' }}", "{{ a\n + b }}", "{{ 'x\\'}}' }}",
    "{% if a %}", "{% endif %}", "{% set x = '%}' %}", "{% set y = {'a': 1} %}", "{# note #}", "{# it's {{ a }} #}", "{#\n#}",
    "{% raw %}{{ no }} {# no #}{% endraw %}", "{%raw%}{% a %}{%endraw%}",
]  # fmt: skip


def masked_by_jinja(text: str) -> str:
    """The text with j for each character of an expression, and blanks for other Jinja."""
    out, inside = [], ""
    for _, kind, value in jinja2.Environment(keep_trailing_newline=True).lex(text):
        begins = kind in ("variable_begin", "block_begin", "comment_begin", "raw_begin", "raw_end")
        inside = kind if begins else inside
        if kind == "data":
            out.append(value)
        elif inside == "variable_begin":
            out.append(re.sub(r"[^\n]", "j", value))
        else:
            out.append(re.sub(r"[^\n]", " ", value))
    return "".join(out)


@pytest.mark.parametrize("seed", first(range(8), wider=1))
def test_masks_are_where_jinjas_lexer_finds_them(seed):
    random, compared = Random(seed), 0
    for _ in range(500):
        text = "".join(random.choices(PIECES, k=random.randrange(1, 12)))
        found = jinja_mask(text)
        expected = masked_by_jinja(text)
        assert len(found.text) == len(text) == len(expected)
        # After the first line of an expression the mask has blanks.
        for ours, theirs in zip(found.text, expected):
            assert ours == theirs or (theirs == "j" and (ours == " " or ours.isdigit())), text
        compared += bool(found.spans)
    assert compared > 300
