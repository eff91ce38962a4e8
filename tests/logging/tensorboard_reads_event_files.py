#!/usr/bin/env python3
"""The real tensorboard package reads libmeg's event files.

tensorboard_reads_event_files.py WRITE_EVENT_FILE
Exits with 77 (skipped) where the package is missing.
"""
import math
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy
    from tensorboard.backend.event_processing import event_file_loader
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError as error:
    print(f"skipped: {error} (scripts/setup.sh installs it)")
    sys.exit(77)

STEPS = range(2, 401, 2)  # every second one is logged


def check(condition, *what):
    if not condition:
        sys.exit("tensorboard reads something else: " + " ".join(map(str, what)))


def expected_curves():
    """tag -> [(step, value)]"""
    by_step = {
        "learning-rate": lambda step: 1e-6 * step,
        "batch-size": lambda step: 16,
        "lm loss": lambda step: numpy.float32(1 / step),
        "loss-scale": lambda step: 2.0**32,
        "world-size": lambda step: 8,
        "grad-norm": lambda step: None if step % 4 == 0 else 0.5 * step,
        "num-zeros": lambda step: None if step % 4 == 0 else step,
    }
    curves = {}
    for tag, value in by_step.items():
        points = [(step, value(step)) for step in STEPS if value(step) is not None]
        curves[tag] = points
        curves[tag + " vs samples"] = [(16 * step, found) for step, found in points]
    for tag, value in {"lm loss validation": 2.0, "lm loss validation ppl": math.exp(2)}.items():
        curves[tag] = [(400, value)]
        curves[tag + " vs samples"] = [(6400, value)]
    for tag, value in {"iteration-time": 0.25, "throughput": 123.5,
                       "forward-backward-time": 0.04}.items():
        curves[tag] = [(400, value)]
    return curves


def check_curves(accumulator):
    expected = expected_curves()
    check(set(accumulator.Tags()["scalars"]) == set(expected), accumulator.Tags()["scalars"])
    for tag, points in expected.items():
        found = [(event.step, event.value) for event in accumulator.Scalars(tag)]
        check(found == [(step, float(numpy.float32(value))) for step, value in points], tag, found)
        check(all(event.wall_time > 1.7e9 for event in accumulator.Scalars(tag)), tag, "times")


def check_texts(accumulator):
    tags = accumulator.Tags()["tensors"]
    check(set(tags) == {"num_layers/text_summary", "data_path/text_summary"}, tags)
    check(set(accumulator.PluginTagToContent("text")) == set(tags), "plug-in of texts")
    for tag, text in {"num_layers": "12", "data_path": "['tiny', '\u00e4']"}.items():
        tensor = accumulator.Tensors(tag + "/text_summary")[0].tensor_proto
        check([value.decode() for value in tensor.string_val] == [text], tag, tensor)
        check([dim.size for dim in tensor.tensor_shape.dim] == [1], tag, "shape", tensor)


def check_cut_file(path):
    """A run that still writes, or was killed: whole records are read, the rest is left."""
    cut = path.with_name(path.name + "cut")
    cut.write_bytes(path.read_bytes()[:-7])
    whole = list(event_file_loader.LegacyEventFileLoader(str(path)).Load())
    check(whole[0].file_version == "brain.Event:2", whole[0])
    check(len(list(event_file_loader.LegacyEventFileLoader(str(cut)).Load())) == len(whole) - 1,
          "records of a file that was cut")


def main():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], folder], check=True)
        accumulator = EventAccumulator(folder, size_guidance={"scalars": 0, "tensors": 0})
        accumulator.Reload()
        check_curves(accumulator)
        check_texts(accumulator)
        names = os.listdir(folder)
        check(len(names) == 1 and names[0].startswith("events.out.tfevents."), names)
        check_cut_file(pathlib.Path(folder) / names[0])
    print("tensorboard reads every point and text")


if __name__ == "__main__":
    main()
