#!/usr/bin/env python3
"""Pipeline stages hold the layers that the real megatron-core (PyPI) gives them, or both refuse.

megatron_core_places_layers.py PRINT_PIPELINE_LAYOUTS [unittest arguments]
"""

import itertools
import logging
import os
import random
import subprocess
import sys
import unittest
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

try:
    import torch
    from megatron.core import parallel_state
    from megatron.core.transformer.transformer_block import get_num_layers_to_build
    from megatron.core.transformer.transformer_config import TransformerConfig
    from megatron.core.transformer.transformer_layer import get_transformer_layer_offset
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

PROGRAM = ""


def case(num_layers, stages, chunks=1, first=None, last=None, embedding=False, loss=False,
         layout=None):
    return num_layers, stages, chunks, first, last, embedding, loss, layout


def line_of(fields):
    return " ".join("-" if field is None else str(int(field) if field in (True, False) else field)
                    for field in fields)


def of_megatron(num_layers, stages, chunks, first, last, embedding, loss, layout):
    """As the program says it; None where megatron-core refuses."""
    virtual = chunks if chunks > 1 else None
    found = ""
    try:
        config = TransformerConfig(
            num_layers=num_layers, hidden_size=8, num_attention_heads=1, pipeline_dtype=torch.float32,
            pipeline_model_parallel_size=stages, virtual_pipeline_model_parallel_size=virtual,
            num_layers_in_first_pipeline_stage=first, num_layers_in_last_pipeline_stage=last,
            account_for_embedding_in_pipeline_split=embedding,
            account_for_loss_in_pipeline_split=loss, pipeline_model_parallel_layout=layout)
        parallel_state.set_virtual_pipeline_model_parallel_world_size(virtual)
        for stage in range(stages):
            parallel_state.set_pipeline_model_parallel_rank(stage)
            for chunk in range(chunks):
                of_chunk = chunk if virtual else None
                found += (f"{get_transformer_layer_offset(config, of_chunk, stage)}:"
                          f"{get_num_layers_to_build(config, of_chunk, stage)} ")
    except (AssertionError, ValueError, ZeroDivisionError):
        return None
    return found


def splits():
    """Every small one that a command line can ask for. Where one stage or layers fewer than none are
    left megatron-core builds other models than it is asked for."""
    for num_layers, stages, chunks in itertools.product(range(1, 13), range(1, 5), (1, 2, 3)):
        if chunks > num_layers or (chunks > 1 and stages == 1):
            continue
        for embedding, loss in itertools.product((False, True), repeat=2):
            yield case(num_layers, stages, chunks, embedding=embedding, loss=loss)
        for first, last in itertools.product((None, 1, 2, 3, 4, 6), repeat=2):
            if (first or last) and (first or 0) + (last or 0) <= num_layers and (
                    stages > 1 or not (first and last)):
                yield case(num_layers, stages, chunks, first, last)
    yield case(6, 2, first=3, embedding=True)
    yield case(6, 2, layout="Ettt|tttL", last=3)


def layouts():
    yield from (case(4, 2, layout="Ettt|ttL"), case(4, 2, layout="Et|tt|tL"),
                case(4, 2, layout="Ettt|tL|"), case(2, 2, layout="EEt|tL"),
                case(62, 16, 2, layout="Et*3|(tt|)*29,t|L"), case(6, 4, layout="E|t*3|(t|)*1ttL"),
                case(4, 4, layout="E|*2(tt)*2|L"), case(2, 2, layout="Ett|xL"))
    pick = random.Random(17)
    for _ in range(300):
        stages, chunks = pick.choice((1, 2, 3, 4)), pick.choice((1, 2, 3))
        if stages == 1:
            chunks = 1
        layers = [pick.choice((0, 1, 1, 2, 3, 12)) for _ in range(stages * chunks)]
        held = [pick.choice(("t" * count, f"t*{count}", f"(t)*{count}")) for count in layers]
        held[0], held[-1] = "E" + held[0], held[-1] + "L"
        told = sum(layers) + pick.choice((0, 0, 0, 0, 1))
        if told > 0:
            yield case(told, stages, chunks, layout=pick.choice(("|", ",|")).join(held))


class Layers(unittest.TestCase):
    def compare(self, cases):
        cases = list(cases)
        answers = subprocess.run([PROGRAM], input="".join(line_of(fields) + "\n" for fields in cases),
                                 capture_output=True, text=True, check=True).stdout.splitlines()
        refused = 0
        for fields, found in zip(cases, answers, strict=True):
            expected = of_megatron(*fields)
            if expected is None:
                refused += 1
                self.assertTrue(found.startswith("error: "), (fields, found))
            else:
                self.assertEqual(found, expected, fields)
        return len(cases), refused

    def test_splits_around_ends_and_with_places(self):
        count, refused = self.compare(splits())
        self.assertGreater(count - refused, 300)
        self.assertGreater(refused, 300)

    def test_layouts(self):
        count, refused = self.compare(layouts())
        self.assertGreater(count - refused, 150)
        self.assertGreater(refused, 10)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv[1])
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
