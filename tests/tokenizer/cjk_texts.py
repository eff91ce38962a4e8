"""Words, texts and vocabularies of Chinese, Japanese, Korean and Thai characters."""
import unicodedata


def is_assigned(text):
    return all(unicodedata.category(character) != "Cn" for character in text)


def cjk_corpus(chooser):
    """Made words of few characters, some of which come often."""
    blocks = [range(0x4E00, 0x4E60), range(0x3042, 0x3060), range(0x30A2, 0x30C0), range(0xAC00, 0xAC40),
              range(0x3001, 0x3003), range(0x0E01, 0x0E30), range(0x61, 0x66)]
    words = ["".join(map(chr, chooser.choices(block, k=chooser.randrange(1, 5)))) for block in blocks for _ in range(80)]
    often = [1 / rank for rank in range(1, len(words) + 1)]
    chooser.shuffle(words)
    return "\n".join("".join(chooser.choices(words, often, k=30)) for _ in range(2000))


def texts_of_boundaries(chooser, values, count):
    """Texts of what tokens with characters of three bytes hold, whole and in parts: characters that a token has side by side
    stand beside others that none has, and libmeg cuts words between the latter."""
    wide = [value for value in values if any(0xE0 <= byte < 0xF0 for byte in value)]
    texts = []
    while wide and len(texts) < count:
        parts = []
        for value in chooser.choices(wide, k=chooser.randrange(1, 40)):
            begin, end = sorted(chooser.choices(range(len(value) + 1), k=2))
            parts.append(chooser.choice([value, value, value[begin:end], chooser.choice([b" ", b"a", b"\xc3\xa9", b"\n"])]))
        texts.append("".join(filter(is_assigned, b"".join(parts).decode(errors="ignore"))))
    return texts


def untrained_values(chooser):
    """Bytes and parts of words in an order that no training gives, so that many are never merged."""
    data = cjk_corpus(chooser).encode()
    values = [bytes([byte]) for byte in range(256)]
    for _ in range(3000):
        begin = chooser.randrange(len(data) - 12)
        values.append(data[begin:begin + chooser.randrange(1, 12)])
    return list(dict.fromkeys(values))
