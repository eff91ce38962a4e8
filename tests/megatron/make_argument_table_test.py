"""The two scripts that make the argument table, on small inputs: what they find and what they refuse."""
import pathlib
import sys
import tempfile
import textwrap
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import make_argument_table  # noqa: E402
import make_megatron_flags  # noqa: E402

COLUMNS = "family flag other_names dest older_dests arity type default stored choices since until".split()
NUM_LAYERS = "kTraining|--num-layers||num_layers||kValue|kInteger|None|||v2.6|6ef5bdc"
WARMUP = "kTraining|--warmup||warmup||kValue|kInteger|None|||v2.6|v2.6"
LR = "kTraining|--lr||lr||kValue|kReal|None|||6ef5bdc|6ef5bdc"


def table_of(flags, arguments):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        lines = ["revisions|v2.6|6ef5bdc", "|".join(COLUMNS), *flags]
        (folder / "megatron_flags.tsv").write_text("\n".join(lines).replace("|", "\t"))
        (folder / "arguments.txt").write_text("== training ==\n" + arguments)
        return make_argument_table.Table(folder)


class ArgumentTable(unittest.TestCase):
    def refuses(self, message, arguments, flags=(NUM_LAYERS,)):
        self.assertIn(message, "\n".join(table_of(flags, arguments).mistakes))

    def test_refuses_flag_without_effect(self):
        self.refuses("no effect of kTraining: --lr", "[model]\n--num-layers", [NUM_LAYERS, LR])

    def test_refuses_flag_with_two_effects(self):
        self.refuses("arguments.txt:5: --num-layers stands here twice",
                     "[model]\n--num-layers\n[data]\n--num_layers")

    def test_refuses_flag_that_no_revision_has(self):
        self.refuses("arguments.txt:3: no revision has --layers", "[model]\n--layers")

    def test_refuses_none_without_reason(self):
        self.refuses("[none]: expected a reason", "[none]\n--num-layers")

    def test_refuses_reason_of_what_has_an_effect(self):
        self.refuses("[model]: expected no reason", "[model: profiling]\n--num-layers")

    def test_refuses_unknown_effect(self):
        self.refuses("unknown effect speed", "[speed]\n--num-layers")

    def test_refuses_value_without_metavar(self):
        self.refuses("expected METAVAR", "[model]\n--num-layers | number of layers")

    def test_gives_help_to_the_row(self):
        table = table_of([NUM_LAYERS], "[model]\n--num-layers | N | 1.. | layers | default=2 | only=2 3")
        self.assertEqual(table.mistakes, [])
        row = table.families["kTraining"][0]
        self.assertEqual([row["metavar"], row["range"], row["help"], row["default"], row["supported"]],
                         ["N", "1..", "layers", "2", "2 3"])

    def test_older_flag_joins_the_newer(self):
        table = table_of([LR, WARMUP], "[schedule]\n--lr = --warmup --rate | LR | | peak")
        self.assertEqual(table.mistakes, [])
        (row,) = table.families["kTraining"]
        self.assertEqual([row["other_names"], row["older_dests"], row["since"]],
                         ["(--warmup) (--rate)", "warmup", "v2.6"])


ARGUMENTS = """
    group.add_argument('--num-layers', type=int, default=None)
    group.add_argument('--no-fusion', action='store_false', dest='fusion')
    group.add_argument('--scale', type=float, default=2**32)
    group.add_argument('--data-path', nargs='*', default=None)
    group.add_argument('--kind', choices=['a', 'b'], default='a')
"""
FACTORY = """
    group.add_argument('--sizes', nargs='+', type=int, default=[1, 2])
    group = ArgumentGroupFactory(Config, exclude=['hidden']).build_group(parser)
"""
CONFIG = """
class Color(enum.Enum):
    red = 1
    blue = 2

class Base:
    layers: Optional[int] = field(default=None, metadata={"argparse_meta": {"arg_names": ["--num-layers"]}})

class Config(Base):
    hidden: int = 0
    fusion: bool = True
    kind: Literal['b', 'c'] = 'c'
    color: Color = Color.blue
    inner: int = field(init=False)
"""


class MegatronFlags(unittest.TestCase):
    def merged(self):
        """The rows of two revisions: plain calls, then a factory beside a call."""
        with tempfile.TemporaryDirectory() as name:
            checkouts = []
            for revision, source in (("old", ARGUMENTS), ("new", FACTORY)):
                folder = pathlib.Path(name) / revision / "megatron" / "training"
                folder.mkdir(parents=True)
                (folder / "arguments.py").write_text("def add(parser):\n" + source)
                (folder / "config.py").write_text(textwrap.dedent(CONFIG))
                checkouts.append((revision, make_megatron_flags.Checkout(str(folder.parent.parent))))
            rows = make_megatron_flags.merged(checkouts, "kTraining")
            return {row.flag.names[0]: row for row in rows}

    def test_finds_calls_and_fields(self):
        self.assertEqual(list(self.merged()), ["--sizes", "--num-layers", "--no-fusion", "--kind",
                                               "--color", "--scale", "--data-path"])

    def test_newest_revision_decides(self):
        rows = self.merged()
        self.assertEqual(rows["--num-layers"].dests, ["layers", "num_layers"])
        self.assertEqual(rows["--kind"].flag.default, "'c'")
        self.assertEqual(rows["--kind"].choices, ["b", "c", "a"])

    def test_knows_since_and_until(self):
        rows = self.merged()
        self.assertEqual((rows["--sizes"].since, rows["--sizes"].until), ("new", "new"))
        self.assertEqual((rows["--kind"].since, rows["--kind"].until), ("old", "new"))
        self.assertEqual((rows["--scale"].since, rows["--scale"].until), ("old", "old"))

    def test_reads_values(self):
        rows = self.merged()
        self.assertEqual(rows["--scale"].flag.default, "4294967296")
        self.assertEqual((rows["--no-fusion"].flag.default, rows["--no-fusion"].flag.stored),
                         ("True", "False"))
        self.assertEqual(list(rows["--no-fusion"].names), ["--no-fusion", "--disable-fusion"])
        self.assertEqual(rows["--sizes"].flag.arity, "kList")
        self.assertEqual((rows["--color"].flag.default, rows["--color"].choices),
                         ("'blue'", ["red", "blue"]))


if __name__ == "__main__":
    unittest.main()
