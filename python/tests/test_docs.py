"""The Python shown in README.md and docs/python.md runs, section by section."""

import os
import re
from pathlib import Path

import pytest

ROOT = Path(os.environ.get("MEG_DOCS", Path(__file__).resolve().parents[2]))
NEEDS = {"Checkpoints": "torch", "Datasets": "torch", "Samples of a run": "torch", "Tokenizers": "tokenizers"}


def sections():
    for page in ("README.md", "docs/python.md"):
        for section in re.split(r"^## ", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
            code = "".join(re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL))
            if code:
                yield pytest.param(section.partition("\n")[0], code, id=section.partition("\n")[0])


@pytest.mark.parametrize("title, code", list(sections()))
def test_what_is_shown_runs(title, code, tmp_path, monkeypatch):
    if title in NEEDS:
        pytest.importorskip(NEEDS[title])
    (tmp_path / "testdata").symlink_to(ROOT / "testdata")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, title, "exec"), {"__name__": "__main__"})
