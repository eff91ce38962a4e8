#!/usr/bin/env python3
"""Words and sentences: EnglishWords against datatrove's tokenizer of English (spaCy), on texts and random mixtures.

compare_with_spacy.py SPLIT_WORDS [TEXTS [SEED]]
"""
import json
import os
import random
import subprocess
import sys
import unittest

try:
    from datatrove.utils.text import simplify_text
    from datatrove.utils.word_tokenizers import load_word_tokenizer
    TOKENIZER = load_word_tokenizer("en")
    TOKENIZER.word_tokenize("a")
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

PROGRAM, TEXTS, SEED = "", 3000, 1
TESTDATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../testdata")
PIECES = (
    "the The cannot Cannot don't Don't dont won't I'm im i'm we've he'll she'd it's its let's y'all ain't shouldn't've U.S. "
    "U.S.A. e.g. E.g. i.e. a.m. p.m. 10a.m. 10am 8pm Mr. Mrs. Dr. Ph.D. Inc. St. co. vs. vs w/o and/or o'clock 'em 'Cause "
    "ma'am C++ b. z. A. 5km 5 km 10% 3.14 1,000 $5 US$5 5US$ 5$ \u20ac5 5\u20ac 20\u00b0C. \u00b0c. 12m\u00b2 5kg. 5GB 3T "
    "http://a.b.com/c?d=e www.x.org x.org a@b.com a@b mailto:a@b.co 1.2.3.4 10.0.0.1 192.168.1.1 8.8.8.8:80/x 256.1.1.1 "
    "ftp://x.y localhost:80 a.B end.Next end.\"Next well-known a--b a---b a\u2014b a\u2013b a~b 1-2 1+2 1--2 x=y a/b a:b a<b "
    "... .. . ? ! !? .\" .' ?) ) ( (e.g., (a.m.) [1] {x} <b> </b> # * & _ __ a_b _a_ :) :-) :( ;) :D :P XD xD <3 </3 :'( "
    "8) 8-) ^_^ -_- >.< (^_^) \u0ca0_\u0ca0 \u00af\\(\u30c4)/\u00af o.O O.o 0.0 'quoted' \"quoted\" \u201cquoted\u201d "
    "\u2018quoted\u2019 don\u2019t it\u2019s \u2019s 's 'S s' '' \u2019\u2019 \u00e9t\u00e9 \u00c9T\u00c9. na\u00efve \u00fcber- "
    "stra\u00dfe \u041f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440. 5\u043a\u0433 \u4e2d\u6587\u3002 \u4e2d\u6587, "
    "\u3053\u3093\u306b\u3061\u306f\u3001 \ud55c\uad6d\uc5b4 \u0627\u0644\u0639\u0631\u0628\u064a\u0629\u060c \u0966\u0967\u0968 "
    "\U0001f600 \U0001f600\U0001f600 a\U0001f600b \u2122 \u00a9 \u2192 \u2026 \u2026\u2026 a\u2026 \u2026a $ \u00a3 % = + +5 +a "
    "a+ 5+ - -- --- -a a- \u2014 \u2013 a.b.c foo.bar.baz. x.y@z.w @a #tag a#b ~ ~5 5~a \\n \\t \\\") <space> ` ``a'' a`b "
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.com 1st 2nd 'n' rock'n'roll "
    "AT&T R&D Q&A (:) ((a)) [[b]] \"'a'\" ,a a, a,b 1,b a,1 ;; :: a: b; ..a a.. ...a a...b e.g.. e.g.) (i.e.) Mr.X vs.) -e.g. "
    "x-e.g. :)) :-)a a:) =) =D d: 5. 5.. V.V v.v ._. (._.) ><(((*> nuff ol' ol doin' goin' Nov. Dec.; Jan.) Corp.'s Co.'s").split(" ")
SPACES = [" ", " ", " ", " ", "", "", "\n", "\n\n", "  ", "\t", " \n ", "\u00a0", "\u2003", "\x1c", "\u0085"]
CHARACTERS = "aZ0\u00e9\u4e2d.,:;!?'\"()[]{}<>/\\|@#$%^&*-_=+~`\u2019\u201c\u2026\u20ac\u00b0\U0001f600 \n\u0301\u0661"


def texts():
    for name in ("english", "lambada"):
        with open(f"{TESTDATA}/quickstart/{name}.jsonl") as file:
            yield from (json.loads(line)["text"] for line in file)
    random.seed(SEED)
    for i in range(TEXTS):
        kind = i % 3
        if kind == 2:
            yield "".join(random.choices(CHARACTERS, k=random.randrange(30)))
        else:
            yield "".join(random.choice(PIECES) + random.choice(SPACES if kind else [" ", "", "", "'s", ".", ",", ")"])
                          for _ in range(random.randrange(1, 15)))


class Words(unittest.TestCase):
    def test_words_and_sentences_are_those_of_datatrove(self):
        cases = list(texts())
        cases += [simplify_text(text) for text in cases]
        done = subprocess.run([PROGRAM], input="".join(json.dumps(text) + "\n" for text in cases), capture_output=True,
                              text=True, check=True)
        answers = done.stdout.split("\n")
        wrong = 0
        for text, answer in zip(cases, answers):
            answer = json.loads(answer)
            words, sentences = TOKENIZER.word_tokenize(text), len(TOKENIZER.sent_tokenize(text.strip()))
            answer_of_strip = sentences if text != text.strip() else answer["sentences"]
            if (words, sentences) != (answer["words"], answer_of_strip):
                wrong += 1
                if wrong < 20:
                    print(repr(text[:200]), words[:40] if len(words) < 40 else "", answer["words"][:40], sentences,
                          answer["sentences"], sep="\n  ")
        self.assertEqual(wrong, 0)


if __name__ == "__main__":
    PROGRAM = sys.argv[1]
    TEXTS, SEED = (int(argument) for argument in (sys.argv[2:] + [TEXTS, SEED][len(sys.argv) - 2:]))
    unittest.main(argv=sys.argv[:1])
