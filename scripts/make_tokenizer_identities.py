#!/usr/bin/env python3
"""Writes testdata/tokenizer_identities/identities.json: the names of Megatron-LM's tokenizers in index caches.

make_tokenizer_identities.py REPOSITORY   (a Megatron-LM clone; needs the packages of scripts/requirements-torch.txt)

Runs build_tokenizer() of each revision on the same flags and notes the tokenizer's unique_identifiers,
which the descriptions of index caches contain; null where the revision cannot build that type or its class
has none. Only what reads the tokenizer's files is replaced.
"""
import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import types
import typing
import unittest.mock
from pathlib import Path

OUTPUT = Path(__file__).parents[1] / "testdata/tokenizer_identities/identities.json"
LEGACY = [f"core_v0.{minor}.0" for minor in range(5, 17)]
CORE = [f"core_v0.{minor}.0" for minor in range(15, 20)]
TYPES = ["GPT2BPETokenizer", "BertWordPieceLowerCase", "BertWordPieceCase", "SentencePieceTokenizer",
         "GPTSentencePieceTokenizer", "Llama2Tokenizer", "HuggingFaceTokenizer", "NullTokenizer"]
FLAGS = ["--vocab-file", "gpt2/vocab.json", "--merge-file", "gpt2/merges.txt",
         "--tokenizer-model", "model/tokenizer.model", "--vocab-size", "50257"]


class Identified(Exception):
    """Ends the constructor of a tokenizer before it opens files."""


def import_first(*names):
    for name in names[:-1]:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            pass
    return importlib.import_module(names[-1])


def stand_in_package(name, folder):
    """A package whose __init__.py, which imports half of Megatron, is left out."""
    package = types.ModuleType(name)
    package.__getattr__ = lambda attribute: unittest.mock.MagicMock()
    package.__path__ = [os.path.join(folder, *name.split("."))]
    sys.modules[name] = package


def legacy_builder(folder):
    for name in ("megatron", "megatron.core", "megatron.core.datasets", "megatron.training"):
        stand_in_package(name, folder)
    for name in ("megatron.core.utils", "megatron.training.utils", "megatron.training.tokenizer.multimodal_tokenizer",
                 "megatron.training.tokenizer.sft_tokenizer", "six"):
        sys.modules[name] = unittest.mock.MagicMock()
    module = importlib.import_module("megatron.core.datasets.megatron_tokenizer")
    base = getattr(module, "MegatronLegacyTokenizer", None) or module.MegatronTokenizer
    init = base.__init__

    def stop(self, *paths, **options):
        init(self, *paths, **options)
        raise Identified(self.unique_identifiers)

    base.__init__ = stop
    build = import_first("megatron.training.tokenizer.tokenizer", "megatron.tokenizer.tokenizer").build_tokenizer
    parser = argparse.ArgumentParser()
    for flag in (*FLAGS[::2], "--tokenizer-type"):
        parser.add_argument(flag)
    parser.set_defaults(vocab_extra_ids=0, trust_remote_code=False)
    return build, parser


def core_builder():
    sys.modules["six"] = types.ModuleType("six")
    typing.override = getattr(typing, "override", lambda function: function)  # Python 3.12
    extensions = importlib.import_module("torch.utils.cpp_extension")
    extensions.load = extensions.load_inline = unittest.mock.Mock(side_effect=RuntimeError)  # would compile
    text = importlib.import_module("megatron.core.tokenizers.text.text_tokenizer").MegatronTokenizerText
    restore = text._restore_model

    def restore_without_files(self, **options):
        stand_in = types.SimpleNamespace(chat_template=None)
        return restore(self, **options) if self.library.startswith("null") else stand_in

    text._restore_model = restore_without_files
    build = import_first("megatron.core.tokenizers.utils.build_tokenizer",
                         "megatron.core.tokenizers.text.utils.build_tokenizer").build_tokenizer
    parser = argparse.ArgumentParser()
    importlib.import_module("megatron.training.arguments")._add_tokenizer_args(parser)
    return build, parser


def identity(build, args):
    args.rank, args.padded_vocab_size = 0, 1
    try:
        return getattr(build(args), "unique_identifiers", None)
    except Identified as identified:
        return identified.args[0]
    except NotImplementedError:
        return None


def identities(generation, folder):
    build, parser = legacy_builder(folder) if generation == "legacy" else core_builder()
    return {name: identity(build, parser.parse_args([*FLAGS, "--tokenizer-type", name])) for name in TYPES}


def identities_in(folder, generation):
    done = subprocess.run([sys.executable, __file__, generation, folder], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": folder}, cwd=folder)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def main(repository):
    cases = []
    for generation, revisions in (("legacy", LEGACY), ("core", CORE)):
        for revision in revisions:
            with tempfile.TemporaryDirectory() as folder:
                archive = subprocess.run(["git", "-C", repository, "archive", revision, "megatron"], check=True,
                                         capture_output=True)
                subprocess.run(["tar", "-xC", folder], input=archive.stdout, check=True)
                for name, found in identities_in(folder, generation).items():
                    cases.append({"revision": revision, "legacy": generation == "legacy", "type": name,
                                  "identity": found})
    OUTPUT.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1] in ("legacy", "core"):
        print(json.dumps(identities(*sys.argv[1:])))
    else:
        main(sys.argv[1])
