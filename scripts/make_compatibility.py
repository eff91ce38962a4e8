#!/usr/bin/env python3
"""Writes docs/compatibility.md: what libmeg's programs make of each of Megatron-LM's flags.

make_compatibility.py PROGRAM_FOLDER [--check]

Asks the programs themselves (--list-arguments), so that the page cannot promise what they do not do.
--check: writes nothing, exit status 1 where the page differs.
"""
import difflib
import pathlib
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "compatibility.md"
# The flags of each of Megatron's command lines, and the programs that stand for it.
TABLES = {
    "training": ("Training", ["pretrain_gpt", "evaluate_gpt", "prepare_cache", "report_theoretical_memory"]),
    "tasks": ("`tasks/main.py`", ["evaluate_gpt"]),
    "text generation": ("Text generation", ["generate", "run_text_generation_server"]),
    "preprocess": ("`tools/preprocess_data.py`", ["preprocess_data"]),
    "convert": ("`tools/checkpoint/convert.py`, `tools/checkpoint_util.py`", ["checkpoint_util"]),
}
INTRODUCTION = """# Compatibility with Megatron-LM

Made by `scripts/make_compatibility.py` of what the programs say themselves (`PROGRAM --list-arguments`); a test holds
it equal. It has every flag that Megatron-LM had at one of the revisions from `v2.6` to `core_v0.19.0`.

- **read**: does what it does in Megatron.
- **refused**: an error with exit code 1 that names the flag, because it would change the model, the data, the
  schedule ... and is not done yet. Its default value is accepted.
- **ignored**: accepted with a note that gives the reason. Tokens, samples, texts, files and the numbers of a run are what
  they would be without it, but for the rounding of another kernel or another order of sums; where Megatron would write
  something more (W&B, `progress.txt`, profiles), the note says that it is not written.

`generate` and `run_text_generation_server` treat training flags as `evaluate_gpt` does, `dataset_inspect --trace` as
`prepare_cache` does. The same table judges the args in checkpoints: a field of the model that differs from the
default and that is refused here is an error on load.
"""


def arguments_of(program):
    """(family, flag) -> row of a program's --list-arguments."""
    text = subprocess.run([program, "--list-arguments"], check=True, capture_output=True, text=True).stdout
    titles, *lines = (line.split("\t") for line in text.splitlines())
    rows = [dict(zip(titles, line)) for line in lines]
    return {(row["family"], row["flag"]): row for row in rows}


def revisions(row):
    return row["since"] if row["since"] == row["until"] else f"{row['since']} to {row['until']}"


def cell(row):
    return f"ignored: {row['why']}" if row["here"] == "ignored" else row["here"]


def table(family, title, programs, arguments):
    first = {flag: row for (of, flag), row in arguments[programs[0]].items() if of == family}
    text = f"\n## {title}\n"
    for effect in dict.fromkeys(row["effect"] for row in first.values()):
        text += f"\n### Changes the {effect}\n" if effect != "nothing" else "\n### Changes nothing\n"
        text += f"\n| flag | revisions | {' | '.join(f'`{program}`' for program in programs)} |\n"
        text += "|---|---|" + "---|" * len(programs) + "\n"
        for flag, row in first.items():
            if row["effect"] != effect:
                continue
            names = ", ".join(f"`{name.strip('()')}`" for name in [flag, *row["other names"].split()])
            cells = [cell(arguments[program][family, flag]) for program in programs]
            text += f"| {names} | {revisions(row)} | {' | '.join(cells)} |\n"
    return text


def page(folder):
    arguments = {program: arguments_of(folder / program) for _, programs in TABLES.values() for program in programs}
    return INTRODUCTION + "".join(table(family, *names, arguments) for family, names in TABLES.items())


def main():
    text = page(pathlib.Path(sys.argv[1]))
    if "--check" not in sys.argv:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    lines = difflib.unified_diff(PAGE.read_text(encoding="utf-8").splitlines(), text.splitlines(),
                                 "docs/compatibility.md", "the programs", lineterm="", n=0)
    differences = list(lines)
    print("\n".join(differences[:40]))
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
