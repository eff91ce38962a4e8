#!/usr/bin/env python3
"""Checkpoints in odd places, incomplete or at odds with themselves: one error that says it, exit code
1, and nothing half-made under a final name.

checkpoint_failures_test.py BIN_DIR TESTDATA [unittest arguments]
"""
import os
import shutil
import subprocess
import sys
import unittest

try:
    import torch
    
    from reference import files as reference_files
    from reference.spoilt import TRACKER, SpoiltCheckpoint, run_tests, tree
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)


class Places(SpoiltCheckpoint):
    def test_save_dir_that_is_the_load_dir_is_refused(self):
        before = tree(self.source)
        os.symlink(self.source, self.path("link"))
        for save in (self.source, self.source + "/", self.path("link"), "source",
                     self.path("source", "..", "source")):
            with self.subTest(save=save):
                self.assert_refused(self.reshape(save=save), "save-dir")
                self.assertEqual(tree(self.source), before)

    def test_save_dir_inside_the_load_dir_is_refused(self):
        before = tree(self.source)
        os.symlink(self.path("source"), self.path("link"))
        for target in ("torch", "torch_dist", "huggingface"):
            for save in (self.path("source", "new"), self.path("source", "a", "b"),
                         self.path("link", "new"), self.path("source", "iter_0000100", "new")):
                with self.subTest(target=target, save=save):
                    run = self.program("checkpoint_util", "--load-dir", self.source, "--save-dir",
                                       save, "--target-format", target)
                    self.assert_refused(run, "expected a save-dir outside the checkpoint", "source")
                    self.assertEqual(tree(self.source), before)

    def test_the_folder_of_the_iteration_itself_may_be_the_load_dir(self):
        process = self.reshape(load=self.path("source", "iter_0000100"))
        self.assertEqual(process.returncode, 0, process.stderr_text)

    def test_its_root_may_not_be_the_save_dir_then(self):
        before = tree(self.source)
        self.assert_refused(self.reshape(load=self.path("source", "iter_0000100"),
                                         save=self.source))
        self.assertEqual(tree(self.source), before)

    def test_what_is_no_checkpoint_is_refused_by_its_name(self):
        os.mkdir(self.path("empty"))
        with open(self.path("file"), "w") as file:
            file.write("text")
        for load in ("nowhere", "empty", "file"):
            with self.subTest(load=load):
                self.assert_refused(self.reshape(load=self.path(load)), load)
                self.assert_nothing_saved()

    def test_a_save_dir_that_cannot_be_is_refused(self):
        with open(self.path("file"), "w") as file:
            file.write("text")
        self.assert_refused(self.reshape(save=self.path("file")), "file")
        self.assert_refused(self.reshape(save=self.path("file", "below")), "file")

    def test_trackers_that_mislead_are_refused(self):
        for text in ("", "soon", "999", "-5", "1" * 40, "../../etc", "100\0"):
            with open(self.path("source", TRACKER), "w") as file:
                file.write(text)
            with self.subTest(text=text):
                self.assert_refused(self.reshape(), "source")

    def test_blanks_around_the_tracker_are_fine(self):
        with open(self.path("source", TRACKER), "w") as file:
            file.write(" 100\n")
        self.assertEqual(self.reshape().returncode, 0)

    def test_rank_files_that_are_no_files_do_not_hang(self):
        for make in (os.mkfifo, os.mkdir, lambda path: os.symlink("nowhere", path),
                     lambda path: os.symlink("/dev/zero", path),
                     lambda path: os.symlink(path, path)):
            path = self.rank()
            if os.path.isdir(path) and not os.path.islink(path):
                os.rmdir(path)
            else:
                os.unlink(path)
            make(path)
            with self.subTest(kind=os.lstat(path).st_mode):
                self.assert_refused(self.reshape(), "mp_rank_01_001")
                self.assert_nothing_saved()

    def test_a_tracker_that_is_a_pipe_does_not_hang(self):
        os.unlink(self.path("source", TRACKER))
        os.mkfifo(self.path("source", TRACKER))
        self.assert_refused(self.reshape(), TRACKER)

    @unittest.skipIf(os.geteuid() != 0, "needs root, to become somebody who may not read")
    def test_an_unreadable_source_is_named(self):
        os.chmod(self.folder, 0o755)
        os.mkdir(self.path("open"), 0o777)
        os.chmod(self.path("open"), 0o777)
        os.chmod(self.rank(), 0)
        # A copy, since the build folder may lie where nobody may go.
        program = self.path("checkpoint_util")
        shutil.copy(os.path.join(self.bin, "checkpoint_util"), program)
        process = subprocess.run(
            [program, "--load-dir", self.source, "--save-dir", self.path("open", "saved"),
             "--target-tensor-parallel-size", "1", "--target-pipeline-parallel-size", "1"],
            user=65534, group=65534, extra_groups=[], capture_output=True, text=True, timeout=60)
        self.assertEqual(process.returncode, 1)
        self.assertIn("mp_rank_01_001", process.stderr)
        self.assertIn("ermission denied", process.stderr)


class Contents(SpoiltCheckpoint):
    def test_a_missing_rank_is_named(self):
        for rank in ("mp_rank_00_000", "mp_rank_00_001", "mp_rank_01_000", "mp_rank_01_001"):
            os.rename(self.path("source", "iter_0000100", rank), self.path("away"))
            with self.subTest(rank=rank):
                self.assert_refused(self.reshape(), rank)
                self.assert_nothing_saved()
            os.rename(self.path("away"), self.path("source", "iter_0000100", rank))

    def test_a_rank_folder_without_its_file_is_named(self):
        os.unlink(self.rank())
        self.assert_refused(self.reshape(), "mp_rank_01_001")

    def test_ranks_of_different_iterations_are_refused(self):
        self.edit("mp_rank_01_000", lambda state: state.update(iteration=99))
        self.assert_refused(self.reshape(), "mp_rank_01_000", "99", "100")

    def test_ranks_whose_args_differ_are_refused(self):
        def change(state):
            state["args"].num_attention_heads = 2
        self.edit("mp_rank_01_001", change)
        self.assert_refused(self.reshape(), "num_attention_heads")

    def test_ranks_of_another_layout_are_refused(self):
        def change(state):
            state["args"].tensor_model_parallel_size = 4
        for name in ("mp_rank_00_000", "mp_rank_01_000", "mp_rank_00_001", "mp_rank_01_001"):
            self.edit(name, change)
        self.assert_refused(self.reshape(), "mp_rank_02_000")

    def assert_verify_only_asks_of_an_exchange(self, checkpoint, rank):
        run = self.program("verify", "checkpoint", checkpoint)
        self.assertEqual(run.returncode, 1)
        findings = [line for line in run.stdout_text.splitlines() if "found" in line]
        self.assertEqual(len(findings), 1, run.stdout_text)
        self.assertIn(rank, findings[0])
        self.assertIn("were the files of two ranks exchanged?", findings[0])

    def test_tensor_ranks_that_were_exchanged_are_refused(self):
        for stage in ("000", "001"):
            names = f"mp_rank_00_{stage}", f"mp_rank_01_{stage}"
            reference_files.exchange(*map(self.rank, names))
            with self.subTest(stage=stage):
                self.assert_refused(self.reshape(), names[1], "expected rank", "exchanged")
                self.assert_nothing_saved()
                self.assert_verify_only_asks_of_an_exchange(self.source, names[1])
            reference_files.exchange(*map(self.rank, names))
        self.assertEqual(self.reshape().returncode, 0)

    def test_stages_that_were_exchanged_are_refused(self):
        """Stages between the first and the last have the same names and shapes."""
        self.assertEqual(self.reshape(pp=4).returncode, 0)
        paths = [self.path("saved", "iter_0000100", f"mp_rank_00_{stage:03}", "model_optim_rng.pt")
                 for stage in range(4)]
        for rank, path in enumerate(paths):
            state = reference_files.load_file(path)
            state["args"].rank = rank
            reference_files.save_file(state, path)
        reference_files.exchange(paths[1], paths[2])
        self.assert_refused(self.reshape(load=self.path("saved"), save=self.path("merged")),
                            "mp_rank_00_002", "expected rank 2 or above", "found 1")
        self.assert_verify_only_asks_of_an_exchange(self.path("saved"), "mp_rank_00_002")
        reference_files.exchange(paths[1], paths[2])
        run = self.reshape(load=self.path("saved"), save=self.path("merged"))
        self.assertEqual(run.returncode, 0, run.stderr_text)

    def test_an_unknown_parameter_is_named_and_rules_teach_it(self):
        def change(state):
            encoder = state["model"]["language_model"]["encoder"]
            encoder["layers.0.adapter.weight"] = torch.zeros(4, 8)
        for name in ("mp_rank_00_000", "mp_rank_01_000", "mp_rank_00_001", "mp_rank_01_001"):
            self.edit(name, change)
        self.assert_refused(self.reshape(), "adapter.weight", "--param-rules")

    def test_rules_carry_a_parameter_of_ones_own(self):
        def change(state):
            encoder = state["model"]["language_model"]["encoder"]
            rank = state["args"].rank
            encoder["layers.1.adapter.weight"] = torch.arange(32.0).reshape(4, 8) + 100 * rank
            del state["optimizer"]
        for name in ("mp_rank_00_000", "mp_rank_01_000", "mp_rank_00_001", "mp_rank_01_001"):
            self.edit(name, change)
        with open(self.path("rules"), "w") as file:
            file.write("# ours\nlanguage_model\\.encoder\\.layers\\.(\\d+)\\.adapter\\.weight rows\n")
        process = self.reshape("--param-rules", self.path("rules"), tp=1, pp=4)
        self.assertEqual(process.returncode, 0, process.stderr_text)
        ranks = reference_files.load_ranks(self.path("saved"))
        for layer, first in ((1, 0), (3, 200)):
            adapter = ranks[0, layer]["model"]["language_model"]["encoder"]["layers.0.adapter.weight"]
            self.assertTrue(torch.equal(adapter, torch.cat(
                [torch.arange(32.0).reshape(4, 8) + first + more for more in (0, 100)])))

    def test_shapes_that_contradict_the_args_are_refused(self):
        def change(state):
            encoder = state["model"]["language_model"]["encoder"]
            name = "layers.0.mlp.dense_h_to_4h.weight"
            encoder[name] = encoder[name][:-2].clone()
        self.edit("mp_rank_01_001", change)
        self.assert_refused(self.reshape(), "dense_h_to_4h.weight")

    def test_dtypes_that_differ_between_ranks_are_refused(self):
        def change(state):
            encoder = state["model"]["language_model"]["encoder"]
            name = "layers.0.mlp.dense_h_to_4h.weight"
            encoder[name] = encoder[name].float()
        self.edit("mp_rank_01_001", change)
        self.assert_refused(self.reshape(), "dense_h_to_4h.weight")

    def test_an_optimizer_that_lacks_a_parameter_is_refused(self):
        def change(state):
            del state["optimizer"]["optimizer"]["state"][3]
        self.edit("mp_rank_01_001", change)
        self.assert_refused(self.reshape(), "optimizer")
        self.assertEqual(self.reshape("--no-optim").returncode, 0)

    def test_sizes_that_do_not_divide_name_those_that_would(self):
        for tp in (3, 8, 5):
            self.assert_refused(self.reshape(tp=tp), "1, 2", "4")
        self.assert_refused(self.reshape(pp=3), "1, 2", "4")
        self.assert_refused(self.reshape(pp=8), "1, 2", "4")
        self.assert_refused(self.reshape("--target-virtual-pipeline-parallel-size", "3", pp=2))
        self.assert_nothing_saved()

    def test_flipped_bits_are_found_unless_asked_not_to_look(self):
        state = torch.load(self.rank(), weights_only=False, mmap=True,
                           pickle_module=reference_files.PickleModule)
        moment = state["optimizer"]["optimizer"]["state"][0]["exp_avg"]
        with open(self.rank(), "r+b") as file:
            data = file.read()
            at = data.index(moment.numpy().tobytes()) + 5
            file.seek(at)
            file.write(bytes([data[at] ^ 16]))
        del state, moment
        self.assert_refused(self.reshape(), "mp_rank_01_001", "CRC")
        self.assert_nothing_saved()
        self.assertEqual(self.program("verify", "checkpoint", self.source).returncode, 1)
        self.assertEqual(self.reshape("--no-crc").returncode, 0)

    def test_flipped_bits_of_the_pickle_are_found_too(self):
        with open(self.rank(), "r+b") as file:
            data = file.read()
            file.seek(data.index(b"num_steps"))
            file.write(b"num_stepz")
        for flags in ((), ("--target-format", "torch_dist"), ("--target-format", "huggingface")):
            run = self.program("checkpoint_util", "--load-dir", self.source, "--save-dir",
                               self.path("saved"), *flags)
            self.assert_refused(run, "mp_rank_01_001", "data.pkl", "CRC-32")
        self.assert_nothing_saved()
        self.assertEqual(self.reshape("--no-crc").returncode, 0)


if __name__ == "__main__":
    run_tests()
