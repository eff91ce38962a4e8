#!/usr/bin/env python3
"""huggingface_hub and transformers as judges of the hub: what they load is what an export holds.

huggingface_hub_reads_runs.py FOLDER_OF_PROGRAMS
"""

import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

from hub_case import PROGRAMS, ROOT, HubCase, export, main, write_llama

WEIGHTS = "model.safetensors"
SHARED = pathlib.Path(os.environ.get("MEG_SHARED", ROOT.parent / "shared"))
GOLDEN = SHARED / "oracle" / "checkpoints"
TESTDATA = [ROOT / "testdata" / "checkpoint", ROOT / "testdata/megatron_core/distopt_tp2_dp2/ranks",
            ROOT / "testdata/megatron_core/tp2pp2/ranks"]
# Tensor and pipeline ranks with the distributed optimizer, torch_dist, weights with a tokenizer.
RUNS = ["gpt_tp2pp2_bf16_distopt", "dist_llama_tp2pp2_bf16_model", "dist_gpt_tp2pp1_bf16_distopt_dp2",
        "mcore_llama_tp2pp1_fp32", "hf_gpt2_fp16_sharded", "megatron_from_hf_llama_tp2"]
KEY = "hf_key"

# Read when the package is imported; each test serves at a port of its own, so this one forwards.
gate = socket.create_server(("127.0.0.1", 0))
CACHE = tempfile.TemporaryDirectory()
os.environ |= {"HF_ENDPOINT": f"http://127.0.0.1:{gate.getsockname()[1]}", "HF_TOKEN": KEY,
               "HF_HOME": CACHE.name, "HF_HUB_DISABLE_TELEMETRY": "1",
               "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
try:
    import huggingface_hub
    import torch
    from huggingface_hub.errors import (EntryNotFoundError, HfHubHTTPError,
                                        RepositoryNotFoundError, RevisionNotFoundError)
    from huggingface_hub.file_download import http_get
    from transformers import (AutoConfig, AutoModelForCausalLM, MixtralConfig,
                              MixtralForCausalLM)
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)


class Gate:
    """Forwards connections to the server under test, and cuts one after some bytes if told to."""

    def __init__(self):
        self.port = self.cut_after = None
        self.cuts = 0
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            client, _ = gate.accept()
            server = socket.create_connection(("127.0.0.1", self.port))
            for pair in ((client, server), (server, client)):
                threading.Thread(target=self.forward, args=pair, daemon=True).start()

    def forward(self, source, target):
        sent = 0
        try:
            while data := source.recv(1 << 16):
                target.sendall(data)
                sent += len(data)
                if self.cut_after and sent > self.cut_after:
                    self.cut_after = None
                    self.cuts += 1
                    break
        except OSError:
            pass
        for each in (source, target):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


GATE = Gate()


class Judged(HubCase):
    flags = ("--api-key", KEY)

    @classmethod
    def make_root(cls):
        cls.runs = {}
        sources = list(TESTDATA)
        if GOLDEN.is_dir():
            sources += [GOLDEN / name for name in RUNS]
        for source in sources:
            name = source.name if source.name != "ranks" else source.parent.name
            shutil.copytree(source, cls.root / "gpt" / name)
            cls.runs[f"gpt/{name}"] = cls.root / "gpt" / name
        write_llama(cls.root / "llama" / "large")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        GATE.port = cls.server.port

    def revision(self, path):
        iterations = sorted(each.name for each in path.glob("iter_*"))
        return iterations[-1] if iterations else "main"

    def test_models_load_as_their_exports(self):
        for name, path in self.runs.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                for file, data in export(path).items():
                    pathlib.Path(folder, file).write_bytes(data)
                options = dict(dtype="auto", trust_remote_code=False)
                expected = AutoModelForCausalLM.from_pretrained(folder, **options)
                revision = self.revision(path)
                model = AutoModelForCausalLM.from_pretrained(name, revision=revision, **options)
                self.assertEqual(model.config.architectures, expected.config.architectures)
                tensors, others = model.state_dict(), expected.state_dict()
                self.assertEqual(tensors.keys(), others.keys())
                for key, tensor in tensors.items():
                    self.assertEqual(tensor.dtype, others[key].dtype)
                    self.assertTrue(torch.equal(tensor, others[key]), key)
                self.assertEqual(AutoConfig.from_pretrained(name).to_dict().keys(),
                                 AutoConfig.from_pretrained(folder).to_dict().keys())
        if not GOLDEN.is_dir():
            self.skipTest(f"{GOLDEN}: no shared folder")

    def test_snapshots_are_exports(self):
        for name, path in self.runs.items():
            local = huggingface_hub.snapshot_download(name, revision=self.revision(path))
            expected = export(path)
            self.assertEqual(sorted(os.listdir(local)), sorted(expected))
            for file, data in expected.items():
                self.assertEqual(pathlib.Path(local, file).read_bytes(), data)
            self.assertEqual(pathlib.Path(local).name,
                             huggingface_hub.HfApi().model_info(name).sha)

    def test_the_command_line_downloads(self):
        with tempfile.TemporaryDirectory() as folder:
            command = [pathlib.Path(sys.executable).parent / "hf", "download", "gpt/checkpoint",
                       "--revision", "iter_0000100", "--local-dir", folder]
            subprocess.run(command, check=True, capture_output=True, text=True)
            for file, data in export(self.runs["gpt/checkpoint"]).items():
                self.assertEqual(pathlib.Path(folder, file).read_bytes(), data)

    def test_what_vllm_asks_for(self):
        """The calls of its weight_utils, config and model_loader: listings first, then parts of a snapshot by pattern."""
        for name, path in self.runs.items():
            revision, files = self.revision(path), export(path)
            listed = huggingface_hub.HfFileSystem().ls(name, detail=False, revision=revision)
            self.assertEqual({each.rpartition("/")[2] for each in listed}, set(files))
            self.assertEqual(set(huggingface_hub.list_repo_files(name, revision=revision)), set(files))
            for file in ("config.json", "model.safetensors", "params.json", "adapter_config.json"):
                self.assertEqual(huggingface_hub.file_exists(name, file, revision=revision), file in files)
            metadata = huggingface_hub.get_safetensors_metadata(name, revision=revision)
            with tempfile.TemporaryDirectory() as folder:
                for patterns in (["*.safetensors"], ["model.safetensors.index.json"], ["*.json", "*.txt"], ["*.bin"]):
                    huggingface_hub.snapshot_download(name, revision=revision, cache_dir=folder, allow_patterns=patterns,
                                                      ignore_patterns=["original/**/*"])
                found = {each.name: each.read_bytes() for each in pathlib.Path(folder).glob("**/snapshots/*/*")}
            self.assertEqual(found, {file: data for file, data in files.items()
                                     if file.endswith((".safetensors", ".json", ".txt"))})
            weights = [file for file in files if file.endswith(".safetensors")]
            self.assertEqual(sorted(metadata.files_metadata), sorted(weights))

    def test_what_is_listed_is_what_there_is(self):
        api = huggingface_hub.HfApi()
        self.assertEqual({model.id for model in api.list_models()}, {*self.runs, "llama/large"})
        files = {file.path: file.size for file in api.list_repo_tree("gpt/checkpoint")}
        expected = export(self.runs["gpt/checkpoint"])
        self.assertEqual(files, {name: len(data) for name, data in expected.items()})
        self.assertEqual(set(api.list_repo_files("gpt/checkpoint")), set(expected))
        self.assertEqual([file.path for file in api.get_paths_info("gpt/checkpoint",
                                                                   ["config.json", "none"])],
                         ["config.json"])
        self.assertTrue(api.file_exists("gpt/checkpoint", WEIGHTS))
        self.assertFalse(api.file_exists("gpt/checkpoint", "none"))
        self.assertTrue(api.revision_exists("gpt/checkpoint", "iter_0000100"))
        self.assertFalse(api.revision_exists("gpt/checkpoint", "iter_0000101"))
        self.assertFalse(api.repo_exists("gpt/none"))
        refs = api.list_repo_refs("gpt/checkpoint").branches
        self.assertEqual([ref.name for ref in refs], ["main", "iter_0000100"])
        self.assertEqual(len(api.list_repo_commits("gpt/checkpoint")), 1)
        info = api.get_safetensors_metadata("gpt/checkpoint")
        self.assertFalse(info.sharded)
        self.assertEqual(api.whoami()["name"], "libmeg")

    def test_wrong_names_raise_their_exceptions(self):
        get = huggingface_hub.hf_hub_download
        for arguments, kind in ((("gpt/none", "config.json"), RepositoryNotFoundError),
                                (("gpt/checkpoint", "none"), EntryNotFoundError)):
            with self.assertRaises(kind):
                get(*arguments)
        with self.assertRaises(RevisionNotFoundError):
            get("gpt/checkpoint", "config.json", revision="iter_0000101")
        with self.assertRaises(OSError):
            AutoModelForCausalLM.from_pretrained("gpt/none")
        with self.assertRaises(HfHubHTTPError) as caught:
            get("gpt/checkpoint", "config.json", token="hf_other",
                cache_dir=self.folder.name + "/cache")
        self.assertEqual(caught.exception.response.status_code, 401)

    def test_a_download_goes_on_where_it_was_cut(self):
        expected = export(self.root / "llama" / "large")[WEIGHTS]
        before = GATE.cuts
        GATE.cut_after = 20_000_000
        path = huggingface_hub.hf_hub_download("llama/large", WEIGHTS)
        self.assertEqual(GATE.cuts, before + 1)
        self.assertEqual(pathlib.Path(path).read_bytes(), expected)
        self.assertIn(" 206 ", self.server.log_text())
        begun = pathlib.Path(self.folder.name, "begun")
        begun.write_bytes(expected[:12345])
        with begun.open("ab") as file:
            http_get(huggingface_hub.hf_hub_url("llama/large", WEIGHTS), file, resume_size=12345,
                     headers={"Authorization": f"Bearer {KEY}"}, expected_size=len(expected))
        self.assertEqual(begun.read_bytes(), expected)


class Experts(HubCase):
    """Tensor, pipeline and expert ranks of a model that transformers made."""

    flags = ("--api-key", KEY)

    @classmethod
    def make_root(cls):
        config = MixtralConfig(vocab_size=96, hidden_size=32, intermediate_size=48,
                               num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
                               num_local_experts=4, num_experts_per_tok=2,
                               max_position_embeddings=64)
        torch.manual_seed(1)
        cls.model = MixtralForCausalLM(config).float().eval()
        cls.model.save_pretrained(cls.root.parent / "source")
        subprocess.run([PROGRAMS / "checkpoint_util", "--load-dir", cls.root.parent / "source",
                        "--save-dir", cls.root / "moe" / "run", "--make-vocab-size-divisible-by",
                        "1", "--target-tensor-parallel-size", "2",
                        "--target-pipeline-parallel-size", "2", "--target-expert-parallel-size",
                        "2"], check=True, capture_output=True)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        GATE.port = cls.server.port

    def test_a_model_of_every_parallelism_loads(self):
        model = AutoModelForCausalLM.from_pretrained("moe/run", revision="release").eval()
        for key, tensor in self.model.state_dict().items():
            self.assertTrue(torch.equal(tensor, model.state_dict()[key]), key)
        tokens = torch.arange(40).reshape(2, 20)
        with torch.no_grad():
            self.assertTrue(torch.equal(model(tokens).logits, self.model(tokens).logits))


class NamedTokenizers(HubCase):
    """Runs whose args name tokenizer files outside of the served folder, as runs in training do."""

    @classmethod
    def make_root(cls):
        super().make_root()
        folder = cls.root.parent
        for name in ("vocab.json", "merges.txt"):
            shutil.copy(ROOT / "testdata" / "tokenizer" / name, folder)
        # In the folder that the server runs in.
        cls.addClassCleanup(os.chdir, os.getcwd())
        os.chdir(folder)
        for run, place in (("relative", ""), ("absolute", f"{folder}/")):
            shutil.copytree(cls.root / "gpt" / "tiny", cls.root / "gpt" / run)
            for path in (cls.root / "gpt" / run).rglob("*.pt"):
                state = torch.load(path, weights_only=False)
                state["args"].vocab_file = place + "vocab.json"
                state["args"].merge_file = place + "merges.txt"
                torch.save(state, path)

    def test_they_are_served_without_those_files(self):
        for run in ("relative", "absolute"):
            with self.subTest(run):
                self.assertEqual({file["path"] for file in self.json(f"/api/models/gpt/{run}/tree/main")},
                                 {"config.json", WEIGHTS})
                self.assertEqual(self.file(WEIGHTS, f"gpt/{run}")[2], self.file(WEIGHTS, "gpt/tiny")[2])


class Shards(HubCase):
    flags = ("--api-key", KEY, "--max-shard-size", "2KB")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        GATE.port = cls.server.port

    def test_a_model_in_shards_loads(self):
        model = AutoModelForCausalLM.from_pretrained("gpt/tiny", revision="iter_0000100")
        local = pathlib.Path(huggingface_hub.snapshot_download("gpt/tiny"))
        expected = export(self.root / "gpt" / "tiny", "--max-shard-size", "2KB")
        self.assertIn(WEIGHTS + ".index.json", expected)
        self.assertGreater(len(list(local.glob("model-*.safetensors"))), 2)
        self.assertEqual({path.name: path.read_bytes() for path in local.iterdir()}, expected)
        again = AutoModelForCausalLM.from_pretrained(local)
        for key, tensor in again.state_dict().items():
            self.assertTrue(torch.equal(tensor, model.state_dict()[key]))


if __name__ == "__main__":
    main()
