#!/usr/bin/env python3
"""The scripts under Megatron-LM's names, as its tutorials start them.

shims_test.py SHIM_FOLDER PROGRAM_FOLDER
"""

import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SHIMS, PROGRAMS = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
RUN = ("--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 "
       "--max-position-embeddings 16 --micro-batch-size 2 --lr 1e-3 --train-iters 2 --log-interval 1 "
       "--eval-iters 0 --mock-data --tokenizer-type NullTokenizer --vocab-size 100 --device cpu").split()
OF_PROGRAM = {
    "pretrain_gpt.py": "pretrain_gpt",
    "pretrain_gpt2.py": "pretrain_gpt",
    "pretrain_hybrid.py": "pretrain_gpt",
    "pretrain_mamba.py": "pretrain_gpt",
    "report_theoretical_memory.py": "report_theoretical_memory",
    "tasks/main.py": "evaluate_gpt",
    "tools/checkpoint/checkpoint_inspector.py": "checkpoint_inspect",
    "tools/checkpoint/convert.py": "checkpoint_util",
    "tools/checkpoint/util.py": "checkpoint_util",
    "tools/checkpoint_util.py": "checkpoint_util",
    "tools/generate_samples_gpt.py": "generate",
    "tools/merge_datasets.py": "merge_datasets",
    "tools/openwebtext/add_id.py": "clean_dataset",
    "tools/openwebtext/blacklist_urls.py": "clean_dataset",
    "tools/openwebtext/cleanup_dataset.py": "clean_dataset",
    "tools/openwebtext/filter_ngrams.py": "clean_dataset",
    "tools/openwebtext/find_duplicates.py": "find_duplicates",
    "tools/openwebtext/group_duplicate_url.py": "find_duplicates",
    "tools/openwebtext/group_duplicate_urls.py": "find_duplicates",
    "tools/openwebtext/group_duplicates_url.py": "find_duplicates",
    "tools/openwebtext/merge_jsons.py": "clean_dataset",
    "tools/openwebtext/remove_group_duplicates.py": "clean_dataset",
    "tools/prepare_cache.py": "prepare_cache",
    "tools/preprocess_data.py": "preprocess_data",
    "tools/preprocess_data_fast.py": "preprocess_data",
    "tools/report_theoretical_memory.py": "report_theoretical_memory",
    "tools/run_text_generation_server.py": "run_text_generation_server",
    "tools/text_generation_cli.py": "text_generation_cli",
}


def run(*command, **options):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300, **options)


class Shims(unittest.TestCase):
    def test_each_runs_its_program(self):
        found = {str(path.relative_to(SHIMS)) for path in SHIMS.rglob("*.py")}
        self.assertEqual(found, set(OF_PROGRAM))
        for shim, program in OF_PROGRAM.items():
            with self.subTest(shim=shim):
                if not (PROGRAMS / program).exists():
                    done = run(sys.executable, SHIMS / shim)
                    self.assertEqual((done.returncode, done.stdout), (1, ""))
                    self.assertRegex(done.stderr, f"^error: {program} was not found in .*: this libmeg was built "
                                                  r"without LibTorch \(MEG_WITH_TORCH\)\n$")
                    continue
                expected = run(PROGRAMS / program, "--version").stdout
                self.assertEqual(run(sys.executable, SHIMS / shim, "--version").stdout, expected)
                self.assertEqual(run(SHIMS / shim, "--version").stdout, expected)

    def prefix(self, *programs):
        """A prefix with the shims, and `meg` and these programs in bin or libexec, all of them links."""
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        shutil.copytree(SHIMS, folder / "share/libmeg/megatron")
        (folder / "bin").mkdir()
        (folder / "libexec/libmeg").mkdir(parents=True)
        (folder / "bin/meg").symlink_to(PROGRAMS / "meg")
        for program in programs:
            (folder / program).symlink_to(PROGRAMS / pathlib.Path(program).name)
        return folder

    def test_programs_of_the_prefix_are_found_wherever_they_lie(self):
        expected = run(PROGRAMS / "merge_datasets", "--version").stdout
        for folder in ("bin", "libexec/libmeg"):
            with self.subTest(folder=folder):
                prefix = self.prefix(f"{folder}/merge_datasets")
                shim = prefix / "share/libmeg/megatron/tools/merge_datasets.py"
                self.assertEqual(run(shim, "--version", env={"PATH": "/usr/bin:/bin"}).stdout, expected)

    def test_a_link_leads_to_the_program(self):
        prefix = self.prefix("bin/merge_datasets")
        link = prefix / "merge.py"
        link.symlink_to("share/libmeg/megatron/tools/merge_datasets.py")
        self.assertEqual(run(link, "--version", env={"PATH": "/usr/bin:/bin"}).stdout,
                         run(PROGRAMS / "merge_datasets", "--version").stdout)

    def test_a_copy_searches_the_path(self):
        for folder in ("bin", "libexec/libmeg"):
            prefix = self.prefix(f"{folder}/merge_datasets")
            # Not a link, as `meg` would lead to the build folder.
            (prefix / "bin/meg").unlink()
            shutil.copy(PROGRAMS / "meg", prefix / "bin/meg")
            copy = prefix / "merge.py"
            shutil.copy(SHIMS / "tools/merge_datasets.py", copy)
            done = run(copy, "--version", env={"PATH": f"{prefix}/bin:/usr/bin:/bin"})
            self.assertEqual(done.stdout, run(PROGRAMS / "merge_datasets", "--version").stdout)

    def test_names_the_cause(self):
        prefix = self.prefix()
        shim = prefix / "share/libmeg/megatron/tools/merge_datasets.py"
        path = {"PATH": "/usr/bin:/bin"}

        def said(command):
            done = run(command, "--version", env=path)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            return done.stderr

        self.assertEqual(said(shim), f"error: merge_datasets was not found in {prefix}/bin: it is not installed "
                                     "(component tools, package libmeg-tools)\n")
        (prefix / "bin/merge_datasets").write_text("")
        self.assertEqual(said(shim), f"error: {prefix}/bin/merge_datasets: is there but cannot be executed\n")
        copy = prefix / "merge.py"
        shutil.copy(shim, copy)
        self.assertEqual(said(copy), "error: merge_datasets was not found: no libmeg is installed around this file "
                                     f"({copy}) or in PATH\n")
        trainer = prefix / "share/libmeg/megatron/pretrain_gpt.py"
        cause = ("it is not installed (component train, package libmeg-train)" if (PROGRAMS / "pretrain_gpt").exists()
                 else "this libmeg was built without LibTorch (MEG_WITH_TORCH)")
        self.assertEqual(said(trainer), f"error: pretrain_gpt was not found in {prefix}/bin: {cause}\n")

    def test_the_inspector_takes_megatrons_command(self):
        inspector = SHIMS / "tools/checkpoint/checkpoint_inspector.py"
        checkpoint = pathlib.Path(__file__).parents[2] / "testdata/checkpoint"
        self.assertEqual(run(inspector, "inspect", checkpoint, "--tensors").stdout,
                         run(PROGRAMS / "checkpoint_inspect", checkpoint, "--tensors").stdout)
        done = run(inspector, "print-tensor", checkpoint, "key")
        self.assertEqual((done.returncode, done.stderr),
                         (2, "error: print-tensor: expected inspect: libmeg has no other command of "
                             "tools/checkpoint/checkpoint_inspector.py\n"))

    @unittest.skipUnless((PROGRAMS / "pretrain_gpt").exists(), "built without LibTorch")
    def test_hybrid_models_need_a_pattern(self):
        for name in ("pretrain_hybrid.py", "pretrain_mamba.py"):
            done = run(SHIMS / name, *RUN)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertEqual(done.stderr, f"error: {name}: expected --hybrid-layer-pattern, found none, which stands "
                                          "for Mamba layers: libmeg has none\n")
            done = run(SHIMS / name, *RUN, "--num-layers", 2, "--hybrid-layer-pattern", "*-")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(" iteration        2/       2 ", done.stdout)

    def test_openwebtext_scripts_take_their_own_arguments(self):
        scripts = SHIMS / "tools/openwebtext"
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "urls").mkdir()
            (folder / "urls/a.txt").write_text("http://a.com/x\nhttp://google.com/\nhttp://a.com/x\n")
            (folder / "urls/note.md").write_text("http://b.com/x\n")
            for urls in ("urls", "urls/a.txt"):
                done = run(scripts / "blacklist_urls.py", folder / urls, folder / "clean.txt")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual((folder / "clean.txt").read_text(), "http://a.com/x\n")
            done = run(scripts / "blacklist_urls.py", folder / "urls")
            self.assertEqual((done.returncode, done.stderr[:30]), (1, "error: expected two arguments,"))
            lines = ['{"text": "one", "url": "u"}\n', '{"text": "two"}\n']
            for number, line in enumerate(lines):
                (folder / f"{number}.json").write_text(line)
            done = run(scripts / "merge_jsons.py", "--json_path", folder, "--output_file", folder / "all.jsonl")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual((folder / "all.jsonl").read_text(), "".join(lines))
            done = run(scripts / "add_id.py", "--input-file", folder / "all.jsonl", "--output-file", folder / "ids.jsonl",
                       "--id-prefix", "web", "--log-interval", 7)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual((folder / "ids.jsonl").read_text(), "".join(
                line.replace("}", f', "adlr_id": "web-000000000{number}"}}') for number, line in enumerate(lines, 1)))
            test = "These thirteen words are a test that nobody should ever be trained on"
            (folder / "test.jsonl").write_text(f'{{"text": "{test}"}}\n')
            (folder / "data.jsonl").write_text(f'{{"content": "{"Before. " * 99}{test}. {"After. " * 99}"}}\n')
            command = ["--tasks", "lambada", "--lambada-path", folder / "test.jsonl", "--dedup-dataset", folder / "data.jsonl",
                       "content", "--output", folder / "free.jsonl", "--num-threads", 2, "--key-threshold", 3]
            done = run(scripts / "filter_ngrams.py", *command)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(len((folder / "free.jsonl").read_text().splitlines()), 2)
            done = run(scripts / "filter_ngrams.py", *command, "--tasks", "squad")
            self.assertEqual((done.returncode, done.stderr[:20]), (1, "error: --tasks squad"))

    def test_openwebtext_scripts_find_and_remove_duplicates(self):
        scripts = SHIMS / "tools/openwebtext"
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)

            def finish(script, *arguments):
                done = run(scripts / script, *arguments, cwd=folder)
                self.assertEqual(done.returncode, 0, done.stderr)

            def refusal(script, *arguments):
                done = run(scripts / script, *arguments, cwd=folder)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                return done.stderr

            text = "Nobody knows why the old lighthouse keeper left his island in the spring. " * 3
            lines = [json.dumps({"text": text + end, "url": url}, ensure_ascii=False) + "\n"
                     for url, end in (("é", ""), ("b", "Or?"), ("c", "A much longer end: " + "0123456789abcdefghijklmnop" * 3))]
            lines.append('{"text": "Something else altogether, of another day", "url": "d"}\n')
            (folder / "all.json").write_text("".join(lines) + '{"text": "no url"}\n')
            (folder / "more.json").write_text(json.dumps({"text": text, "id": 7}) + "\n")
            finish("find_duplicates.py", "--inputs", "all.json", "url", "more.json", "id", "--output", "pairs", "--jaccard", "union",
                   "--heuristic-iter", "-1", "--num-bands", "20", "--num-seeds", "100", "--seed", "1", "--jaccard-parallel")
            pairs = [json.loads(line) for line in (folder / "pairs").read_text().splitlines()]
            self.assertIn(1.0, [pair.get("7") for line in pairs for pair in line.get("é", [])])
            for script in ("group_duplicate_url.py", "group_duplicates_url.py", "group_duplicate_urls.py"):
                finish(script, "pairs", "groups", 0.9)
                self.assertEqual((folder / "groups").read_text(), '{"0": ["é", "b", "7"]}\n')
            finish("group_duplicate_url.py", "pairs", "all_groups")
            finish("remove_group_duplicates.py", "groups", "all.json", "left.json")
            self.assertEqual((folder / "left.json").read_text(), "".join([lines[0], *lines[2:]]))
            self.assertRegex(refusal("find_duplicates.py", "--inputs", "all.json", "url", "--output", "x", "--save-fingerprints",
                                     "f.pkl"), "^error: --save-fingerprints: libmeg neither reads nor writes pickles of ")
            self.assertRegex(refusal("find_duplicates.py", "--inputs", "all.json", "url"), "^error: expected --inputs and ")
            self.assertRegex(refusal("group_duplicate_url.py", "all.json", "x"), "line 1, byte 1: expected {URL: ")
            self.assertRegex(refusal("remove_group_duplicates.py", "all.json", "all.json", "x"), "line 1, byte 1: expected {NUMBER: ")
            self.assertFalse((folder / "x").exists())

            data = folder / "documents.json"
            keeper = text * 4 + "\u2019"
            data.write_text("".join(json.dumps({"text": text}) + "\n" for text in (keeper, "Too short.", "Das ist keine Sprache, die hier "
                                    "bleiben darf, und sie ist lang genug dafür. " * 12)))
            self.assertRegex(refusal("cleanup_dataset.py", data, "clean.json"), "^error: cache/gpt2-vocab.json: not found: expected ")
            tokenizer = pathlib.Path(__file__).parents[2] / "testdata/tokenizer"
            (folder / "cache").mkdir()
            shutil.copy(tokenizer / "vocab.json", folder / "cache/gpt2-vocab.json")
            finish("cleanup_dataset.py", data, "clean.json", "--merge-file", tokenizer / "merges.txt")
            self.assertEqual((folder / "clean.json").read_text(), json.dumps({"text": keeper.replace("\u2019", "'")}) + "\n")

    def test_arguments_and_exit_codes_pass_through(self):
        shim = SHIMS / "tools/preprocess_data.py"
        with tempfile.TemporaryDirectory() as folder:
            command = ["--input", f"{folder}/no such file", "--output-prefix", f"{folder}/out",
                       "--tokenizer-type", "GPT2BPETokenizer", "--vocab-file", "v", "--merge-file", "m"]
            expected = run(PROGRAMS / "preprocess_data", *command)
            done = run(shim, *command)
        self.assertEqual((done.returncode, done.stderr), (expected.returncode, expected.stderr))
        self.assertNotEqual(done.returncode, 0)

    @unittest.skipUnless((PROGRAMS / "pretrain_gpt").exists(), "built without LibTorch")
    @unittest.skipUnless(importlib.util.find_spec("torch"), "torch is not installed")
    def test_launchers_of_torch_start_a_training(self):
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        for launcher in (["torch.distributed.run", "--standalone", "--nproc-per-node", "1"],
                         ["torch.distributed.launch", "--nproc_per_node", "1", "--master_port", "0"]):
            with self.subTest(launcher=launcher[0]):
                folder = tempfile.mkdtemp()
                self.addCleanup(shutil.rmtree, folder)
                done = run(sys.executable, "-m", *launcher, SHIMS / "pretrain_gpt.py", *RUN,
                           "--save", f"{folder}/save", env=environment)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn("successfully saved checkpoint at iteration       2", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
