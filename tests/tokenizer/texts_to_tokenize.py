"""Random texts, and what the test program tokenize_texts makes of them."""
import struct
import subprocess

WORDS = ("the of and to in that it with was for on said he she they there nothing running quickly "
         "unbelievable tokenizers don't it's we're 1984 3.14 U.S.A. Straße naïve façade über "
         "Москва привет мир 東京 日本語 的 是 不 了 中文 한국어 안녕 עברית العربية हिन्दी ไทย ελληνικά "
         "ภาษาไทย ที่ การน้ำ বাংলা தமிழ் ខ្មែរ ﬁne ① ½ ℃ ＡＢＣ ｶﾞ e\u0301 🙂 👩‍👩‍👧 <s> </s> <|user|> <sep0> ▁ ▁▁ a▁b").split()
# Words of scripts that put no spaces between them, and others whose characters have three bytes, too.
UNSPACED = "ไทย ภาษา ที่ การ น้ำ ລາວ ខ្មែរ မြန်မာ हिन्दी वि বাংলা தமிழ் 日本 の か ー 。 한 “ — ▁".split()
# Characters that normalizing may join with one of MARKS behind them.
BASES = "aeinouyACEüкиИеαωאاوकऩডகかカはハ·ᄀ가ཀ≠"
MARKS = "\u0300\u0301\u0303\u0308\u030a\u0327\u0338\u0345\u05bc\u0653\u093c\u09be\u0bbe\u1161\u11a8\u3099\u309a"
SPACES = [" ", "  ", "   ", "\t", "\n", "\u00a0", "\u3000", "\u2003", "\u200b", "\u2028", "\x00", ""]


def random_character(chooser):
    while True:
        code = chooser.randrange(chooser.choice([0x80, 0x800, 0x3100, 0x10000, 0x20000, 0x110000]))
        if not 0xD800 <= code < 0xE000:
            return chr(code)


def random_text(chooser):
    """chooser: a random.Random."""
    parts = []
    for _ in range(chooser.randrange(30)):
        kind = chooser.random()
        length = chooser.choice([1, 1, 2, 3, 5, 8, 40, 300])
        if kind < 0.15:
            parts.append("".join(random_character(chooser) for _ in range(length)))
        elif kind < 0.25:
            parts.append(random_character(chooser) * length)
        elif kind < 0.35:
            parts.append(chooser.choice("aeiou =-.#0\n\t\u2581\u4e00") * length)
        elif kind < 0.45:
            parts.append("".join(chr(chooser.randrange(128)) for _ in range(length)))
        elif kind < 0.5:
            parts.append("".join(chooser.choice(BASES) + chooser.choice(MARKS) for _ in range(length)))
        elif kind < 0.6:
            parts.append("".join(chooser.choices(UNSPACED, k=length)))
        else:
            parts.append(chooser.choice(WORDS))
        parts.append(chooser.choice(SPACES))
    return "".join(parts)


def run(program, mode, kind, path, parts):
    """The bytes that the program gives for each part: a count of bytes or ids, and the bytes."""
    data = b"".join(struct.pack("<I", count) + part for count, part in parts)
    unit = 4 if mode == "encode" else 1
    output = subprocess.run([program, mode, kind, path], input=data, stdout=subprocess.PIPE,
                            check=True).stdout
    at = 0
    for _ in parts:
        (count,) = struct.unpack_from("<I", output, at)
        yield output[at + 4:at + 4 + count * unit]
        at += 4 + count * unit


def encode(program, kind, path, texts):
    """The ids of each text."""
    parts = [(len(text.encode()), text.encode()) for text in texts]
    for ids in run(program, "encode", kind, path, parts):
        yield list(struct.unpack(f"<{len(ids) // 4}i", ids))


def decode(program, kind, path, sequences):
    """The text of each list of ids."""
    parts = [(len(ids), struct.pack(f"<{len(ids)}i", *ids)) for ids in sequences]
    for text in run(program, "decode", kind, path, parts):
        yield text.decode()
