"""Scores as postfix programs, which kernels evaluate over numbers here and over intervals in
:mod:`sparkcep.kernels.topk.score_bounds`.

A program has ``code`` int64 (n, 2), operation and operand, and ``literals`` float64. The operand is the number of a leaf or of a
literal. :func:`sparkcep.engine.output.score_program.program_of` makes programs of trees.

Example: ``(leaf 0 + leaf 1) / 2`` is LEAF 0, LEAF 1, ADD, LITERAL 0, DIVIDE with the literal 2.0.
"""

from __future__ import annotations

import math

from sparkcep.kernels.jit.cache import kernel

LEAF, LITERAL, ADD, SUBTRACT, MULTIPLY, DIVIDE, NEGATE, ABSOLUTE, ROOT, LEAST, GREATEST = range(11)


@kernel
def evaluate(score, values, stack):
    """The value of a program (``score.code`` and ``score.literals``) over the ``values`` of its leaves. ``stack``: memory."""
    top = -1
    for i in range(len(score.code)):
        op = score.code[i, 0]
        if op == LEAF:
            top += 1
            stack[top] = values[score.code[i, 1]]
        elif op == LITERAL:
            top += 1
            stack[top] = score.literals[score.code[i, 1]]
        elif op == NEGATE:
            stack[top] = -stack[top]
        elif op == ABSOLUTE:
            stack[top] = abs(stack[top])
        elif op == ROOT:
            stack[top] = math.sqrt(stack[top])
        else:
            top -= 1
            a = stack[top]
            b = stack[top + 1]
            if op == ADD:
                stack[top] = a + b
            elif op == SUBTRACT:
                stack[top] = a - b
            elif op == MULTIPLY:
                stack[top] = a * b
            elif op == DIVIDE:
                stack[top] = a / b
            elif op == LEAST:
                stack[top] = min(a, b)
            else:
                stack[top] = max(a, b)
    return stack[0]
