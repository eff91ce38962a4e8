#!/usr/bin/env python3
"""Writes libmeg/megatron/megatron_flags.tsv: the flags of every revision of Megatron-LM.

make_megatron_flags.py REVISION=CHECKOUT [...], oldest first, named as libmeg/megatron/megatron_version.cpp
does; needs Python 3.12, as some of the sources do. They are read, never run: add_argument() calls and,
since core 0.16, the dataclasses that ArgumentGroupFactory turns into flags. Only facts are kept: names,
types, defaults, choices, revisions. libmeg/megatron/arguments.txt says what the flags do;
scripts/make_argument_table.py joins the two.
"""
import ast
import glob
import itertools
import operator
import os
import sys

OUTPUT = os.path.join(os.path.dirname(__file__), "..", "libmeg", "megatron", "megatron_flags.tsv")
COLUMNS = "family flag other_names dest older_dests arity type default stored choices since until".split()

# Whose calls of add_argument() make up a family's command line. The trainer's come first: the others'
# flags that are also there are the trainer's.
FAMILIES = {
    "kTraining": ["megatron/arguments.py", "megatron/training/arguments.py",
                  "megatron/post_training/arguments.py"],
    "kPreprocess": ["tools/preprocess_data.py"],
    "kConvert": ["tools/merge_mp_partitions.py", "tools/checkpoint_util.py",
                 "tools/checkpoint_loader_*.py", "tools/checkpoint_saver_*.py",
                 "tools/checkpoint/convert.py", "tools/checkpoint/util.py",
                 "tools/checkpoint/loader_*.py", "tools/checkpoint/saver_*.py"],
    "kTasks": ["tasks/main.py"],
    "kTextGeneration": ["tools/run_*text_generation_server*.py", "tools/text_generation_cli.py",
                        "tools/generate_samples_gpt.py",
                        "examples/academic_paper_scripts/detxoify_lm/generate_samples_gpt.py",
                        "examples/detxoify_lm/generate_samples_gpt.py",
                        "megatron/inference/arguments.py", "megatron/inference/utils.py",
                        "examples/inference/gpt/*.py", "examples/inference/launch_*.py",
                        "examples/inference/offline_*.py", "examples/inference/advanced/gpt_*.py"],
    "kMerge": ["tools/merge_datasets.py"],
}

OPERATORS = {ast.Add: operator.add, ast.Mult: operator.mul, ast.Pow: operator.pow}


class Flag:
    """One add_argument() call of one revision."""

    def __init__(self, names, given):
        self.names = list({plain(name): name for name in reversed(names)}.values())[::-1]
        self.dest = given.get("dest") or names[0].lstrip("-").replace("-", "_")
        action, nargs = given.get("action"), given.get("nargs")
        self.is_switch = action in ("store_true", "store_false", "store_const")
        is_list = nargs in ("*", "+", "?") or isinstance(nargs, int) and nargs > 1
        self.arity = "kSwitch" if self.is_switch else "kList" if is_list else "kValue"
        stored = {"store_true": True, "store_false": False}.get(action, given.get("const"))
        self.stored = repr(stored) if self.is_switch else ""
        implied = {"store_true": False, "store_false": True}.get(action)
        self.default = repr(given.get("default", implied))
        self.type = type_of(type(stored).__name__ if self.is_switch else given.get("type", "str"))
        self.choices = [str(choice) for choice in given.get("choices") or []]


def plain(name):
    """`_` inside a name counts as `-`."""
    return name.replace("_", "-")


def type_of(name):
    """Of the function that Megatron reads a value with; what it does not know stays text."""
    return {"int": "kInteger", "float": "kReal", "bool": "kBool"}.get(name, "kText")


def called_name(call):
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def parse(path):
    with open(path, encoding="utf-8") as file:
        return ast.parse(file.read())


class Checkout:
    """The sources of one revision."""

    def __init__(self, folder):
        self.folder = folder
        self.classes = {}

    def load_classes(self):
        """Finds every class that a factory or a default could mean."""
        pattern = os.path.join(self.folder, "megatron", "**", "*.py")
        for path in [] if self.classes else glob.glob(pattern, recursive=True):
            for node in parse(path).body:
                if isinstance(node, ast.ClassDef):
                    self.classes.setdefault(node.name, node)

    def members_of(self, name):
        """Name -> expression of an enumeration's members, or nothing."""
        self.load_classes()
        node = self.classes.get(name)
        if node is None or not any("Enum" in ast.unparse(base) for base in node.bases):
            return {}
        return {line.targets[0].id: line.value for line in node.body if isinstance(line, ast.Assign)}

    def value(self, node):
        """Of an expression in a call: a literal, arithmetic with literals, a member of an enumeration."""
        try:
            return ast.literal_eval(node)
        except ValueError:
            pass
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "signal":
            return node.attr
        if isinstance(node, ast.Attribute) and node.attr in self.members_of(ast.unparse(node.value)):
            return node.attr
        if isinstance(node, ast.Call) and called_name(node) in ("tuple_type", "float"):
            return self.value(node.args[0])
        if isinstance(node, ast.Call) and called_name(node) == "int":
            return int(self.value(node.args[0]))
        if isinstance(node, ast.Call) and called_name(node) == "range":
            return list(range(*map(self.value, node.args)))
        if isinstance(node, ast.Call) and called_name(node) == "getenv":
            return self.value(node.args[1])
        if isinstance(node, ast.Call) and called_name(node) == "list":
            return list(self.members_of(ast.unparse(node.args[0])))
        if isinstance(node, ast.ListComp):  # [member.name for member in Enumeration], or .value
            members = self.members_of(ast.unparse(node.generators[0].iter))
            return list(members) if node.elt.attr == "name" else list(map(self.value, members.values()))
        if isinstance(node, ast.Lambda):
            return self.value(node.body)
        if isinstance(node, (ast.List, ast.Tuple)):
            return [self.value(element) for element in node.elts]
        if isinstance(node, ast.BinOp):
            return OPERATORS[type(node.op)](self.value(node.left), self.value(node.right))
        raise ValueError(ast.unparse(node))

    def arguments(self, call_keywords):
        """What add_argument()'s keywords say; a type is the name of its function."""
        given = {}
        for name, node in call_keywords.items():
            if name == "type":
                members = self.members_of(ast.unparse(node).removeprefix("lambda attn_backend: ")
                                          .split("[")[0])
                given[name] = "str" if members else ast.unparse(node)
            elif name == "action" and isinstance(node, ast.Attribute):
                given[name] = ast.unparse(node)
            elif name in ("action", "nargs", "const", "dest", "default", "choices", "arg_names"):
                given[name] = self.value(node)
        return given

    def flags_of_call(self, call):
        names = [name for name in map(self.value, call.args) if name.startswith("--")]
        given = self.arguments({k.arg: k.value for k in call.keywords})
        if names and given.get("action") == "argparse.BooleanOptionalAction":
            yield Flag(names, given | {"action": "store_true"})
            off = ["--no-" + name.removeprefix("--") for name in names]
            dest = names[0].removeprefix("--").replace("-", "_")
            yield Flag(off, {"dest": dest} | given | {"action": "store_false"})
        elif names:
            yield Flag(names, given)

    def fields_of(self, name):
        """Name -> AnnAssign of a dataclass and its bases, theirs first."""
        node, fields = self.classes[name], {}
        for base in reversed(node.bases):
            if getattr(base, "id", None) in self.classes:
                fields.update(self.fields_of(base.id))
        for line in node.body:
            if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
                fields[line.target.id] = line
        return fields

    def inferred(self, annotation):
        """What the factory makes of a field's type: the keywords type, nargs, choices."""
        if isinstance(annotation, ast.Constant):  # None, or a type in quotes
            return self.inferred(ast.parse(annotation.value, mode="eval").body)
        if isinstance(annotation, ast.BinOp):  # X | None
            return self.inferred(annotation.left)
        if isinstance(annotation, ast.Subscript):
            inner, outer = annotation.slice, ast.unparse(annotation.value).removeprefix("typing.")
            if outer in ("Optional", "Union"):
                return self.inferred(inner.elts[0] if isinstance(inner, ast.Tuple) else inner)
            if outer in ("list", "List"):
                return self.inferred(inner) | {"nargs": "+"}
            if outer == "Literal":
                choices = list(ast.literal_eval(inner)) if isinstance(inner, ast.Tuple) else [
                    ast.literal_eval(inner)]
                return {"type": type(choices[0]).__name__, "choices": choices}
        name = ast.unparse(annotation)
        members = self.members_of(name)
        return {"type": "str", "choices": list(members)} if members else {"type": name}

    def flag_of_field(self, name, line):
        """What the factory makes of a dataclass field, or None."""
        default, meta = line.value, {}
        if isinstance(default, ast.Call) and called_name(default) == "field":
            keywords = {k.arg: k.value for k in default.keywords}
            if "init" in keywords and self.value(keywords["init"]) is False:
                return None
            default = keywords.get("default", keywords.get("default_factory"))
            metadata = keywords.get("metadata")
            for key, value in zip(metadata.keys, metadata.values) if metadata else ():
                if self.value(key) == "argparse_meta":
                    meta = {self.value(k): v for k, v in zip(value.keys, value.values)}
        dashed = name.replace("_", "-")
        given = self.inferred(line.annotation) | {"dest": name, "arg_names": ["--" + dashed]}
        if isinstance(default, ast.Name) and default.id in ("list", "dict"):
            given["default"] = {"list": [], "dict": {}}[default.id]
        elif default is not None:
            given["default"] = self.value(default)
        if given["type"] == "bool":
            is_set = given.get("default") not in (False,)  # as the factory asks: None is not False
            given["action"] = "store_false" if is_set else "store_true"
            if is_set:
                given["arg_names"] = ["--no-" + dashed, "--disable-" + dashed]
        given |= self.arguments(meta)
        return Flag(given["arg_names"], given)

    def flags_of_factory(self, call):
        self.load_classes()
        left_out = set()
        for keyword in call.keywords:
            if keyword.arg == "exclude":
                left_out = set(self.exclusions[keyword.value.id] if isinstance(
                    keyword.value, ast.Name) else ast.literal_eval(keyword.value))
        for name, line in self.fields_of(call.args[0].id).items():
            if name not in left_out:
                yield self.flag_of_field(name, line)

    def flags_of(self, tree):
        """Of all calls in a piece of source, in its order."""
        self.exclusions = {
            node.targets[0].id: ast.literal_eval(node.value) for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
            and node.targets[0].id == "exclude"}
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        for call in sorted(calls, key=lambda call: (call.lineno, call.col_offset)):
            name = called_name(call)
            if name == "add_argument":
                yield from self.flags_of_call(call)
            elif name in ("ArgumentGroupFactory", "TransformerConfigFactory"):
                yield from self.flags_of_factory(call)
            elif name == "_add_tokenizer_args" and not hasattr(self, "inside"):
                yield from self.flags_of_import(name)

    def flags_of_import(self, name):
        """Of a function of arguments.py that another script calls."""
        for path in self.paths(FAMILIES["kTraining"][:2]):
            for node in parse(path).body:
                if isinstance(node, ast.FunctionDef) and node.name == name:
                    yield from self.flags_of(node)

    def paths(self, patterns):
        found = (sorted(glob.glob(os.path.join(self.folder, pattern))) for pattern in patterns)
        return list(dict.fromkeys(itertools.chain.from_iterable(found)))

    def family(self, name):
        flags = []
        for path in self.paths(FAMILIES[name]):
            tree = parse(path)
            if name == "kTraining":  # parse_args' own calls, not those of functions it calls itself
                tree.body = [node for node in tree.body if getattr(node, "name", "") !=
                             "add_megatron_arguments"]
            flags += [flag for flag in self.flags_of(tree) if flag is not None]
        return flags


class Row:
    """A flag over all revisions; those are merged from the newest to the oldest."""

    def __init__(self, flag, revision):
        self.flag, self.names, self.dests, self.arities = flag, {}, [], set()
        self.choices, self.since, self.until = [], revision, revision
        self.merge(flag, revision)

    def merge(self, flag, revision):
        self.since = revision
        self.arities.add(flag.arity)
        self.names = {plain(name): name for name in flag.names} | self.names
        both_switches = flag.is_switch and self.flag.is_switch
        is_opposite = both_switches and flag.stored != self.flag.stored
        dest = "!" + flag.dest if is_opposite else flag.dest
        self.dests += [dest] if dest not in self.dests else []
        self.choices += [choice for choice in flag.choices if choice not in self.choices]

    def is_older_name(self, flag):
        """Whether `flag`, of an older revision, is this one under another name."""
        mine = self.flag
        return (mine.dest, mine.arity, mine.stored) == (flag.dest, flag.arity, flag.stored)


def merged(revisions, family):
    """The rows of a family; `revisions` are (name, Checkout), oldest first."""
    rows = []
    for revision, checkout in reversed(revisions):
        flags = checkout.family(family)
        present = {plain(name) for flag in flags for name in flag.names}
        for flag in flags:
            same = [row for row in rows if row.names.keys() & set(map(plain, flag.names))]
            same = same or [row for row in rows
                            if row.is_older_name(flag) and not present & row.names.keys()]
            for row in same:
                report_changes(row, flag, revision)
                row.merge(flag, revision)
            if not same:
                rows.append(Row(flag, revision))
    return rows


def report_changes(row, flag, revision):
    """Says on standard error what one name meant differently."""
    for what in ("dest", "arity", "type", "default", "stored"):
        new, old = getattr(row.flag, what), getattr(flag, what)
        if new != old:
            print(f"{row.flag.names[0]}: {what} was {old} at {revision}, is {new}", file=sys.stderr)


def line_of(family, row, default):
    arity = "kList" if len(row.arities) > 1 else row.flag.arity
    flag = row.flag.names[0]
    others = [name for key, name in row.names.items() if key != plain(flag)]
    return "\t".join([family, flag, " ".join(others), row.flag.dest, " ".join(row.dests[1:]), arity,
                      row.flag.type, default, row.flag.stored if arity == "kSwitch" else "",
                      " ".join(row.choices), row.since, row.until])


def main():
    pairs = [argument.split("=", 1) for argument in sys.argv[1:]]
    revisions = [(name, Checkout(folder)) for name, folder in pairs]
    lines = ["\t".join(["revisions", *(name for name, _ in revisions)]), "\t".join(COLUMNS)]
    for family in FAMILIES:
        rows, defaults = merged(revisions, family), {}
        for row in rows:  # as argparse does: the first flag of a field says its default
            default = defaults.setdefault(row.flag.dest, row.flag.default)
            lines.append(line_of(family, row, default))
    with open(OUTPUT, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
