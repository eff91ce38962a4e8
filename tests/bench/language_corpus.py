"""Corpora of languages that the shared ones lack: words of the package wordfreq 3.1.1, each as often as there, and of
pythainlp 5.4.0 (whose words have no frequencies) for Thai, in sentences. Such texts have the words and scripts of a
language, not its sentences.
"""
import itertools
import json
import os
import random

# By code, with the share of words that a space separates from the next one.
LANGUAGES = {"ar": 1, "bn": 1, "el": 1, "fa": 1, "he": 1, "hi": 1, "ja": 0, "ko": 1, "ru": 1, "ta": 1, "th": 0.2, "vi": 1}


def words_of(language):
    """The words and how often each is to come."""
    if language == "th":
        from pythainlp.corpus import thai_words
        words = sorted(thai_words())
        random.Random(3).shuffle(words)
        return words, [1 / (rank + 3) for rank in range(len(words))]
    import wordfreq
    words = wordfreq.get_frequency_dict(language)
    return list(words), list(words.values())


def make_language_corpus(language, megabytes, path):
    """Writes JSON lines."""
    chooser = random.Random(1)
    words, weights = words_of(language)
    often = list(itertools.accumulate(weights))

    def separator():
        kind = chooser.random()
        if kind < 0.1:
            return ", " if kind < 0.05 else ". "
        if kind < 0.11:
            return "\n"
        return " " if chooser.random() < LANGUAGES[language] else ""

    with open(path, "w", encoding="utf-8") as out:
        while out.tell() < megabytes * 1_000_000:
            chosen = chooser.choices(words, cum_weights=often, k=chooser.randrange(100, 600))
            text = "".join(word + separator() for word in chosen)
            out.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
