"""The prover with one rule weakened, against the pairs that only look equal: `python tests/weakened_rules.py [N ...]`.

A rule that can be weakened without a false proof is not tested. Each line has the rule, its module, what stands
there and what stands there instead.
"""

import subprocess
import sys
from importlib.util import find_spec, spec_from_loader
from pathlib import Path

PACKAGE = "sql_env.grading.proofs"
RULES = [
    (
        "a column may be NULL",
        "comparisons",
        "return FALSE if self.known.not_null(term.row.table, term.name) else IsNull(term)",
        "return FALSE",
    ),
    (
        "a comparison with NULL is not true",
        "comparisons",
        "there = self.not_null(left, right)",
        "there = TRUE",
    ),
    (
        "a number compared with a text column is a text",
        "comparisons",
        'return Constant(str(term.value), "text")',
        "return term",
    ),
    (
        "a text compared with a numeric column is a number",
        "comparisons",
        "return _looks_numeric(term.value) or term",
        "return term",
    ),
    (
        "3 and 3.0 may stand in one column",
        "comparisons",
        'if affinity in ("REAL", "TEXT"):',
        'if affinity == "BLOB":\n                    return "canonical"\n'
        '                if affinity in ("REAL", "TEXT"):',
    ),
    (
        "nothing is greater than the max of nothing",
        "comparisons",
        'reached[">"]: lambda: conjunction([there, negation(some(reached["<="]))])',
        'reached[">"]: lambda: conjunction([self.not_null(other), negation(some(reached["<="]))])',
    ),
    (
        "the max is reached",
        "comparisons",
        'conjunction([some("="), negation(some(reached["<"]))])',
        'some("=")',
    ),
    (
        "NULL is the same as NULL in a set",
        "comparisons",
        "return disjunction([equal, conjunction([self.is_null(left), self.is_null(right)])])",
        "return equal",
    ),
    (
        "a choice has two cases",
        "comparisons",
        "conjunction([negation(term.condition), otherwise])",
        "otherwise",
    ),
    (
        "a table may be empty",
        "comparisons",
        "all(self.known.is_filled(row.table) for row in block.rows)",
        "True",
    ),
    (
        "1 and 1.0 are one value for count(DISTINCT)",
        "comparisons",
        "and len({c.kind for c in literals}) == 1",
        "",
    ),
    (
        "a count of distinct values needs all of them",
        "comparisons",
        "if len(values) == number.value and len(values) > 1:",
        "if len(values) >= number.value and len(values) > 1:",
    ),
    (
        "a quotient by 0 is NULL",
        "comparisons",
        "return disjunction([self.is_null(dividend), self.is_null(divisor), zero])",
        "return disjunction([self.is_null(dividend), self.is_null(divisor)])",
    ),
    (
        "a function of NULL is NULL only if it is strict",
        "comparisons",
        'if term.name in _STRICT or term.name.startswith("cast:"):',
        "if True:",
    ),
    (
        "numbers come before texts",
        "comparisons",
        "a, b = (a[0], 0), (b[0], 0)",
        "a, b = (0, 0), (0, 0)",
    ),
    (
        "an aggregate leaves NULL out",
        "aggregates",
        "where = [*block.where, values.not_null(block.out[0])] if has_argument else block.where",
        "where = block.where",
    ),
    (
        "count(DISTINCT x) counts values",
        "aggregates",
        "key = block.out if distinct else block.key",
        "key = block.key",
    ),
    (
        "count(x) counts rows",
        "aggregates",
        "key = block.out if distinct else block.key",
        "key = block.out or block.key",
    ),
    (
        "the sum of nothing is NULL",
        "aggregates",
        "return choose_term(nonempty, count_of(ones), NULL)",
        "return count_of(ones)",
    ),
    (
        "NULL has a place in an order",
        "aggregates",
        "cases.append(conjunction([*same, disjunction([less, null])]))",
        "cases.append(conjunction([*same, less]))",
    ),
    (
        "a later key sorts what earlier ones leave tied",
        "aggregates",
        "cases.append(conjunction([*same, disjunction([less, null])]))",
        "cases.append(disjunction([less, null]))",
    ),
    (
        "a union gives no row twice",
        "aggregates",
        "made = values.block(block.rows, [*block.where, negation(earlier)], block.key, block.out)",
        "made = block",
    ),
    (
        "an average is a sum by a count of what is there",
        "aggregates",
        'return total if name == "sum" else _quotient(values, total, count)',
        "return total",
    ),
    (
        "LIKE is not GLOB",
        "expressions",
        "test, there = Test(name, args)",
        'test, there = Test("like", args)',
    ),
    (
        "NOT IN with NULL is unknown",
        "expressions",
        "return Truth(found, negation(possible))",
        "return Truth(found, negation(found))",
    ),
    (
        "NOT of unknown is unknown",
        "expressions",
        "return Truth(inner.false, inner.true)",
        "return Truth(negation(inner.true), inner.true)",
    ),
    ("a column may have a collation", "expressions", '.collation != "BINARY"', '.collation == ""'),
    (
        "an integer by an integer is an integer",
        "expressions",
        "if left_real or right_real:",
        "if True:",
    ),
    (
        "a subquery as a value has one row",
        "expressions",
        "if relation.limit == 1 or self.has_one_row(relation.bag):",
        "if True:",
    ),
    (
        "NULL is the first to come where x ascends",
        "expressions",
        "if key.nulls_first and nulls != FALSE:",
        "if False:",
    ),
    (
        "the first branch that holds is taken",
        "expressions",
        "for branch in reversed(branches):",
        "for branch in branches:",
    ),
    (
        "OR is false where both are",
        "expressions",
        "return Truth(disjunction(true), conjunction(false))",
        "return Truth(disjunction(true), disjunction(false))",
    ),
    (
        "a function gives what it gives for its arguments",
        "expressions",
        'return Call(":".join([name, *extras]), tuple(args))',
        "return args[0]",
    ),
    (
        "a cast changes values",
        "expressions",
        'return Call(f"cast:{affinity}", (inner,))',
        "return inner",
    ),
    (
        "a LEFT JOIN keeps what finds no partner",
        "queries",
        "found += self.unmatched(partial, alias, alternatives, matched)",
        "pass",
    ),
    (
        "UNION is not UNION ALL",
        "queries",
        "bag = distinct_bag((*left.bag.blocks, *right.bag.blocks))",
        "bag = Bag((*left.bag.blocks, *right.bag.blocks))",
    ),
    ("EXCEPT is not INTERSECT", "queries", "negation(there) if is_except else there", "there"),
    (
        "DISTINCT drops repetitions",
        "queries",
        "blocks = [self.made_distinct(b, width) for b in blocks]",
        "pass",
    ),
    ("LIMIT may cut a tie", "queries", 'raise Unproved("LIMIT may cut a tie")', "pass"),
    (
        "LIMIT 2 keeps two",
        "queries",
        'count, Constant(relation.limit, "integer")',
        'count, Constant(relation.limit + 1, "integer")',
    ),
    (
        "HAVING is a condition",
        "queries",
        "made = self.values.block(block.rows, [*block.where, condition], keys, (*out, *hidden))",
        "made = self.values.block(block.rows, block.where, keys, (*out, *hidden))",
    ),
    (
        "a group has its own rows",
        "grouping",
        "made = t.values.block(block.rows, [*block.where, *where, *same], block.key, out + more)",
        "made = t.values.block(block.rows, [*block.where, *where], block.key, out + more)",
    ),
    ("FILTER is a condition", "grouping", "[*block.where, *where, *same]", "[*block.where, *same]"),
    (
        "a key with NULL is none",
        "dependencies",
        "present = Not(IsNull(column)) in self.where",
        "present = True",
    ),
    (
        "equal values may be written in two ways",
        "dependencies",
        "return isinstance(term, Column) and bool(self.values.written_form(term)) and self.has(term)",
        "return self.has(term)",
    ),
    (
        "texts that are no plain numerals differ where numbers do not",
        "dependencies",
        "is_numeral(values, a) and is_numeral(values, b)",
        "True",
    ),
    (
        "rows are counted",
        "implication",
        "if not as_set and not determines(self.values, a, key, a.key, outer, given):",
        "if False:",
    ),
    (
        "a bag is no set",
        "implication",
        "return determines(self.values, block, block.out, block.key, outer, given)",
        "return True",
    ),
    (
        "sets are equal if each holds the other",
        "implication",
        "holds_other = self.included(right, left, outer, given)",
        "holds_other = True",
    ),
    (
        "blocks are equal if each holds the other",
        "implication",
        "if self.contained(x, y, outer, given) and self.contained(y, x, outer, given):",
        "if self.contained(x, y, outer, given):",
    ),
    ("a reference may be NULL", "implication", "if self._all_there(columns, there):", "if True:"),
    ("a count may be 0", "implication", "least = _least_count(part)", "least = 1"),
    (
        "a table of EXISTS may be empty",
        "implication",
        "filled = filter(self.values.known.is_filled, sorted(set(tables) - there))",
        "filled = sorted(set(tables) - there)",
    ),
    (
        "two blocks may share rows",
        "implication",
        "if not self.entails(both, [FALSE], outer, given):",
        "if False:",
    ),
    (
        "one value of a key may fulfil two conditions",
        "implication",
        "if not all(determines(self.values, b, b.key, b.where, outer, given) for b in (x, y)):",
        "if False:",
    ),
    (
        "a homomorphism carries conditions",
        "implication",
        "goals = [*where, *(self.values.same(x, y) for x, y in pairs)]",
        "goals = [self.values.same(x, y) for x, y in pairs]",
    ),
    (
        "a homomorphism carries results",
        "implication",
        "goals = [*where, *(self.values.same(x, y) for x, y in pairs)]",
        "goals = where",
    ),
    (
        "aggregates of different bags differ",
        "implication",
        "return x.name == y.name and self.equal(x.bag, y.bag, outer, given, as_set)",
        "return x.name == y.name",
    ),
    (
        "max is not min",
        "implication",
        "return x.name == y.name and self.equal",
        "return self.equal",
    ),
    (
        "each case of OR is looked at",
        "implication",
        "if made is not None and not self.covered(",
        "if made is None and not self.covered(",
    ),
    (
        "not all numbers are integers",
        "solver",
        "is_integer = self.values.is_integer(term)",
        "is_integer = True",
    ),
    (
        "functions see how a value is written",
        "solver",
        "if all(forms):\n            sorts = [z3.RealSort()] * (len(term.args) + 1)",
        "if True:\n            sorts = [z3.RealSort()] * (len(term.args) + 1)",
    ),
    (
        "one EXISTS does not imply another",
        "solver",
        "follows = prover.contained(block, other, self.inner, self.context, True)",
        "follows = True",
    ),
    (
        "a row is wanted for EXISTS",
        "solver",
        "if prover.contained(own, block, outside, self.context, True):",
        "if True:",
    ),
    (
        "a count may be 0 for the solver",
        "solver",
        "self.axioms.append(unknown >= 0)",
        "self.axioms.append(unknown >= 1)",
    ),
    (
        "what is unknown for the solver is not proved",
        "solver",
        "return result == z3.unsat",
        "return result != z3.unknown",
    ),
    ("columns are counted", "decision", 'raise Unproved("another number of columns")', "pass"),
    (
        "gold's order counts",
        "decision",
        "return other.order[: len(gold.order)] == gold.order",
        "return True",
    ),
    (
        "gold's sorting keys count",
        "decision",
        "width = gold.width + len(gold.order)",
        "width = gold.width",
    ),
    (
        "the parser reads what SQLite reads",
        "decision",
        'raise Unproved("SQLite may read it otherwise than the parser")',
        "pass",
    ),
]


class WeakLoader:
    "Imports a module of the prover with a piece of its source replaced."

    def __init__(self, name: str, old: str, new: str):
        self.name, self.old, self.new = name, old, new

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        self.origin = find_spec(name).origin
        return spec_from_loader(name, self, origin=self.origin)

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        source = Path(self.origin).read_text()
        assert self.old in source, f"not in {self.name}: {self.old}"
        exec(compile(source.replace(self.old, self.new), self.origin, "exec"), module.__dict__)


def is_caught(number: int) -> bool:
    "Whether the pairs show that a rule is weakened, in a process of its own."
    done = subprocess.run(
        [sys.executable, __file__, str(number)], capture_output=True, text=True, timeout=300
    )
    assert not done.stderr, done.stderr
    return "false proof" in done.stdout


def main() -> None:
    numbers = [int(n) for n in sys.argv[1:]] or range(len(RULES))
    if len(numbers) > 1:
        for n in numbers:
            print("caught" if is_caught(n) else "NOT CAUGHT", n, RULES[n][0], flush=True)
        return
    name, module, old, new = RULES[numbers[0]]
    sys.path.insert(0, str(Path(__file__).parent.parent))
    sys.meta_path.insert(0, WeakLoader(f"{PACKAGE}.{module}", old, new))
    from deceiving_pairs import false_proofs

    for gold, sql in false_proofs():
        print(f"false proof: {gold} | {sql}")
        return


if __name__ == "__main__":
    main()
