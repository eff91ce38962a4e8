#!/usr/bin/env python3
"""Fails where an added line has words that readers stumble over.

check_words.py [BASE]

Checks the lines that were added since BASE, a commit: without it, since the branch left origin/main, or else
since the last commit but one. What stands there longer is left alone.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# What to write instead.
WORDS = {
    r"\banew\b": "again, from the start",
    r"(?<!,) but for\b": "except, apart from",
    r"\b(told|tells?|telling) (\w+ )?(apart|from (one|each|a|the|what)\b)": "distinguish",
    r"\bfor want of\b": "because ... is missing",
    r"\b(were it|lest|whence|thereof|hitherto|wherein)\b": "plain words",
    r"\bstem(s|med)? from\b": "come from",
    r"\bin turns\b": "alternately",
    r"\b(go(es)?|going|went) on with\b": "continue with",
    r"\bwhat (is|was) left\b": "the rest, what remains",
    r"\b(comes?|came) back with\b": "return",
    r"\bwithout a word\b": "silently",
    r"\bin vain\b": "without success",
    r"\bTEST(_[FP])?\(\w+, (Of|In|With|From)[A-Z]": "a claim that begins with its verb or subject",
    r"\bdef test_(of|in|with|from)_": "a claim that begins with its verb or subject",
}
NAMES = re.compile(r"\.(h|cpp|cu|cuh|py|sh|md|cmake)$|CMakeLists\.txt$")


def git(*words):
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, errors="replace")
    return done.stdout if done.returncode == 0 else None


def base():
    """The commit to compare with; None where there is no history."""
    branch = git("merge-base", "HEAD", "origin/main")
    if branch is not None and branch != git("rev-parse", "HEAD"):
        return branch.strip()
    return (git("rev-parse", "--verify", "HEAD~1") or git("rev-parse", "--verify", "HEAD") or "").strip() or None


def added_lines(commit):
    """(file, line, text), of files that git does not know yet too."""
    path, line = "", 0
    for text in git("diff", "--unified=0", "--no-ext-diff", "--no-color", commit).splitlines():
        if text.startswith("+++ "):
            path = text[4:].removeprefix("b/")
        elif text.startswith("@@"):
            line = int(re.search(r"\+(\d+)", text)[1])
        elif text.startswith("+"):
            yield path, line, text[1:]
            line += 1
    for path in git("ls-files", "--others", "--exclude-standard").splitlines():
        if NAMES.search(path):
            for line, text in enumerate((ROOT / path).read_text(encoding="utf-8").splitlines(), 1):
                yield path, line, text


def main():
    commit = sys.argv[1] if len(sys.argv) > 1 else base()
    if commit is None:
        print("skipped: no git history")
        return 77
    own = pathlib.Path(__file__).name
    offences = [f"{path}:{line}: {found[0]}: write {instead}"
                for path, line, text in added_lines(commit) if NAMES.search(path) and not path.endswith(own)
                for word, instead in WORDS.items() if (found := re.search(word, text))]
    print("\n".join(offences), end="\n" if offences else "")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
