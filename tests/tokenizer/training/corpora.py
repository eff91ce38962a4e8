"""Corpora on which trainers of tokenizers are compared: name -> texts."""
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from compare_with_python import random_text  # noqa: E402


def tied(chooser):
    """Texts of few letters, in which most pairs are as frequent as others."""
    return [" ".join("".join(chooser.choices("abc", k=chooser.randrange(1, 9))) for _ in range(chooser.randrange(1, 9)))
            for _ in range(chooser.randrange(1, 12))]


def overlapping(chooser):
    """Runs of one letter, whose pairs overlap themselves."""
    return ["".join(chooser.choice("aab") * chooser.randrange(1, 12) for _ in range(chooser.randrange(1, 6)))
            for _ in range(chooser.randrange(1, 6))]


def corpora(pages):
    chooser = random.Random(18)
    named = {"pages": [page.read_text(encoding="utf-8") for page in pages],
             "random": [random_text(chooser) for _ in range(800)],
             "one word": ["aaaa"],
             "long words": ["ab" * 3000 + "c", "\u4e2d\u6587" * 900 + "a" * 20000, "x" * 15 + " " + "x" * 16],
             "words": ["low lower lowest new newer newest wide wider widest 12345 it's IT'S 'tis \r\n\n  \t end  "] * 3}
    for round_ in range(40):
        named[f"tied {round_}"] = tied(chooser)
        named[f"overlapping {round_}"] = overlapping(chooser)
    return named
