"A package of somebody else, with a source, a verdict, an action and a policy, found by its entry points."

from pathlib import Path
from tempfile import mkdtemp

from sql_env.database.database import build_database
from sql_env.database.guards import QueryError
from sql_env.grading.answers import Verdict
from sql_env.play.acts import Act, Action, Said, Scene
from sql_env.play.episode import Observation
from sql_env.play.judges import Ask, Judge
from sql_env.play.reward import TurnFacts
from sql_env.questions.question_set import Question
from sql_env.sources.files import Drafts
from sql_env.sql.text import quote_identifier


def read_harbour() -> Drafts:
    "A source: questions about a harbour; what gold gives is worked out by `load`."
    ships = [("Alma", "NO"), ("Bris", "NO"), ("Ceto", "PT"), ("Dione", "PT"), ("Elin", "NO")]
    path = Path(mkdtemp()) / "harbour.sqlite"
    build_database(path, "CREATE TABLE ship (name TEXT, flag TEXT);", {"ship": ships})
    questions = [
        Question(
            f"harbour-{flag}",
            f"How many ships sail under the flag {flag}?",
            "harbour",
            f"SELECT count(*) FROM ship WHERE flag = '{flag}'",
        )
        for flag in ("NO", "PT")
    ]
    return Drafts(questions, {"harbour": path}, "harbour")


def judge_frugal(ask: Ask) -> Verdict:
    "A verdict: was one query enough?"
    n = len(ask.queries_run)
    return Verdict(n <= 1, "match" if n <= 1 else "wasteful", f"{n} queries")


FRUGAL = Judge("frugal", judge_frugal, needs=("value",))


def _peek(scene: Scene, table: str) -> Said:
    "An action: the first row of a table, whose columns are known from then on."
    if table.lower().startswith("sqlite_"):
        raise QueryError("forbidden", f"{table} is a table of SQLite itself.", "Peek at another.")
    info = scene.source.describe(table)
    row = scene.source.query(f"SELECT * FROM {quote_identifier(info.name)} LIMIT 1")
    return Said(row.text(), TurnFacts(tables=[info.name.lower()]), (info,), row)


PEEK = Act(
    "PEEK",
    "peek",
    "table_name",
    "Show the first row of a table.",
    "Name of the table.",
    _peek,
    gives="rows",
    prompt="peek at a row",
)


class PeekFirst:
    "A policy: peek at the first table, count the rows of the question's last word, answer what was found."

    name = "peek_first"

    def select_action(self, observation: Observation) -> Action:
        "The next action; the observation is all that a policy sees."
        table = observation.schema_info.partition("(")[0].split()[0]
        flag = observation.question.rstrip("?").split()[-1]
        plan = (
            Action("PEEK", table),
            Action("QUERY", f"SELECT count(*) FROM {table} WHERE flag = '{flag}'"),
            Action("ANSWER", "@last"),
        )
        return plan[observation.step_count]
