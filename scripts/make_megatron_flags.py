#!/usr/bin/env python3
"""Writes tools/common/megatron_flags_table.cpp: every flag of Megatron-LM's trainer, of all revisions given.

make_megatron_flags.py CHECKOUT [CHECKOUT ...]. The sources are read, never run: add_argument() calls of
arguments.py and, since core 0.16, the dataclasses that ArgumentGroupFactory turns into flags.
"""
import ast
import os
import sys

OUTPUT = os.path.join(os.path.dirname(__file__), "..", "tools", "common", "megatron_flags_table.cpp")
SWITCH, VALUE, LIST = "kSwitches", "kValues", "kLists"
WIDTH = 88


def constant(node):
    return node.value if isinstance(node, ast.Constant) else None


def arity_of(keywords):
    """Of add_argument()'s keyword arguments."""
    action = constant(keywords.get("action"))
    nargs = constant(keywords.get("nargs"))
    if action in ("store_true", "store_false", "store_const", "help", "version"):
        return SWITCH
    return LIST if nargs in ("*", "+", "?") or isinstance(nargs, int) and nargs > 1 else VALUE


def called_name(call):
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def calls_of(tree, name):
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call) and called_name(node) == name]


def parse(path):
    with open(path, encoding="utf-8") as file:
        return ast.parse(file.read())


def classes_below(folder):
    """Name -> ClassDef of every class that a factory could mean."""
    found = {}
    for place, _, names in os.walk(os.path.join(folder, "megatron")):
        for name in names:
            if name.endswith(".py"):
                for node in parse(os.path.join(place, name)).body:
                    if isinstance(node, ast.ClassDef):
                        found.setdefault(node.name, node)
    return found


def fields_of(name, classes):
    """Name -> AnnAssign of a dataclass and its bases."""
    node, fields = classes[name], {}
    for base in node.bases:
        if getattr(base, "id", None) in classes:
            fields.update(fields_of(base.id, classes))
    for line in node.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            fields[line.target.id] = line
    return fields


def dict_of(node):
    return {constant(k): v for k, v in zip(node.keys, node.values)} if isinstance(node, ast.Dict) else {}


def flags_of_field(name, line):
    """(name, arity) of each flag that the factory makes of a dataclass field."""
    given = {}
    default = line.value
    if isinstance(line.value, ast.Call) and called_name(line.value) == "field":
        keywords = {k.arg: k.value for k in line.value.keywords}
        if constant(keywords.get("init")) is False:
            return
        default = keywords.get("default")
        given = dict_of(dict_of(keywords.get("metadata", ast.Dict([], []))).get("argparse_meta"))
    kind = ast.unparse(line.annotation)
    switch = kind.replace(" ", "") in ("bool", "Optional[bool]", "bool|None")
    dashed = name.replace("_", "-")
    names = ["--" + dashed]
    if switch and constant(default):
        names = ["--no-" + dashed, "--disable-" + dashed]
    if "arg_names" in given:
        names = [constant(n) for n in given["arg_names"].elts]
    arity = SWITCH if switch else LIST if "ist[" in kind else VALUE
    if "action" in given or "nargs" in given:
        arity = arity_of(given)
    for one in names:
        yield one, arity


def flags_of(folder):
    for path in ("megatron/arguments.py", "megatron/training/arguments.py"):
        if os.path.exists(os.path.join(folder, path)):
            tree = parse(os.path.join(folder, path))
            break
    for call in calls_of(tree, "add_argument"):
        for name in call.args:
            if str(constant(name)).startswith("--"):
                yield constant(name), arity_of({k.arg: k.value for k in call.keywords})
    factories = calls_of(tree, "ArgumentGroupFactory") + calls_of(tree, "TransformerConfigFactory")
    classes = classes_below(folder) if factories else {}
    for call in factories:
        left_out = set()
        for keyword in call.keywords:
            if keyword.arg == "exclude" and isinstance(keyword.value, ast.List):
                left_out = {constant(e) for e in keyword.value.elts}
        for name, line in fields_of(call.args[0].id, classes).items():
            if name not in left_out:
                yield from flags_of_field(name, line)


def literal(names):
    lines, line = [], ""
    for name in names:
        if len(line) + len(name) + 1 > WIDTH:
            lines.append(line)
            line = ""
        line += name + " "
    lines.append(line.rstrip())
    return "\n         ".join(f'"{line}"' for line in lines)


def main():
    arities = {}
    for folder in sys.argv[1:]:
        for name, arity in flags_of(folder):
            plain = name.replace("_", "-")
            same = arities.setdefault(plain, arity) == arity
            arities[plain] = arity if same else LIST  # any number of values
    text = "// Made by scripts/make_megatron_flags.py of Megatron-LM's sources; do not edit.\n\n"
    text += '#include "tools/common/megatron_flags.h"\n\nnamespace meg::tools {\n'
    for kind, function in ((SWITCH, "switches"), (VALUE, "values"), (LIST, "lists")):
        names = sorted(name for name, arity in arities.items() if arity == kind)
        text += f"\nstd::string_view megatron_{function}() {{\n  return {literal(names)};\n}}\n"
    text += "\n}  // namespace meg::tools\n"
    with open(OUTPUT, "w", encoding="utf-8") as file:
        file.write(text)
    print(f"{len(arities)} flags", file=sys.stderr)


if __name__ == "__main__":
    main()
