#!/usr/bin/env python3
"""Writes man pages and completions of bash and zsh for libmeg's programs.

make_man_pages.py SHARE_FOLDER PROGRAM...

Asks the programs themselves (--help), so that the pages always match them. `cmake --install` runs it:
SHARE_FOLDER/man/man1/NAME.1, SHARE_FOLDER/bash-completion/completions/NAME, SHARE_FOLDER/zsh/site-functions/_NAME.
"""

import dataclasses
import os
import pathlib
import re
import subprocess
import sys

ENDLESS = "100000"  # Columns, so that --help breaks no line but after long flags.


@dataclasses.dataclass
class Entry:
    """A flag or positional: its name, what --help calls its value, and what it says."""
    name: str
    value: str
    text: str

    @property
    def choices(self):
        found = re.search(r" \{([^}]*)\}", self.text)
        return found.group(1).split(", ") if found else []

    @property
    def takes_path(self):
        return self.value.rstrip(".") in ("FILE", "DIR", "PREFIX")


@dataclasses.dataclass
class Help:
    """What `PROGRAM --help` says, in parts."""
    summary: str
    usage: str
    sections: list  # (title, entries, paragraphs)
    examples: list

    @property
    def flags(self):
        return [entry for entry in self.entries if entry.name.startswith("--")]

    @property
    def commands(self):
        """Those of a program of several commands, each with its own --help: what its positional may be."""
        return [choice for entry in self.entries if not entry.name.startswith("-") for choice in entry.choices]

    @property
    def entries(self):
        return [entry for _, entries, _ in self.sections for entry in entries]


def read_entries(lines):
    """Entries of a section; a line that is none is a paragraph."""
    entries, paragraphs = [], []
    for line in re.sub(r"\n {10,}", "  ", "\n".join(lines)).splitlines():
        entry = re.match(r"  (\S+)(?: (\S+(?: [A-Z]+)*))?  +(.*)$", line)
        if entry:
            entries.append(Entry(entry[1], entry[2] or "", entry[3]))
        else:
            paragraphs.append(line.strip())
    return entries, paragraphs


def read_help(command):
    text = subprocess.run([*command, "--help"], check=True, capture_output=True, text=True,
                          env={**os.environ, "COLUMNS": ENDLESS}).stdout
    body, _, examples = text.partition("\nexamples:\n")
    summary, usage, *blocks = body.strip("\n").split("\n\n")
    sections = []
    for block in blocks:
        lines = block.splitlines()
        title = "" if lines[0].startswith(" ") or len(lines) == 1 else lines.pop(0)
        sections.append((title, *read_entries(lines)))
    return Help(summary.partition(": ")[2], usage.removeprefix("usage: "), sections,
                [line.strip() for line in examples.splitlines()])


def read_pages(program, *path):
    """The --help of a program, under "", and of each of its commands, and theirs."""
    pages = {" ".join(path): read_help([program, *path])}
    for command in pages[" ".join(path)].commands:
        pages |= read_pages(program, *path, command)
    return pages


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return "\\&" + text if text.startswith(".") else text


def man_section(page):
    lines = [".SH SYNOPSIS", roff(page.usage), ".SH DESCRIPTION", roff(page.summary)]
    for title, entries, paragraphs in page.sections:
        lines += [f'.SH "{roff(title.upper())}"'] if title else [".PP"]
        for entry in entries:
            lines += [".TP", f"\\fB{roff(entry.name)}\\fR \\fI{roff(entry.value)}\\fR".replace(" \\fI\\fR", ""),
                      roff(entry.text)]
        lines += [line for text in paragraphs for line in (".PP", roff(text))]
    if page.examples:
        lines += [".SH EXAMPLES", ".nf", *map(roff, page.examples), ".fi"]
    return lines


def man_page(name, pages, version):
    first = pages[""]
    lines = [f'.TH {name.upper()} 1 "" "{version}"', ".SH NAME", f"{name} \\- {roff(first.summary)}"]
    for page in pages.values():
        lines += man_section(page)
    return "\n".join(lines) + "\n"


def flags_of(pages):
    """The flags of all commands of a program, each once."""
    return list({flag.name: flag for page in pages.values() for flag in page.flags}.values())


def bash_completion(name, pages):
    flags = flags_of(pages)
    commands = " ".join(dict.fromkeys(word for command in pages for word in command.split()))
    cases = "".join(f'    {flag.name}) COMPREPLY=($(compgen -W "{" ".join(flag.choices)}" -- "$word")); return ;;\n'
                    for flag in flags if flag.choices)
    return f"""_{name}() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}"
  case "$before" in
{cases}  esac
  if [[ "$word" == -* ]]; then
    COMPREPLY=($(compgen -W "{" ".join(flag.name for flag in flags)}" -- "$word"))
  else
    COMPREPLY=($(compgen -W "{commands}" -- "$word") $(compgen -f -- "$word"))
  fi
}}
complete -o filenames -F _{name} {name}
"""


def zsh_argument(flag):
    text = re.sub(r"([\[\]:\\])", r"\\\1", flag.text).replace("'", "'\\''")
    if not flag.value:
        return f"'{flag.name}[{text}]'"
    action = f"({' '.join(flag.choices)})" if flag.choices else "_files" if flag.takes_path else ""
    return f"'{flag.name}=[{text}]:{flag.value}:{action}'"


def zsh_completion(name, pages):
    commands = [command for command in pages if command and " " not in command]
    first = [f"'1:command:({' '.join(commands)})'"] if commands else []
    arguments = [*map(zsh_argument, flags_of(pages)), *first, "'*:file:_files'"]
    return f"#compdef {name}\n_arguments -s \\\n  " + " \\\n  ".join(arguments) + "\n"


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def main():
    share, *programs = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    for program in programs:
        version = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout
        pages = read_pages(program)
        name = program.name
        write(share / "man" / "man1" / f"{name}.1", man_page(name, pages, version.splitlines()[0].partition(" ")[2]))
        write(share / "bash-completion" / "completions" / name, bash_completion(name, pages))
        write(share / "zsh" / "site-functions" / f"_{name}", zsh_completion(name, pages))


if __name__ == "__main__":
    main()
