#!/usr/bin/env python3
"""Writes libmeg/megatron/argument_rows.cpp from megatron_flags.tsv and arguments.txt, which are beside it.

make_argument_table.py [--check]. With --check nothing is written: exits 1 if the file is not
up to date. Fails, with their names, if flags have no effect in arguments.txt, or two, or do not exist in any
revision; arguments.txt explains its format.
"""
import difflib
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "libmeg" / "megatron"
FAMILIES = {"training": "kTraining", "preprocess": "kPreprocess", "convert": "kConvert", "tasks": "kTasks",
            "text generation": "kTextGeneration", "merge": "kMerge"}
EFFECTS = {name: "k" + name.capitalize() for name in (
    "model", "data", "tokenizer", "schedule", "optimizer", "checkpoint", "parallel", "log", "none")}
MUST_SAY_WHY, MAY_SAY_WHY = {"kNone"}, {"kNone", "kLog"}
# The order is that of ArgumentRow's members; those in ENUMERATORS are no texts, the last one is mostly empty.
MEMBERS = ("family flag other_names dest older_dests arity type default stored choices supported since until "
           "effect reason metavar range help unused").split()
ENUMERATORS = {"family": "ArgumentFamily", "arity": "ArgumentArity", "type": "ArgumentType",
               "effect": "Effect"}


class Mistake(Exception):
    """What is wrong in the two files."""


def plain(name):
    """`_` inside a name counts as `-`."""
    return name.replace("_", "-")


def read_flags(path):
    """The revisions, oldest first, and family -> rows of what Megatron says, in the file's order."""
    lines = path.read_text(encoding="utf-8").splitlines()
    revisions, columns = lines[0].split("\t")[1:], lines[1].split("\t")
    families = {family: [] for family in FAMILIES.values()}
    for line in lines[2:]:
        row = dict(zip(columns, line.split("\t"), strict=True))
        families[row["family"]].append(row)
    return revisions, families


class Table:
    """The rows of all families; what is wrong in arguments.txt stands in `mistakes`."""

    def __init__(self, folder):
        self.revisions, self.families = read_flags(folder / "megatron_flags.tsv")
        self.family, self.effect, self.reason, self.mistakes = None, None, "", []
        self.read(folder / "arguments.txt")

    def read(self, path):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            try:
                self.read_line(line.strip())
            except Mistake as mistake:
                self.mistakes.append(f"{path.name}:{number}: {mistake}")
        for family, rows in self.families.items():
            missing = " ".join(row["flag"] for row in rows if "effect" not in row)
            if missing:
                self.mistakes.append(f"{path.name}: no effect of {family}: {missing}")

    def read_line(self, line):
        if line.startswith("=="):
            self.family, self.effect = FAMILIES[line.strip("= ")], None
        elif line.startswith("["):
            effect, _, reason = line.strip("[]").partition(":")
            self.effect, self.reason = EFFECTS.get(effect), reason.strip()
            if self.effect is None:
                raise Mistake(f"unknown effect {effect}")
            if bool(self.reason) and self.effect not in MAY_SAY_WHY or (
                    not self.reason and self.effect in MUST_SAY_WHY):
                raise Mistake(f"[{effect}]: expected {'a' if not self.reason else 'no'} reason")
        elif line and not line.startswith("#"):
            self.read_row(line)

    def read_row(self, line):
        names, *fields = [field.strip() for field in line.split("|")]
        flags, *others = [words.split() for words in names.split("=")]
        rows = [self.row(flag) for flag in flags]
        if (fields or others) and len(rows) != 1:
            raise Mistake(f"expected one flag, found {names}")
        for row in rows:
            if "effect" in row:
                raise Mistake(f"{row['flag']} stands here twice")
            row.update(effect=self.effect, reason=self.reason, metavar="", range="", help="", supported="",
                       unused="")
        for other in others[0] if others else []:
            self.add_name(rows[0], other)
        self.read_fields(rows[0], fields)

    def row(self, flag, required=True):
        for row in self.families[self.family]:
            names = [row["flag"], *row["other_names"].replace("(", "").replace(")", "").split()]
            if plain(flag) in map(plain, names):
                return row
        if required:
            raise Mistake(f"no revision has {flag}")
        return None

    def add_name(self, row, name):
        """Makes `name`, a flag of older revisions or of libmeg alone, another name of `row`."""
        old = self.row(name, required=False)
        names = [name]
        if old is not None:
            names = [old["flag"], *old["other_names"].replace("(", "").replace(")", "").split()]
            dests = [*row["older_dests"].split(), old["dest"], *old["older_dests"].split()]
            row["older_dests"] = " ".join(dest for dest in dict.fromkeys(dests) if dest != row["dest"])
            row["since"] = min(row["since"], old["since"], key=self.revisions.index)
            row["until"] = max(row["until"], old["until"], key=self.revisions.index)
            self.families[self.family].remove(old)
        row["other_names"] = " ".join([*row["other_names"].split(), *(f"({name})" for name in names)])

    def read_fields(self, row, fields):
        while fields and (key := fields[-1].partition("=")[0]) in ("default", "only", "type", "unused"):
            value = fields.pop().partition("=")[2]
            if key == "type" and (row["type"], value) == ("kInteger", "real"):
                row["type"] = "kReal"
            elif key == "unused":
                row["unused"] = " ".join(self.revision(name) for name in value.split(".."))
            elif key in ("default", "only"):
                row[{"only": "supported"}.get(key, key)] = value
            else:
                raise Mistake(f"{row['flag']}: expected type=real of an integer, found {key}={value}")
        if len(fields) not in ((0, 1) if row["arity"] == "kSwitch" else (0, 3)):
            raise Mistake(f"{row['flag']}: expected METAVAR | range | help, of switches only help")
        row.update(zip(("help",) if len(fields) == 1 else ("metavar", "range", "help"), fields))

    def revision(self, name):
        if name not in self.revisions:
            raise Mistake(f"no revision {name}")
        return name

    def text(self):
        lines = ["// Made by scripts/make_argument_table.py of arguments.txt and megatron_flags.tsv; do not edit.",
                 "", '#include "libmeg/megatron/argument_table.h"', "", "// clang-format off",
                 "namespace meg::megatron {", "namespace {", ""]
        lines += [f"using enum {name};" for name in ENUMERATORS.values()]
        for family, rows in self.families.items():
            lines += ["", f"constexpr ArgumentRow {family}Rows[] = {{"]
            lines += ["  {" + ", ".join(member(name, row[name]) for name in MEMBERS if row[name] or name != "unused") +
                      "}," for row in rows]
            lines += ["};"]
        lines += ["", "}  // namespace", "", "std::span<const ArgumentRow> argument_rows(ArgumentFamily family) {",
                  "  switch (family) {"]
        lines += [f"    case {family}: return {family}Rows;" for family in self.families]
        lines += ["  }", "  return {};", "}", "", "}  // namespace meg::megatron", ""]
        return "\n".join(lines)


def member(name, value):
    if name in ENUMERATORS:
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def main():
    table = Table(FOLDER)
    if table.mistakes:
        sys.exit("\n".join(table.mistakes))
    output, text = FOLDER / "argument_rows.cpp", table.text()
    if sys.argv[1:] == ["--check"]:
        found = output.read_text(encoding="utf-8")
        difference = difflib.unified_diff(found.splitlines(), text.splitlines(), "found", "expected", n=0)
        sys.exit("\n".join(difference) or 0)
    output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
