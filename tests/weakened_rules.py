"""The prover with one rule weakened, against the pairs that only look equal: `python tests/weakened_rules.py [N ...]`.

A rule that can be weakened without a false proof is not tested. Each line has the rule, its module, what stands
there and what stands there instead. The pair that showed it before is tried first; without numbers all rules are
tried and the pairs noted.
"""

import json
import subprocess
import sys
from importlib.util import find_spec, spec_from_loader
from pathlib import Path

from tables import cases

HERE, PACKAGE = Path(__file__).parent, "sql_env.proofs"
RULES = cases("weakened_rules_rules")
SHOWN = {rule: pair for rule, *pair in cases("weakened_rules_shown")}


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


def what_catches(number: int, is_tested: bool = False) -> list[str]:
    "A pair that shows a weakened rule, in a process of its own; with the tests before a proof or without."
    done = subprocess.run(
        [sys.executable, __file__, str(number), *["tested"] * is_tested], capture_output=True, text=True, timeout=600
    )
    assert not done.stderr.replace("a proof is refuted by a test", "") or is_tested, done.stderr
    return json.loads(done.stdout)


def main() -> None:
    is_tested = "tested" in sys.argv
    numbers = [int(n) for n in sys.argv[1:] if n.isdecimal()] or range(len(RULES))
    if len(numbers) > 1:
        lines = []
        for n in numbers:
            found = what_catches(n)
            print("caught" if found else "NOT CAUGHT", n, RULES[n][0], flush=True)
            lines.append(json.dumps([RULES[n][0], *found], ensure_ascii=False) + "\n")
        if len(numbers) == len(RULES):
            (HERE / "data" / "weakened_rules_shown.jsonl").write_text("".join(lines))
        return
    name, module, old, new = RULES[numbers[0]]
    sys.path.insert(0, str(HERE.parent))
    sys.meta_path.insert(0, WeakLoader(f"{PACKAGE}.{module}", old, new))
    from deceiving_pairs import false_proofs

    from sql_env.proofs import decision

    if not is_tested:  # the reasoning alone
        decision.tested = lambda *args: ("", 0)
    print(json.dumps(next(false_proofs(SHOWN.get(name, ())), [])))


if __name__ == "__main__":
    main()
