#!/usr/bin/env python3
"""libmeg's pickle reader and writer against Python's own.

pickles_against_python.py REWRITE_PICKLES [VALUES [SEED]]
Python pickles many values by every protocol and both of its picklers. libmeg reads each and writes
it by protocol 2: what CPython's C pickler wrote by protocol 2 comes back byte for byte, everything
else loads as an equal value with the same parts shared. Plain values are described as Python's
ascii() does.
"""
import argparse
import collections
import datetime
import decimal
import enum
import fractions
import io
import pickle
import pickletools
import random
import struct
import subprocess
import sys
import types
import uuid

try:
    import numpy
except ImportError:
    numpy = None


class Color(enum.Enum):
    RED = 1
    GREEN = "green"


class Flags(enum.IntFlag):
    A = 1
    B = 2


class Plain:
    pass


class Slots:
    __slots__ = ("a", "b")

    def __eq__(self, other):
        return self.a == other.a and self.b == other.b

    __hash__ = None


class SlotsAndDict(Slots):
    pass


class ListChild(list):
    pass


class DictChild(dict):
    pass


class SetChild(set):
    pass


class IntChild(int):
    pass


class TupleChild(tuple):
    pass


class Reduced:
    """Reduces to a call with itself reachable from its arguments."""

    def __init__(self, box):
        self.box = box

    def __reduce__(self):
        return Reduced, (self.box,)


class WithKeywords:
    def __new__(cls, *, a):
        self = object.__new__(cls)
        self.a = a
        return self

    def __getnewargs_ex__(self):
        return (), {"a": self.a}


class WithSetter:
    def __reduce__(self):
        return WithSetter, (), {"a": 1}, None, None, set_state


def set_state(target, state):
    target.__dict__.update(state)


Point = collections.namedtuple("Point", "x y")


class Outer:
    class Inner:
        class Innermost:
            pass

    @staticmethod
    def function():
        pass


def plain(**attributes):
    value = Plain()
    value.__dict__.update(attributes)
    return value


def slots(kind, **attributes):
    value = kind()
    for name, attribute in attributes.items():
        setattr(value, name, attribute)
    return value


def numbers():
    yield from [None, True, False, 0, -0.0, 0.0, 1.5, float("inf"), float("-inf"), float("nan"), 1e-320, 1e308, 1e22, 1e16,
                1e15, 123456.789, 0.1, 1e-5, 1e-4]
    for bits in [7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 127, 128, 2039, 2040, 2041, 5000]:
        for offset in (-1, 0, 1):
            yield 2**bits + offset
            yield -2**bits + offset


def texts():
    yield from ["", "a", "caf\u00e9", "\u4e2d\U0001f600", "\ud800", "x\udfffy", "\ud800\udc00", "\n\r\0\x1a\\'\"", "\\u0041\\",
                "x" * 255, "x" * 256, "\u00e9" * 70000, b"", b"abc", bytes(range(256)), bytes(70000), bytearray(),
                bytearray(b"x\xff"), [bytearray(b"a"), b"a", bytearray(b"b"), b"", bytearray(), b""]]


def containers():
    for size in [0, 1, 2, 3, 4, 5, 255, 999, 1000, 1001, 1002, 1999, 2000, 2001, 3000]:
        yield list(range(size))
        yield tuple(range(size))
        yield {i: i for i in range(size)}
        yield set(range(size))
        yield frozenset(range(size))
        yield ListChild(range(size))
        yield DictChild((i, i) for i in range(size))
        yield collections.OrderedDict((str(i), [i]) for i in range(size))
        yield collections.deque(range(size))
    shared = ["shared"]
    name = "na" + "me" * size
    yield [shared, shared, (shared, shared), {"a": shared}, name, name]
    empty = ()
    yield [empty, empty, ((),), ((), ())]
    many = [["part %d" % i] for i in range(300)]
    yield many + many
    deep = []
    for _ in range(150):
        deep = [deep]
    yield deep


def cyclic():
    loop = []
    loop.append(loop)
    yield loop
    table = {}
    table["self"] = table
    yield table
    for size in range(1, 6):
        box = []
        value = tuple([box] * size)
        box.append(value)
        yield value
        yield [value, value]
    box = []
    value = (box, [box], 1)
    box.extend([value, value, value])
    yield value
    one, two = plain(), plain()
    one.other, two.other = two, one
    yield one
    box = []
    box.append(Reduced(box))
    yield box[0]
    yield box
    member = plain()
    member.home = {member}
    yield member
    yield member.home
    member = plain()
    member.home = frozenset([member])
    yield member
    yield member.home
    child = ListChild()
    child.append(child)
    child.note = child
    yield child


def objects():
    yield argparse.Namespace(a=1, b=[1.5, None], c=argparse.Namespace())
    yield from [Color.RED, [Color.RED, Color.GREEN, Color.RED], Flags.A | Flags.B, Point(1, [2]), IntChild(7)]
    yield from [TupleChild((1, 2)), SetChild([1]), plain(), plain(a=1, b="two"), slots(Slots, a=1, b=[2])]
    yield slots(SlotsAndDict, a=1, b=2, c=3)
    yield from [1 + 2j, range(3), slice(1, None, 2), Ellipsis, NotImplemented, type(None), int, len, Plain, Outer]
    yield from [Outer.Inner, Outer.Inner.Innermost, Outer.function, [Outer.Inner, Outer.Inner], Outer.Inner()]
    yield from [decimal.Decimal("1.50"), fractions.Fraction(1, 3), datetime.datetime(2024, 2, 29, 1, 2, 3, 4),
                datetime.timedelta(1), datetime.timezone.utc, uuid.UUID(int=5), ValueError("bad", 1)]
    yield io.BytesIO(b"extra state")
    counted = collections.Counter("hello")
    yield from [counted, collections.defaultdict(list, {1: [2]}), collections.ChainMap({1: 2})]
    child = ListChild([1, 2])
    child.note = "note"
    yield child
    table = collections.OrderedDict(a=1)
    table._metadata = collections.OrderedDict([("", {"version": 1})])
    yield table
    yield random.Random(5).getstate()


def numpy_values():
    yield from [numpy.float32(1.5), numpy.int64(-3), numpy.bool_(True), numpy.arange(6).reshape(2, 3),
                numpy.asfortranarray(numpy.ones((2, 2))), numpy.array([1, 2], ">i4"), numpy.array(["a", "bc"]),
                numpy.array([1, [2], None], object), numpy.dtype("f4,i8"), numpy.random.RandomState(1).get_state(),
                {"scalars": [numpy.float64(0.1), numpy.float64(0.1)]}]


class Maker:
    """Random plain values with shared parts."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.made = []

    def value(self, depth=0):
        choose = self.random.randrange(16 if depth < 5 else 8)
        if choose == 7 and self.made:
            return self.random.choice(self.made)
        value = self.atom(choose) if choose < 8 else self.container(choose, depth)
        self.made.append(value)
        return value

    def atom(self, choose):
        if choose < 3:
            return self.random.randrange(-2**self.random.randrange(1, 80), 2**self.random.randrange(1, 80))
        if choose == 3:
            return self.random.choice([None, True, False])
        if choose == 4:
            return struct.unpack("<d", self.random.randbytes(8))[0]
        if choose == 5:
            return self.random.randbytes(self.random.randrange(5))
        return "".join(chr(self.random.randrange(2**self.random.randrange(1, 17))) for _ in range(self.random.randrange(6)))

    def container(self, choose, depth):
        parts = [self.value(depth + 1) for _ in range(self.random.randrange(6))]
        if choose < 10:
            return parts
        if choose < 12:
            return tuple(parts)
        if choose < 14:
            return {repr(part)[:20]: part for part in parts}
        if choose == 14:
            return plain(parts=parts)
        return {i for i, _ in enumerate(parts)} if depth % 2 else frozenset(map(str, range(len(parts))))


def canonical(value):
    """Text that is the same for equal values with the same sharing of mutable parts."""
    seen = {}
    parts = []
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str) and type(item) is Token:
            parts.append(str(item))
            continue
        kind = type(item)
        if kind in (int, float, str, bytes, bool, type(None)) or isinstance(item, (type, types.FunctionType)):
            parts.append(ascii(item))
            continue
        if id(item) in seen:
            parts.append("<%d>" % seen[id(item)][0])
            continue
        seen[id(item)] = (len(seen), item)
        stack.extend(reversed(children(item, kind)))
    return " ".join(parts)


class Token(str):
    pass


def children(item, kind):
    if numpy is not None and isinstance(item, (numpy.ndarray, numpy.generic)) and item.dtype != object:
        return [Token(f"{kind.__name__} {item.dtype} {item.shape} {item.tobytes()}")]
    found = [Token(kind.__qualname__ + "(")]
    if isinstance(item, dict):
        for entry in item.items():
            found.extend(entry)
    elif isinstance(item, (set, frozenset)):
        found.extend(sorted(item, key=lambda part: ascii(part) if not isinstance(part, Plain) else ""))
    elif isinstance(item, (list, tuple, collections.deque)):
        found.extend(item)
    elif not hasattr(item, "__dict__") and not isinstance(item, Slots):
        found.append(Token(ascii(item)))
    if isinstance(item, Slots):
        found.extend([item.a, item.b])
    if isinstance(item, io.BytesIO):
        found.append(item.getvalue())
    found.append(Token("|"))
    for entry in getattr(item, "__dict__", {}).items():
        found.extend(entry)
    return found + [Token(")")]


def pickles_of(value):
    """(label, pickle, whether protocol 2 gives the same bytes again)."""
    for protocol in range(6):
        try:
            made = pickle.dumps(value, protocol)
        except (TypeError, RecursionError):  # protocols 0 and 1: __slots__, a list subclass in itself
            continue
        yield f"C pickler, protocol {protocol}", made, protocol == 2
        yield f"optimized, protocol {protocol}", pickletools.optimize(made), False
        yield f"Python pickler, protocol {protocol}", pickle._dumps(value, protocol), False


def run(program, pickles):
    feed = b"".join(struct.pack("<I", len(made)) + made for made in pickles)
    out = subprocess.run([program], input=feed, stdout=subprocess.PIPE, check=True).stdout
    at = 0

    def text():
        nonlocal at
        size = struct.unpack_from("<I", out, at)[0]
        at += 4 + size
        return out[at - size:at]

    answers = []
    for _ in pickles:
        is_read = out[at]
        at += 1
        answers.append((text(), text().decode("ascii")) if is_read else (None, text().decode()))
    assert at == len(out)
    return answers


def is_described_as_python_does(value):
    """Plain values, less what Python and libmeg show otherwise; containers may hold themselves."""
    seen, stack = set(), [value]
    while stack:
        item = stack.pop()
        kind = type(item)
        if kind is str and "'" in item or kind is int and item.bit_length() > 1000:
            return False
        if kind not in (type(None), bool, int, float, str, bytes, list, tuple, dict):
            return False
        if kind in (list, tuple, dict) and id(item) not in seen:
            seen.add(id(item))
            stack.extend(item)
            stack.extend(item.values() if kind is dict else ())
    return True


def check(label, value, made, same_bytes, answer):
    written, note = answer
    assert written is not None, f"{label}: {note}"
    if same_bytes:
        assert written == made, f"{label}: bytes differ:\n{made[:200]}\n{written[:200]}"
    found, expected = canonical(pickle.loads(written)), canonical(pickle.loads(made))
    assert found == expected, f"{label}:\n{expected[:500]}\n{found[:500]}"
    as_python = ascii(value)
    if len(as_python) < 10000 and is_described_as_python_does(value):
        assert note == as_python, f"{label}: described as\n{note}\nexpected\n{as_python}"


def check_all(program, values):
    cases = [(f"value {number} {ascii(type(value))}, {label}", value, made, same)
             for number, value in enumerate(values) for label, made, same in pickles_of(value)]
    for case, answer in zip(cases, run(program, [made for _, _, made, _ in cases])):
        check(*case, answer)
    return len(cases)


def check_refusals(program):
    """What is not kept is refused by name, never lost in silence."""
    answers = run(program, [pickle.dumps(WithKeywords(a=1), 4), pickle.dumps(WithSetter(), 2)])
    for (written, note), expected in zip(answers, ["NEWOBJ_EX", "sets its own state"]):
        assert written is None and expected in note, note
    by_partial = pickle.dumps(WithKeywords(a=[1]), 2)
    assert run(program, [by_partial])[0][0] == by_partial


def main():
    program = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 300
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    values = [*numbers(), *texts(), *containers(), *objects(), *cyclic()]
    if numpy is not None:
        values.extend(numpy_values())
    values.extend(Maker(seed + number).value() for number in range(count))
    made = check_all(program, values)
    check_refusals(program)
    print(f"{len(values)} values, {made} pickles")


if __name__ == "__main__":
    main()
