"Training: lessons, the small model's tokenizer, stages that survive a kill, per-turn credit, exams, cards. Nothing is downloaded."

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")
pytest.importorskip("trl")
from hypothesis import given, settings
from hypothesis import strategies as st

from sql_env.chat import TOOLS
from sql_env.database import build_database
from sql_env.episode import EpisodeEnv
from sql_env.questions import Question
from sql_env.sources import complete_questions
from sql_env.training.card import model_card, push_to_hub
from sql_env.training.data import grpo_questions, sft_data, tokenize_transcript
from sql_env.training.evals import evaluate_checkpoint, run_evals, suite_questions, suite_row
from sql_env.training.metrics import _metrics_callback, plot_metrics, read_metrics
from sql_env.training.nano_expert import (
    alias_tables,
    expert_transcripts,
    mentions_table,
    missing_mention,
    swap_table,
    unmentioned_columns,
    world_transcripts,
)
from sql_env.training.nano_model import nano_tokenizer, render_transcript
from sql_env.training.recipes import (
    CLUSTER,
    COLAB,
    NANO,
    RECIPES,
    Stage,
    check_recipe,
    replace_args,
)
from sql_env.training.run import Run, memory_advice, train
from sql_env.training.trainers import _grpo_class, grpo_trainer, per_turn_advantages, turn_spans
from sql_env.worlds.world import world_set

OFFLINE = dict(
    HF_HUB_OFFLINE="1",
    TRANSFORMERS_OFFLINE="1",
    HF_DATASETS_OFFLINE="1",
    TRL_EXPERIMENTAL_SILENCE="1",
    TOKENIZERS_PARALLELISM="false",
)
os.environ.update(OFFLINE)
TINY = replace(
    NANO,
    stages=(
        Stage("sft", "sft", {1: 60, 3: 12}, dict(save_steps=2, logging_steps=1, warmup_steps=1)),
        Stage(
            "grpo",
            "grpo",
            {1: 4},
            dict(
                max_steps=1,
                per_device_train_batch_size=4,
                num_generations=4,
                max_completion_length=60,
            ),
        ),
    ),
)


@pytest.fixture(scope="module")
def talks():
    return list(world_transcripts({1: 120, 2: 120, 3: 120}))


@pytest.fixture(scope="module")
def tok(talks):
    return nano_tokenizer(talks)


# ---- lessons


@pytest.mark.parametrize("level", [1, 2, 3, 4, 5])
def test_lessons_end_right_and_are_terse(level, tmp_path):
    qs = world_set("train", level, 40, 11, tmp_path)
    made = list(expert_transcripts(qs, 0))
    assert len(made) == len(qs)
    for talk in made:
        calls = [c["function"] for m in talk for c in m.get("tool_calls") or ()]
        assert calls[-1] == {"name": "answer", "arguments": '{"value": "@last"}'}
        refused = [
            m["content"]
            for m in talk
            if m["role"] == "tool" and m["content"].startswith("{'error'")
        ]
        assert len(refused) <= 1 and all(
            "unknown_column" in r or "syntax" in r or "ambiguous" in r for r in refused
        )
        assert talk[-1] == {"role": "assistant", "content": ""} and talk[0]["content"] == ""


def test_only_calls_that_were_not_refused_are_learned(talks, tok):
    slips = [
        talk
        for talk in talks
        if any(m["role"] == "tool" and m["content"].startswith("{'error'") for m in talk)
    ]
    assert len(slips) > len(talks) * 0.08
    for talk in talks:
        pieces = render_transcript(talk)
        row = tokenize_transcript(pieces, tok)
        assert all(label in (i, -100) for i, label in zip(row["input_ids"], row["labels"]))
        assert tok.decode(row["input_ids"]) == "".join(text for text, _ in pieces)
        assert tok.decode([i for i in row["labels"] if i != -100]) == "".join(
            text for text, mine in pieces if mine
        )
        for text, after in zip(pieces, pieces[1:]):
            if after[0].startswith("<|tool|>"):
                assert text[1] is not after[0].startswith("<|tool|>{'error'")


def test_a_lesson_looks_for_tables_that_the_question_does_not_name(tmp_path):
    "Named tables first, then those that a table seen refers to, then as listed; none after the last of the query's."
    qs = world_set("train", 3, 60, 12, tmp_path)
    searched = 0
    for q, talk in zip(qs, expert_transcripts(qs, 0)):
        calls = [
            (c["function"]["name"], *json.loads(c["function"]["arguments"]).values())
            for m in talk
            for c in m.get("tool_calls") or ()
        ]
        seen = [table for name, table in calls if name == "describe"]
        assert (
            len(set(seen)) == len(seen)
            and set(q.tables_involved) <= {x.lower() for x in seen}
            and seen[-1].lower() in q.tables_involved
        )
        first = [mentions_table(x, q.question_text) for x in seen if x.lower() in q.tables_involved]
        assert first == sorted(first, reverse=True)
        searched += len(seen) > len(q.tables_involved)
    assert 3 < searched < 30


def test_a_hasty_query_on_a_wrong_table_is_refused_and_not_learned(tmp_path):
    "As an example of what to do next: describe another table."
    hasty = 0
    for talk in expert_transcripts(world_set("train", 1, 200, 23, tmp_path), tries=True):
        calls = [c["function"] for m in talk for c in m.get("tool_calls") or ()]
        for a, b, after in zip(calls, calls[1:], calls[2:]):
            if (a["name"], b["name"], after["name"]) != ("describe", "query", "describe"):
                continue
            hasty += 1
            assert (
                json.loads(a["arguments"])["table_name"] in b["arguments"]
                and json.loads(after["arguments"])["table_name"] not in b["arguments"]
            )
            assert [
                mine
                for text, mine in render_transcript(talk)
                if json.loads(b["arguments"])["sql"] + "<|end|>" in text
            ] == [False]
    assert hasty > 8


@pytest.mark.parametrize(
    "table, question, named",
    [
        ("tbl_night_courses", "How many night courses are there?", True),
        ("NightCourse", "Which night course is it?", True),
        ("pump", "Pumps over 3?", True),
        ("pumps", "the pump Kettle 37", True),
        ("regulars", "the ranking score of Greta Enmorme", False),
    ],
)
def test_is_named(table, question, named):
    assert mentions_table(table, question) is named


@pytest.mark.parametrize(
    "sql, question, columns",
    [
        (
            "SELECT COUNT(*) FROM pump WHERE substr(entry_date, 1, 4) = '2019'",
            "How many pumps joined in 2019?",
            ["entry_date"],
        ),
        (
            "SELECT COUNT(*) FROM pump WHERE substr(p.entry_date, 1, 4) = '2019'",
            "How many pumps with an entry date in 2019?",
            [],
        ),
        ("SELECT COUNT(*) FROM pump WHERE town = 'Elm'", "How many pumps from Elm?", ["town"]),
        ("SELECT COUNT(*) FROM pump WHERE town = 'Elm'", "How many pumps have the town Elm?", []),
        ("SELECT COUNT(*) FROM pump WHERE site = 'Elm'", "How many pumps in Elm?", ["site"]),
        (
            "SELECT COUNT(*) FROM pump WHERE running_body = 'Elm'",
            "How many pumps run by Elm?",
            ["running_body"],
        ),
        ("SELECT a FROM pump WHERE title = 'Elm'", "What is the a of Elm?", []),
        (
            "SELECT COUNT(*) FROM pump WHERE price < 3 AND onHold = 1",
            "Which pumps under 3 are reserved?",
            ["onHold"],
        ),
        (
            "SELECT COUNT(*) FROM pump WHERE on_hold = 'Y'",
            "Which pumps of Yann are reserved?",
            ["on_hold"],
        ),
        ("SELECT COUNT(*) FROM pump WHERE reserved = 'yes'", "Which pumps are reserved?", []),
        ("SELECT COUNT(*) FROM pump", "How many pumps?", []),
    ],
)
def test_columns_that_a_question_does_not_name(sql, question, columns):
    assert unmentioned_columns(t.Sql(sql), question) == columns


def _answered(talk):
    "Queries that were not refused."
    texts = [m["content"] for m in talk if m["role"] == "tool"]
    asked = [c["function"] for m in talk for c in m.get("tool_calls") or ()]
    return [
        json.loads(f["arguments"])["sql"]
        for f, text in zip(asked, texts, strict=True)
        if f["name"] == "query" and not text.startswith("{'error'")
    ]


@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_search_goes_down_the_table_and_ends_where_something_is_found(level, tmp_path):
    qs = world_set("train", level, 200, 21, tmp_path)
    made = list(expert_transcripts(qs, tries=True))
    assert len(made) >= 0.98 * len(qs)
    by_question, searched = {q.question_text: q for q in qs}, Counter()
    for talk in made:
        q, queries = by_question[talk[1]["content"].partition("\n")[0]], _answered(talk)
        db = qs.database(q.database_name)
        if not missing_mention(q) == "column" or len(queries) < 3:
            continue
        assert db.query(queries[-1]).rows == db.query(q.gold_sql).rows
        looks = [x for x in queries if x.endswith(" LIMIT 3")]
        if looks:
            columns, table = [x.split()[2] for x in looks], looks[0].split()[4]
            assert columns[-1] in q.gold_sql and not set(columns[:-1]) & set(
                unmentioned_columns(t.Sql(q.gold_sql), q.question_text)
            )
            order = [c.name for c in db.columns(table)]
            assert [order.index(c) for c in columns] == sorted(
                order.index(c) for c in columns
            ) and order.index(columns[0]) > 1
        elif "DISTINCT" not in "".join(queries):
            assert not any(any(map(any, db.query(x).rows)) for x in queries[:-1])
        searched[bool(looks)] += 1
    assert min(searched.values()) > 2 and len(searched) == 2, searched


@pytest.mark.parametrize(
    "asked, sql, queries",
    [
        (
            "How many pumps from Elm?",
            "SELECT COUNT(*) FROM pump WHERE origin = 'Elm'",
            [
                f"SELECT COUNT(*) FROM pump WHERE {c} = 'Elm'"
                for c in ("yard_id", "state", "size", "price")
            ],
        ),  # maker has an Elm too: nobody would go on
        (
            "How many pumps came in 2020?",
            "SELECT COUNT(*) FROM pump WHERE substr(origin, 1, 4) = '2020'",
            [
                f"SELECT COUNT(*) FROM pump WHERE substr({c}, 1, 4) = '2020'"
                for c in ("yard_id", "state", "size", "maker")
            ],
        ),  # not a price of 2020.5
        (
            "Which are running?",
            "SELECT name FROM pump WHERE used = 1",
            [
                f"SELECT DISTINCT {c} FROM pump LIMIT 3"
                for c in ("yard_id", "state", "size", "price", "maker", "origin", "used")
            ],
        ),
        ("Which are from a maker of Elm?", "SELECT name FROM pump WHERE maker = 'Elm'", []),
        ("How many have the origin Elm?", "SELECT COUNT(*) FROM pump WHERE origin = 'Elm'", []),
    ],
)
def test_a_search_in_one_table(asked, sql, queries, tmp_path):
    path = build_database(
        tmp_path / "pumps.sqlite",
        """CREATE TABLE yard (yard_id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE pump (pump_id INTEGER PRIMARY KEY, name TEXT, yard_id INTEGER REFERENCES yard(yard_id), state TEXT, size INTEGER, price REAL, maker TEXT, origin TEXT, used INTEGER)""",
        {
            "yard": [(1, "Y")],
            "pump": [
                (1, "A", 1, "new", 5, 2.5, "Elm", "Elm", 1),
                (2, "B", 1, "old", 6, 2020.5, "Oak", "2020-01-03", 0),
            ],
        },
    )
    qs = complete_questions(
        [Question("q", asked, "pumps", sql, split="train")], {"pumps": path}, "pumps"
    )
    [talk] = expert_transcripts(qs, tries=True)
    made = _answered(talk)
    assert (
        made[:-1] == queries
        and qs.database("pumps").query(made[-1]).rows == qs.database("pumps").query(sql).rows
    )


def test_a_wrong_table_may_have_no_second_column(tmp_path):
    path = build_database(
        tmp_path / "pumps.sqlite",
        "CREATE TABLE day (day TEXT PRIMARY KEY); CREATE TABLE pump (pump_id INTEGER PRIMARY KEY, name TEXT, size INTEGER)",
        {"day": [("Monday",)], "pump": [(1, "A", 5), (2, "B", 6)]},
    )
    qs = complete_questions(
        [
            Question(
                "q",
                "What is the size of A?",
                "pumps",
                "SELECT size FROM pump WHERE name = 'A'",
                split="train",
            )
        ],
        {"pumps": path},
        "pumps",
    )
    author = t.Author(qs[0], qs.database("pumps"))
    assert swap_table(author, "pump", "day") == "SELECT size FROM day WHERE name = 'A'"
    assert len(list(expert_transcripts(qs, tries=True))) == 1


def test_lessons_on_what_is_known_can_be_thinned(tmp_path):
    qs = world_set("train", 1, 120, 22, tmp_path)
    asked = lambda talks: [talk[1]["content"].partition("\n")[0] for talk in talks]
    kinds, all_of, some, none = (
        {q.question_text: missing_mention(q) for q in qs},
        *(asked(expert_transcripts(qs, plain=p)) for p in (1, 0.5, 0)),
    )
    assert set(kinds.values()) == {"", "table", "column"} and all_of == [
        q.question_text for q in qs
    ]
    assert none == [q for q in all_of if kinds[q]] and set(none) < set(some) < set(all_of)
    assert list(expert_transcripts(qs)) == list(expert_transcripts(qs, tries=False, plain=1.0))


def test_lessons_follow_from_the_seed_and_differ_between_seeds():
    a, b, c = (list(world_transcripts({2: 10}, seed)) for seed in (1, 1, 2))
    assert a == b != c


def test_short_names_keep_the_result(tmp_path):
    qs = world_set("train", 5, 60, 3, tmp_path)
    joined = 0
    for q in (*qs, *world_set("train", 3, 60, 4, tmp_path)):
        short = alias_tables(q.gold_sql)
        db = (
            qs if q.database_name in qs.databases else world_set("train", 3, 60, 4, tmp_path)
        ).database(q.database_name)
        assert db.query(short).rows == db.query(q.gold_sql).rows
        joined += short != q.gold_sql
    assert joined > 30


def test_lessons_of_a_shown_schema_do_not_describe(tmp_path):
    qs = world_set("train", 1, 12, 5, tmp_path)
    for talk in expert_transcripts(qs, schema_level="full"):
        assert "describe" not in json.dumps([m.get("tool_calls") for m in talk])


# ---- the words of the small model


def test_spoken_is_what_the_template_writes(talks, tok):
    for talk in talks[::7]:
        as_dicts = [
            m
            | {
                "tool_calls": [
                    {
                        "function": c["function"]
                        | {"arguments": json.loads(c["function"]["arguments"])}
                    }
                    for c in m["tool_calls"]
                ]
            }
            if m.get("tool_calls")
            else m
            for m in talk
        ]
        out = tok.apply_chat_template(as_dicts, return_dict=True, return_assistant_tokens_mask=True)
        pieces = render_transcript(talk)
        assert tok.decode(out["input_ids"]) == "".join(x for x, _ in pieces)
        said = tok.decode([i for i, m in zip(out["input_ids"], out["assistant_masks"]) if m])
        said_of = "".join(
            x for i, (x, _) in enumerate(pieces) if i and pieces[i - 1][0] == "<|assistant|>"
        )
        assert said == said_of


def test_trl_takes_the_template(tok):
    from trl.chat_template_utils import (
        get_training_chat_template,
        is_chat_template_prefix_preserving,
    )

    assert is_chat_template_prefix_preserving(tok) and get_training_chat_template(tok) is None


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(TOOLS)), st.text(max_size=60))
def test_every_call_is_read_back(kind, argument):
    name, parameter = TOOLS[kind]
    if "<|end|>" in argument:
        return
    tok = _small_tok()
    said = tok.parse_response(f"<{name} {parameter}>{argument}<|end|>", prefix="")
    assert said["tool_calls"] == [
        dict(type="function", function=dict(name=name, arguments={parameter: argument}))
    ]


def _small_tok(made=[]):  # noqa: B006
    if not made:
        made.append(nano_tokenizer(list(world_transcripts({1: 20}))))
    return made[0]


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=80))
def test_any_text_survives_the_tokenizer(text):
    tok = _small_tok()
    assert tok.decode(tok(text)["input_ids"]) == text


def test_names_have_the_same_pieces_wherever_they_stand(tok):
    def pieces(text, name):
        ids = tok(text, return_offsets_mapping=True)
        start = text.index(name)
        return [
            i
            for i, (a, b) in zip(ids["input_ids"], ids["offset_mapping"])
            if start <= a and b <= start + len(name)
        ]

    for name in ("quorble", "vistle_no", "Mc Gonde", "WX-2369"):
        want = pieces(f"\n{name}\n", name)
        assert all(
            pieces(text, name) == want
            for text in (f"SELECT {name} FROM", f"x.{name} = ", f"'{name}'", f"the {name}?")
        ), name


# ---- credit by turns


def test_turns_of_a_mask():
    assert turn_spans([1, 1, 0, 1, 0, 0, 1]) == [0, 0, -1, 1, -1, -1, 2]
    assert turn_spans([0, 1]) == [-1, 0]


def test_per_turn_advantages_credit_what_came_after():
    import torch

    mask = torch.tensor([[1, 0, 1, 0], [1, 0, 1, 1]])
    a = per_turn_advantages(mask, [[0.5, 1.0], [0.5, 0.0]], 2)
    assert (
        a[0, 0] > 0 > a[1, 0]
        and a[0, 2] > 0 > a[1, 2]
        and a[0, 1] == a[1, 1] == 0
        and a[1, 2] == a[1, 3]
    )
    assert torch.allclose(per_turn_advantages(mask, [[0.1, 0.2], [0.1, 0.2]], 2), torch.zeros(2, 4))
    early = per_turn_advantages(
        mask, [[1.0, 0.0], [0.0, 0.0]], 2
    )  # a first turn that was paid is no merit of the second
    assert early[0, 0] > 0 and early[0, 2] == 0


# ---- stages


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return train(TINY, tmp_path_factory.mktemp("run"), threads=1)


def test_both_kinds_of_stage_leave_a_model_and_metrics(run):
    found = read_metrics(run.metrics)
    assert {m["stage"] for m in found} == {"sft", "grpo"}
    assert any("loss" in m and m["stage"] == "sft" for m in found) and any(
        "sql_env/correct" in m for m in found
    )
    assert all(
        (run.model_of(s) / "model.safetensors").exists() for s in ("sft", "grpo")
    ) and not list(run.folder.rglob("checkpoint-*"))
    before = run.metrics.read_text()
    train(TINY, run.folder, threads=1)  # nothing is left to do
    assert run.metrics.read_text() == before


def test_two_processes_learn_what_one_learns(tmp_path):
    "As on several GPUs; each has half of the batch, and one of them keeps model, metrics and checkpoints."
    import torch
    from safetensors.torch import load_file

    def plain(batch):
        return replace(
            TINY,
            sft=TINY.sft
            | dict(train_sampling_strategy="random", per_device_train_batch_size=batch),
        )  # lessons meet by chance, not by length

    one = train(plain(4), tmp_path / "one", threads=1, stages=["sft"])
    work = tmp_path / "work.py"
    work.write_text(f"""import sys; sys.path.insert(0, {os.path.dirname(__file__)!r})
from test_training import TINY, replace, t
t.train(replace(TINY, sft=TINY.sft | dict(train_sampling_strategy="random", per_device_train_batch_size=2)), {str(tmp_path / "two")!r}, threads=1)""")
    subprocess.run(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node",
            "2",
            work,
        ],
        env=os.environ | OFFLINE,
        check=True,
        timeout=500,
    )
    two = Run(plain(2), tmp_path / "two")
    a, b = (load_file(r.model_of("sft") / "model.safetensors") for r in (one, two))
    assert max((a[k] - b[k]).abs().max().item() for k in a) < 1e-3 and isinstance(
        a["model.embed_tokens.weight"], torch.Tensor
    )
    lines = [(m["stage"], m["step"]) for m in read_metrics(two.metrics) if "loss" in m]
    assert (
        lines == sorted(set(lines), key=lambda x: (x[0] == "grpo", x[1])) and ("grpo", 1) in lines
    )
    assert two.model_of("grpo").exists() and not list(two.folder.rglob("checkpoint-*"))


def test_another_recipe_does_not_go_on_in_the_same_folder(run):
    with pytest.raises(ValueError, match="holds another run"):
        train(replace_args(TINY, 2), run.folder)
    with pytest.raises(ValueError, match="holds another run .other seed"):
        train(TINY, run.folder, seed=1)
    with pytest.raises(ValueError, match="no stage 'x'; there are sft, grpo"):
        train(TINY, run.folder, stages=["x"])


def test_exams_are_kept_once_and_make_a_card(run):
    rows = run_evals(run, ["sft"], ["level 1"], n=6)
    assert [(r["exam"], r["n"], len(r["correct"])) for r in rows] == [("level 1", 6, 6)]
    assert run_evals(run, ["sft"], ["level 1"], n=6) == rows
    card = model_card(run, "sft")
    assert (
        "| level 1 | 0.0%" in card
        and card.startswith("---\nlibrary_name")
        and "`sql_env train nano --seed 0`" in card
    )
    with pytest.raises(ValueError, match="no exam 'x'"):
        run_evals(run, ["sft"], ["x"], n=6)


def test_a_model_sits_the_exam_of_the_game_it_learned(run, monkeypatch, tmp_path):
    asked = []

    def exam(model, names, n, env, system, schema_level):
        asked.append((model.parent.name, system, schema_level))
        return {names[0]: result}

    result = evaluate_checkpoint(run.model_of("sft"), ["level 1"], 2, NANO.env)["level 1"]
    monkeypatch.setattr(t, "exam", exam)
    shown = replace(
        NANO,
        stages=(Stage("names", "sft", {1: 1}), Stage("full", "sft", {1: 1}, schema_level="full")),
    )
    rows = run_evals(Run(shown, tmp_path), ["names", "full"], ["level 1"], n=2)
    assert asked == [("names", "", "names"), ("full", "", "full")] and [
        r["stage"] for r in rows
    ] == ["names", "full"]
    assert ", system='', schema_level='full')" in model_card(Run(shown, tmp_path), "full")
    assert "system=" not in model_card(Run(COLAB, tmp_path / "colab"), "names")


def test_the_exam_of_a_card_can_be_taken_again(run):
    code = (
        model_card(run, "sft")
        .rpartition("again:")[2]
        .replace("<this folder>", str(run.model_of("sft")))
        .replace('["level 1"],', '["level 1"], 2,')
    )
    *setup, last = [line.strip() for line in code.splitlines() if line]
    exec("\n".join(setup), names := {})
    assert eval(last, names).n_episodes == 2


def test_a_card_counts_the_stages_behind_its_model(tmp_path):
    run = Run(NANO, tmp_path)
    assert [s.name for s in run.path_to("all")] == ["copy", "few", "all"] and [
        s.name for s in run.path_to("copy")
    ] == ["copy"]
    run.metrics.write_text(
        "".join(
            json.dumps(dict(stage=s.name, step=1, seconds=60 * 10**i)) + "\n"
            for i, s in enumerate(NANO.stages)
        )
    )
    assert "in 10011 minutes" in model_card(run, "all") and "in 111 minutes" in model_card(
        run, "grpo"
    )


def test_the_recipe_for_colab_with_a_tiny_qwen(tmp_path):
    "LoRA, all three stages: each leaves a merged model that the next one starts from and an exam can load."
    import torch
    from tiny_trl import make_model, make_tokenizer
    from transformers import AutoModelForCausalLM

    tok = make_tokenizer([q.question_text + q.gold_sql for q in world_set("train", level=1, n=8)])
    for part in (make_model(tok), tok):
        part.save_pretrained(tmp_path / "base")
    cpu = dict(
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        dataloader_pin_memory=False,
        gradient_accumulation_steps=1,
        max_steps=1,
    )
    small = replace_args(COLAB, 0.01)
    small = replace(
        small,
        model=str(tmp_path / "base"),
        stages=tuple(replace(s, args={}) for s in small.stages),
        sft=small.sft | cpu | dict(per_device_train_batch_size=2, warmup_steps=0),
        grpo=small.grpo | cpu | dict(max_completion_length=60, max_tool_calling_iterations=2),
    )
    run = train(small, tmp_path / "run")
    models = [tmp_path / "base", *(run.model_of(s) for s in ("full", "names"))]
    first, *later = (AutoModelForCausalLM.from_pretrained(m).state_dict() for m in models)
    for other in later:
        assert other.keys() == first.keys() and any(
            not torch.equal(other[k], first[k]) for k in first
        )
        first = other
    assert run_evals(run, ["grpo"], ["level 1"], n=2)[0]["n"] == 2


def test_a_turn_of_play_has_an_end_of_its_own(run, tmp_path):
    "A model that never stops talking is cut off in each turn, not first at the end of the episode."
    short = replace(TINY, grpo=TINY.grpo | dict(generation_kwargs=dict(max_new_tokens=7)))
    model, tok = Run(short, tmp_path).begin(short.stages[0])
    trainer = grpo_trainer(short, short.stages[1], model, tok, tmp_path)
    assert (
        trainer.generation_config.max_new_tokens == 7
        and NANO.grpo["generation_kwargs"]["max_new_tokens"] == 100
    )


def test_push_needs_a_model_and_a_token(run, monkeypatch):
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    with pytest.raises(ValueError, match="no Hub token"):
        push_to_hub(run, "sft", "someone/x")
    with pytest.raises(ValueError, match="no model of stage nothing"):
        push_to_hub(run, "nothing", "someone/x")


def test_a_killed_run_goes_on_and_ends_like_one_that_was_not(run, tmp_path):
    "kill -9 after the first checkpoint; the same command ends with the same weights."
    import torch
    from safetensors.torch import load_file

    code = f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r}); from test_training import TINY; from sql_env.training import train; train(TINY, {str(tmp_path / 'r')!r}, threads=1, stages=['sft'])"
    p = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | OFFLINE,
    )
    end = time.monotonic() + 120
    while (
        not list((tmp_path / "r").glob("sft/checkpoint-*/trainer_state.json"))
        and p.poll() is None
        and time.monotonic() < end
    ):
        time.sleep(0.02)
    p.send_signal(signal.SIGKILL)
    p.wait()
    assert (
        list((tmp_path / "r").glob("sft/checkpoint-*")) and not (tmp_path / "r/sft/model").exists()
    )
    again = train(TINY, tmp_path / "r", threads=1, stages=["sft"])
    one, two = (load_file(r.model_of("sft") / "model.safetensors") for r in (run, again))
    assert max((one[k] - two[k]).abs().max().item() for k in one) < 1e-4
    steps = [m["step"] for m in read_metrics(again.metrics) if "loss" in m]
    assert steps == sorted(set(steps)) and isinstance(
        one["model.embed_tokens.weight"], torch.Tensor
    )


def test_a_rounding_error_is_no_difference(monkeypatch):
    "Eight times 0.97142857 have a mean that is none of them."
    from types import SimpleNamespace

    import torch
    from trl import GRPOTrainer

    told = torch.tensor([6e-4] * 4 + [-1.0, 1.0, 1.0, -1.0])
    out = dict(
        advantages=told, completion_mask=torch.ones(8, 5, dtype=torch.long), num_items_in_batch=None
    )
    monkeypatch.setattr(
        GRPOTrainer, "_generate_and_score_completions", lambda self, inputs: dict(out)
    )
    cls = _grpo_class(False)
    trainer = object.__new__(cls)
    trainer.model, trainer.accelerator = (
        SimpleNamespace(training=True),
        SimpleNamespace(gather=lambda x: x),
    )
    trainer._metrics = {"train": {"frac_reward_zero_std": [0.0]}}
    assert trainer._generate_and_score_completions([])["num_items_in_batch"] == 20
    assert trainer._metrics["train"]["frac_reward_zero_std"] == [0.5]


def test_groups_without_differences_do_not_count(run):
    "All rewards alike: no gradient, and nothing in the denominator."
    rows = [
        m for m in read_metrics(run.metrics) if m["stage"] == "grpo" and "frac_reward_zero_std" in m
    ]
    assert rows and all(m["grad_norm"] == 0 for m in rows if m["frac_reward_zero_std"] == 1)


def test_an_exam_may_allow_fewer_steps(run, monkeypatch):
    monkeypatch.setattr(t, "evaluate", lambda env, policy, **_: env.reset().budget_remaining)
    names = ["level 1", "level 1, eight steps"]
    assert evaluate_checkpoint(
        run.model_of("sft"), names, 2, dict(NANO.env, budget=11), ""
    ) == dict(zip(names, (11, 8)))
    many, few = ([q.question_id for q in suite_questions(name, 3)] for name in names)
    assert many == few


def test_a_stage_may_play_by_other_rules(run, tmp_path):
    stage = replace(TINY.stages[1], env=dict(budget=6))
    model, tok = Run(TINY, tmp_path).begin(TINY.stages[0])
    trainer = grpo_trainer(TINY, stage, model, tok, tmp_path)
    player = trainer.environment_factories[None]()
    player.reset(**trainer.train_dataset[0])
    assert player.observation.budget_remaining == 6


# ---- recipes


def test_recipes_know_only_settings_of_trl():
    assert [check_recipe(r) for r in RECIPES.values()] == [[], [], []]
    bad = replace(NANO, sft=NANO.sft | dict(nonsense=1))
    assert check_recipe(bad) == [
        "copy: nonsense",
        "few: nonsense",
        "full: nonsense",
        "all: nonsense",
    ]


def test_grpo_batches_hold_whole_groups():
    for r in RECIPES.values():
        for s in r.stages:
            if s.method == "grpo":
                a = r.grpo | s.args
                assert (
                    a["per_device_train_batch_size"]
                    * a.get("gradient_accumulation_steps", 1)
                    % a["num_generations"]
                    == 0
                ), r.name


def test_a_stage_may_draw_other_worlds(tok):
    "Options of a stage's worlds reach both kinds of trainer."
    stage = next(s for s in NANO.stages if s.name == "all")
    few = replace(stage, mix={1: 8})
    kinds = [
        json.dumps(sft_data(r, s, tok, 3).to_list())
        for r in (NANO, COLAB)
        for s in (few, replace(few, world={}))
    ]
    assert kinds[0] != kinds[1] and kinds[2] != kinds[3]
    texts = [[q.question_text for q in grpo_questions(s, 3)] for s in (few, replace(few, world={}))]
    assert texts[0] != texts[1]


def test_lessons_for_large_models_are_conversations(tmp_path, monkeypatch):
    import pickle

    data = sft_data(COLAB, Stage("x", "sft", {1: 4}, schema_level="full"), None)
    assert set(data.column_names) == {"messages", "tools"} and len(data) == 4
    from functools import partial

    from sql_env.trl_adapter import SQLEnvTRL

    assert pickle.loads(
        pickle.dumps(partial(SQLEnvTRL, grpo_questions(Stage("x", "grpo", {1: 4})), **CLUSTER.env))
    )


@pytest.mark.parametrize(
    "e, said",
    [
        (RuntimeError("CUDA out of memory. Tried"), "max_completion_length"),
        (MemoryError(), "max_completion_length"),
        (ValueError("no"), ""),
    ],
)
def test_memory_advice_names_the_knob(e, said):
    assert said in memory_advice(e, "grpo") and bool(memory_advice(e, "grpo")) == bool(said)


def test_metrics_cut_off_in_a_line_are_read(tmp_path):
    (tmp_path / "m").write_text('{"stage": "a", "step": 1}\n{"stage": "a", "st')
    assert read_metrics(tmp_path / "m") == [{"stage": "a", "step": 1}]
    assert plot_metrics(tmp_path / "m").axes


def test_kinds_of_errors_share_a_panel(tmp_path):
    "A kind that a step did not see counts as 0 there."
    lines = [
        dict(
            stage="grpo",
            step=i,
            reward=0.1 * i,
            **({"sql_env/error/syntax": 3.0} if i == 2 else {"sql_env/error/unknown_column": 1.0}),
        )
        for i in (1, 2, 3)
    ]
    (tmp_path / "m").write_text("".join(json.dumps(x) + "\n" for x in lines))
    ax = plot_metrics(tmp_path / "m").axes[-1]
    assert {x.get_label(): list(x.get_ydata()) for x in ax.lines if x.get_alpha()} == {
        "_child1": [0, 3.0, 0],
        "_child3": [1.0, 0, 1.0],
    }
    assert [x.get_text() for x in ax.get_legend().texts] == ["syntax", "unknown_column"]


def test_the_curve_says_how_long_it_takes(tmp_path):
    seen, state = [], SimpleNamespace(global_step=0, max_steps=1000, is_world_process_zero=True)
    keep = _metrics_callback(
        tmp_path / "m", "few", lambda path, title, now=False: seen.append((title, now))
    )
    keep.on_train_begin(None, state, None)
    keep.start -= 600
    state.global_step = 250
    keep.on_log(None, state, None, {"loss": 1.0})
    keep.on_train_end(None, state, None)
    assert seen == [
        ("few: step 250 of 1,000, 30 min left", False),
        ("few: 250 steps in 10 min", True),
    ]
    state.is_world_process_zero, before = (
        False,
        (tmp_path / "m").read_text(),
    )  # another process of several
    keep.on_train_begin(None, state, None)
    keep.on_log(None, state, None, {"loss": 1.0})
    keep.on_train_end(None, state, None)
    assert len(seen) == 2 and (tmp_path / "m").read_text() == before


def test_the_loss_of_play_is_not_drawn(tmp_path):
    lines = [dict(stage="few", step=1, loss=1.0), dict(stage="grpo", step=1, loss=0.1, reward=0.0)]
    (tmp_path / "m").write_text("".join(json.dumps(x) + "\n" for x in lines))
    loss, reward = plot_metrics(tmp_path / "m").axes
    assert [len(ax.lines) // 2 for ax in (loss, reward)] == [1, 1]


def test_a_trained_looking_script_gets_full_marks_in_an_exam(tmp_path):
    "The exam itself: a stand-in that writes the lesson's turns is right in all episodes."
    qs = suite_questions("level 2", 12)
    by_question = {
        talk[1]["content"]: [m for m in talk if m["role"] == "assistant"]
        for talk in expert_transcripts(qs)
    }  # slips and repairs too

    class Stand:
        name, settings = "stand-in", {}

        def complete_many(self, talks, tools, seeds=()):
            from sql_env.policies.base import Completion

            out = []
            for talk in talks:
                said = by_question[talk[1]["content"]][sum(m["role"] == "assistant" for m in talk)]
                out.append(Completion(dict(said), {}, False))
            return out

    from sql_env.evaluation import evaluate
    from sql_env.policies.chat import ChatPolicy

    result = evaluate(
        EpisodeEnv(qs),
        ChatPolicy(Stand(), nudges=0, max_chars=600, system=""),
        batch=12,
        progress=False,
    )
    assert result.success_rate == 1 and set(suite_row(result)["correct"]) == {"1"}
