#!/usr/bin/env python3
"""Says of a run of ctest what went wrong, after its own summary, where logs that are cut still show it.

check_results.py JUNIT [LIST]

JUNIT: what `ctest --output-junit` wrote. Prints each skip that tests/allowed_skips.txt (or LIST) does not list, and the
end of each failed test's output; exits 1 if there is any of them.
"""
import os
import pathlib
import re
import sys
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[1]
SHARED = pathlib.Path(os.environ.get("MEG_SHARED") or ROOT.parent / "shared")
# What GoogleTest, our scripts and run_cli_tests.sh print before or after the reason.
REASONS = re.compile(r"^(?:.*: Skipped\n|skipped: |SKIPPED \S+: )(.*)$", re.MULTILINE)
# The last line of unittest and of pytest, for cases within one test of ctest.
CASES = re.compile(r"^(?:OK \(.*skipped=(\d+).*\)|\d+ passed.* (\d+) skipped.* in [\d.]+s.*)$", re.MULTILINE)
# Of a failed test's output.
LAST_LINES = 40


def failures(cases):
    """NAME, and the end of the output, of every test that failed."""
    for case in cases:
        if case.find("failure") is not None:
            lines = (case.findtext("system-out") or "").splitlines()
            yield case.get("name"), lines[-LAST_LINES:]


def skips(cases):
    """NAME: REASON of every test that was skipped, and of every one of which some cases were."""
    for case in cases:
        output = case.findtext("system-out") or ""
        if case.find("skipped") is not None:
            reason = REASONS.search(output)
            yield f"{case.get('name')}: {reason[1] if reason else 'no reason given'}"
        elif cases := CASES.search(output):
            yield f"{case.get('name')}: skipped={cases[1] or cases[2]}"


def allowed(path):
    """The patterns that hold for this run."""
    holds = {"anywhere": True, "without shared": not SHARED.is_dir(),
             "without torch": os.environ.get("MEG_WITH_TORCH", "ON").upper() in ("OFF", "0", "NO", "FALSE")}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            when, pattern, _ = (part.strip() for part in line.split(" | "))
            if holds[when]:
                yield re.compile(pattern)


def main():
    patterns = list(allowed(pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "tests/allowed_skips.txt"))
    cases = list(xml.etree.ElementTree.parse(sys.argv[1]).iter("testcase"))
    refused = [skip for skip in skips(cases) if not any(pattern.search(skip) for pattern in patterns)]
    for skip in refused:
        print(f"skipped, but not in tests/allowed_skips.txt: {skip}", file=sys.stderr)
    failed = list(failures(cases))
    for name, lines in failed:
        print(f"failed: {name}", *lines, sep="\n  ", file=sys.stderr)
    return 1 if refused or failed else 0


if __name__ == "__main__":
    sys.exit(main())
