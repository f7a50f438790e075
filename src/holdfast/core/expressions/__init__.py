"""Expressions: the small formulas of a spec, in the syntax of CEL, that pick, compare and join parts of a message.

They are total: for any data they have a value, and null where others have an error. The rules, one by one:

- *Data* is what JSON has. Anything else in it (an object, a tuple, bytes) counts as null; no code of it is ever run.
- *Paths*: a name, field, key or place that is not there is null, and so is everything further along the path.
- *Truth*: null, false, 0, 0.0, "", [] and {} are false, everything else is true. `!`, `&&` and `||` give a bool, and
  the right side is looked at only if it matters; so is each half of `? :`.
- *Equality* is deep and changes nothing into anything: 1 == 1.0, but 1 != "1" and 1 != true. null equals only null.
- *Order* is between two numbers or two texts (by code point); between others it is null.
- *in* asks a list for an item or a map for a key; for others it is null.
- *+* adds numbers, and joins two texts or two lists; `- * /` want numbers and `%` whole ones. Others give null.
- *Numbers*: whole ones have 64 bits. What does not fit, x / 0 and x % 0 are null; so is a double that is not finite.
  int with int stays int (7 / 2 is 3, -7 % 3 is -1), int with double is double.
- *has(a.b)* is whether the key is there, even with null in it. *coalesce* gives the first that is not null.
- *Functions and methods* given anything but what they want (functions.py) are null.

They are bounded. When read: 4,000 characters, 1,000 parts, 64 levels (a Problem). When run: 100,000 steps, 1,000,000
letters made (an item of a list counts as eight), counted before they are made: ExpressionTooCostly, the only error. It
depends on nothing but the expression and the data, so no retry helps.

`parse` or `parse_text` read, `to_text` writes, `check` finds mistakes and the type, `compile` makes a function of it.
"""

from holdfast.core.expressions.checker import check
from holdfast.core.expressions.compiler import compile
from holdfast.core.expressions.parser import parse, parse_text
from holdfast.core.expressions.printer import to_text
from holdfast.core.expressions.soundness import verify
from holdfast.core.expressions.tree import Node
from holdfast.core.expressions.types import JSON, Type, assignable, show

__all__ = ["JSON", "Node", "Type", "assignable", "check", "compile", "parse", "parse_text", "show", "to_text", "verify"]
