#!/usr/bin/env python3
"""Compares the pages (README.md, docs/, examples/) with the sources.

- links lead to files and headings that exist
- C++ shown is part of a file in examples/
- figures of the README's performance tables are those of docs/performance.md
- messages that head docs/faq.md's entries are in the sources
- the headers in docs/library.md's table are the user headers of libmeg/installed_headers.txt
- tests and fuzzers that docs/security.md names exist

Prints each offence, exits 1 if there is any. tests/project/page_commands_test.py runs the commands shown.
"""

import pathlib
import re
import sys

from check_components import headers_of

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOREIGN_HEADERS = {"ATen/ATen.h", "nccl.h"}
PAGES = [path for pages in ("*.md", "docs/**/*.md", "examples/**/*.md", "libmeg/**/*.md") for path in ROOT.glob(pages)]


def text_of(path):
    return path.read_text(encoding="utf-8")


def without_code(text):
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors_of(path):
    """The names that a link to a heading of this page may end in, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", without_code(text_of(path)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(text_of(page))):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        linked = (page.parent / name).resolve() if name else page
        if not linked.exists():
            yield f"link to {target}: no such file"
        elif anchor and linked.suffix == ".md" and anchor not in anchors_of(linked):
            yield f"link to {target}: no such heading"


def flowed(code):
    """Code without what the formatter decides: where lines break."""
    return "".join(code.split())


def unknown_code(page):
    examples = [flowed(text_of(path)) for path in ROOT.glob("examples/**/*.*")]
    for block in re.findall(r"^```cpp\n(.*?)^```", text_of(page), re.MULTILINE | re.DOTALL):
        if not any(flowed(block) in example for example in examples):
            yield f"code that is in no file of examples/: {block.splitlines()[0]} ..."


def unmeasured_figures(page):
    if page.name != "README.md" or page.parent != ROOT:
        return
    measured = set(re.findall(r"\d+(?:\.\d+)?", text_of(ROOT / "docs" / "performance.md")))
    section = text_of(page).partition("\n## Performance\n")[2].partition("\n## ")[0]
    for line in section.splitlines():
        cells = line.strip("|").split("|")[1:] if line.startswith("|") else []
        for figure in re.findall(r"\d+(?:\.\d+)?", " ".join(cells)):
            if figure not in measured:
                yield f"{figure}: not among the measurements of docs/performance.md: {line}"


def messages_of_the_sources():
    """All string literals, adjacent ones joined, with `...` for what a format fills in."""
    paths = [path for where in ("libmeg", "tools") for path in (ROOT / where).rglob("*.cpp")]
    paths += [path for where in ("libmeg", "tools") for path in (ROOT / where).rglob("*.h")]
    text = "\n".join(map(text_of, paths + sorted(ROOT.glob("scripts/*.sh"))))
    joined = re.sub(r'"\s*\n\s*"', "", text)
    # The library's fields, as programs print them.
    joined = re.sub(r"`(\w+)( = false)?`",
                    lambda field: ("--no-" if field[2] else "--") + field[1].replace("_", "-"), joined)
    return re.sub(r"(\{[^{}\n]*\}|\$\w+)+", "...", joined)


def stale_messages(page):
    if page.name != "faq.md":
        return
    sources = messages_of_the_sources()
    for message in re.findall(r"^### `(.+)`$", text_of(page), re.MULTILINE):
        # Prefixes and what follows are put together at run time.
        if message.removeprefix("...: ").removesuffix(": ...").removesuffix(" ...") not in sources:
            yield f"no source prints: {message}"


def unknown_headers(page):
    if page.name == "CHANGELOG.md":
        return
    ours = [path.as_posix() for where in ("libmeg", "tools", "tests") for path in (ROOT / where).rglob("*.h")]
    for header in re.findall(r"`([\w./]+\.h)`", text_of(page)):
        if header not in FOREIGN_HEADERS and not any(path.endswith("/" + header) for path in ours):
            yield f"no header {header}"


def other_user_headers(page):
    if page.name != "library.md":
        return
    expected, _ = headers_of(text_of(ROOT / "libmeg" / "installed_headers.txt"))
    cells = re.findall(r"^\| (`libmeg/[^|]+) \|", text_of(page), re.MULTILINE)
    shown = set(re.findall(r"`([^`]+)`", " ".join(cells)))
    yield from (f"user header {header} is not in the table" for header in sorted(expected - shown))
    yield from (f"{header} is no user header" for header in sorted(shown - expected))


def names_of_tests():
    tests = [(path, text_of(path)) for path in (ROOT / "tests").rglob("*") if path.suffix in (".cpp", ".py")]
    for path, text in tests:
        yield from (f"{suite}.{name}" for suite, name in re.findall(r"^TEST(?:_[FP])?\((\w+), (\w+)\)", text,
                                                                    re.MULTILINE))
        yield from (f"{path.name}: {name}" for name in re.findall(r"^ *def (test_\w+)", text, re.MULTILINE))
        if path.stem.endswith("_fuzz"):
            yield path.stem


def unknown_tests(page):
    if page.name != "security.md":
        return
    known = set(names_of_tests())
    named = re.findall(r"`([A-Z]\w+\.[A-Z]\w+|\w+\.py: \w+|\w+_fuzz)`", text_of(page))
    yield from (f"no test {name}" for name in named if name not in known)
    yield from (f"fuzzer {name} is not named" for name in sorted(known)
                if name.endswith("_fuzz") and name not in named)


CHECKS = [broken_links, unknown_code, unmeasured_figures, stale_messages, unknown_headers, other_user_headers, unknown_tests]


def main():
    offences = [f"{page.relative_to(ROOT)}: {offence}"
                for page in sorted(PAGES) for check in CHECKS for offence in check(page)]
    print("\n".join(offences))
    sys.exit(1 if offences else 0)


if __name__ == "__main__":
    main()
