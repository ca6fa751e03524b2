"""Filters that requests carry."""

from __future__ import annotations

from typing import Final

# Request filters. The evaluator has no budget of its own, so the text is bounded before it runs;
# people do not write longer ones by hand, and URLs end at 8 KB.
FILTER_BYTES_MAX: Final = 4_096

# Tokens of a filter: parsing took 3 ms for a thousand, and the evaluator descends a level
# of its stack for each in the worst case (half a MB of stack was enough for a thousand).
FILTER_TOKENS_MAX: Final = 1_000

# Nested brackets; the evaluator's own parser fails between 50 and 100.
FILTER_DEPTH_MAX: Final = 32

# Loops of one filter, which are never inside each other.
FILTER_LOOPS_MAX: Final = 4

# Items of a list that is looped over: building a list of them is quadratic, 0.3 ms at a hundred.
FILTER_LIST_ITEMS_MAX: Final = 100

# Additions of one filter: adding texts and lists copies them, a hundred of 64 KB took 160 ms.
FILTER_ADDITIONS_MAX: Final = 8

# The estimated time to compile one regular expression, which happens for every element.
FILTER_PATTERN_US_MAX: Final = 2_000

# The estimated time to evaluate one element by the text alone; measured worst cases were below.
FILTER_TEXT_US_MAX: Final = 50_000

# The same with the operations of a commit: one pass over 10,000 of them takes 50 ms.
FILTER_ELEMENT_US_MAX: Final = 500_000

# Evaluated elements are counted in these steps against a page's limit of scanned elements, so that
# a costly filter gets shorter pages; simple ones measured 3 to 7 microseconds.
FILTER_COST_STEP_US: Final = 10

# Compiled filters kept in memory, a few KB each; clients send the same few again and again.
FILTER_CACHE_ENTRIES_MAX: Final = 256
