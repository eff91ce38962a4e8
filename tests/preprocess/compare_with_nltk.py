#!/usr/bin/env python3
"""Sentences: SentenceSplitter against nltk's Punkt, with models trained here, on texts and on random mixtures.

usage: compare_with_nltk.py SPLIT_SENTENCES [TEXTS [SEED]]
"""
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest

try:
    from nltk.tabdata import TabEncoder
    from nltk.tokenize.punkt import (PunktLanguageVars, PunktParameters, PunktSentenceTokenizer, PunktTrainer)
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

PROGRAM, TEXTS, SEED = "", 800, 1
SHARED = os.environ.get("MEG_SHARED") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../shared")
SENTENCES = (
    "Mr. Smith went to Washington. He met Dr. Jones, who lives at 5 St. James St. in the city. It was Jan. 5. "
    "The U.S. team won! Did it? Yes, by 3.5 to 2. The company (Acme Inc.) grew. \"Really?\" she said. J. S. Bach "
    "wrote it. Cf. p. 12. The end came at 5 p.m. Then they left. He said: 'Go.' They went... And so on. See No. 7. "
    "Prof. Müller kam an. Ende gut. The vice-pres. resigned. Vice-pres. Miller spoke. etc. Mr. Smith spoke again. ")
PIECES = [
    "Mr.", "Dr.", "the", "The", "He", "he", "U.S.", "p.m.", "J.", "S.", "Bach", "etc.", "5.", "3.5", "-2,000.5", ".5", "No.",
    "vice-pres.", "word", "Word", "end.", "end?", "end!", "end?!", "...", ". . .", ". .", "..", "--", "---", "-", ",", ";", ":",
    "(", ")", "(a.)", ".)", ".\"", "?'", "\"", "'", "\u201c", "\u201d", "\u2018", "\u2019", "\u00ab", "\u00bb", "[", "]", "{", "}",
    "`", "&", "#", "*", "@", ".", "?", "!", "a.b", "a.B.", "é.", "É.", "ß.", "Σ.", "ΟΔΟΣ.", "\u0130.", "ǅ.", "\u00aa.", "\u2160.",
    "²", "²." "٣.", "٣", "_.", "\u200d.", "\u0301.", "中。", "中.", "\U0001F600.", "\u2028", "\u0085", "\u00a0", "\x1c", "\x1f.",
    "\x0b", "\x0c", "\u3000", "\ufeff", "i.e.,", "x,y", "x,", ",x", "x,.", "don't", "http://a.b/c.d?e=f!", "a--b.", "a..b", "b. ",
]
SPACES = [" ", " ", " ", "", "", "\n", "\n\n", "\r\n", "\t", "  ", "\u00a0", " \n ", "\u2003"]


class KeptNewlines(PunktLanguageVars):
    """As --keep-newlines has it: the match takes the word before the mark and the whitespace after it."""
    _period_context_fmt = r"\S*%(SentEndChars)s\s*(?=(?P<after_tok>%(NonWord)s|(?P<next_tok>\S+)))"


def without_line_ends(parameters):
    """nltk's files cannot hold types with what ends a line for Python, and looking a type up adds it."""
    def is_whole(word):
        return not set(word) & set("\r\n\f\v\x1c\x1d\x1e")
    parameters.abbrev_types = {word for word in parameters.abbrev_types if is_whole(word)}
    parameters.sent_starters = {word for word in parameters.sent_starters if is_whole(word)}
    parameters.collocations = {pair for pair in parameters.collocations if is_whole("".join(pair))}
    for word in [word for word in parameters.ortho_context if not is_whole(word)]:
        del parameters.ortho_context[word]
    return parameters


def save(parameters, folder):
    encoder = TabEncoder()
    for name, text in (("abbrev_types.txt", encoder.set2txt(parameters.abbrev_types)),
                       ("sent_starters.txt", encoder.set2txt(parameters.sent_starters)),
                       ("collocations.tab", encoder.tups2tab(parameters.collocations)),
                       ("ortho_context.tab", encoder.ivdict2tab(parameters.ortho_context))):
        with open(os.path.join(folder, name), "w", encoding="utf-8", newline="") as file:
            file.write(text)


def trained(texts):
    trainer = PunktTrainer()
    trainer.INCLUDE_ALL_COLLOCS = True
    trainer.ABBREV = 0.05
    trainer.train("\n".join(texts), finalize=True)
    return trainer.get_params()


def hand_made():
    parameters = PunktParameters()
    parameters.abbrev_types = {"mr", "dr", "u.s", "p.m", "etc", "no", "pres", "a.b", "é", "οδος", "i\u0307", "中"}
    parameters.sent_starters = {"he", "the", "word"}
    parameters.collocations = {("##number##", "the"), ("s", "bach"), ("mr", "end.")}
    for number, word in enumerate(["the", "he", "word", "bach", "end", "j", "s", "é", "don't", "a.b", "word"]):
        parameters.ortho_context[word] = (number * 22) % 127
    return parameters


def shared_texts(name):
    path = os.path.join(SHARED, "oracle/datasets/inputs", name)
    if not os.path.isfile(path):
        return []
    with open(path, encoding="utf-8", newline="") as file:
        texts = [json.loads(line)["text"] for line in file.read().split("\n") if line.strip()]
    return [text for text in texts if isinstance(text, str)]


class Sentences(unittest.TestCase):
    def split(self, parameters, texts, keep_newlines, max_characters):
        data = [text.encode() for text in texts]
        with tempfile.TemporaryDirectory() as folder:
            save(parameters, folder)
            done = subprocess.run([PROGRAM, folder, str(int(keep_newlines)), str(max_characters)],
                                  input=b"".join(struct.pack("<I", len(text)) + text for text in data),
                                  stdout=subprocess.PIPE, check=True)
        numbers = iter(struct.unpack(f"<{len(done.stdout) // 4}I", done.stdout))
        sentences = []
        for text in data:
            places = [(next(numbers), next(numbers)) for _ in range(next(numbers))]
            sentences.append([text[at:at + size].decode() for at, size in places])
        return sentences

    def compare(self, parameters, texts, max_characters=1_000_000):
        for keep_newlines in (False, True):
            without_line_ends(parameters)
            punkt = PunktSentenceTokenizer(parameters, lang_vars=KeptNewlines() if keep_newlines else None)
            found = self.split(parameters, texts, keep_newlines, max_characters)
            for text, sentences in zip(texts, found):
                pieces = [text[at:at + max_characters] for at in range(0, len(text), max_characters)]
                expected = [sentence for piece in pieces for sentence in punkt.tokenize(piece)]
                self.assertEqual(sentences, expected, f"{text[:2000]!r}, keep_newlines {keep_newlines}")

    def random_texts(self, count):
        source = random.Random(SEED)
        return ["".join(source.choice(PIECES) + source.choice(SPACES) for _ in range(source.randrange(1, 25)))
                for _ in range(count)]

    def test_prose(self):
        self.compare(trained([SENTENCES] * 3), [SENTENCES, SENTENCES.replace(" ", "\n"), "", ".", " ", "\n.\n"])

    def test_random_mixtures_with_a_made_model(self):
        self.compare(hand_made(), self.random_texts(TEXTS))

    def test_random_mixtures_with_a_trained_model(self):
        texts = self.random_texts(TEXTS // 2)
        self.compare(trained(texts[:500] + [SENTENCES] * 5), texts)

    def test_texts_in_pieces(self):
        self.compare(hand_made(), self.random_texts(TEXTS // 10), max_characters=17)

    def test_texts_of_the_oracle(self):
        texts = shared_texts("lambada.jsonl") + shared_texts("stress.jsonl") + shared_texts("fuzz.jsonl")
        if not texts:
            self.skipTest("no shared folder")
        self.compare(trained(shared_texts("lambada.jsonl")), [text for text in texts if len(text) < 20000][::4])

    def test_every_character(self):
        """Case, letters, digits, whitespace and punctuation: each character in places where they decide."""
        codes = [*range(1, 0x590), *range(0x590, 0x3100, 3), *range(0x3100, 0xD800, 97), *range(0xE000, 0x20000, 11)]
        characters = [chr(code) for code in codes]
        parameters = hand_made()
        parameters.abbrev_types |= {f"x{c}y".lower() for c in characters if not c.isspace()}
        texts = [f"{c}. He x{c}Y. He 1{c}. the x.{c} a. {c}a b" for c in characters]
        texts += [f"Aσ{c}Σ. He ΑΣ{c}. The" for c in characters]
        self.compare(parameters, texts)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    TEXTS, SEED = [int(sys.argv.pop(1)) if len(sys.argv) > 1 and sys.argv[1].isdigit() else default
                   for default in (TEXTS, SEED)]
    unittest.main()
