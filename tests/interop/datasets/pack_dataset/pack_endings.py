"""Runs that are stopped, and templates that would never end."""
import collections
import os
import random
import signal
import subprocess
import time

from pack_dataset import pack_case


class Endings(pack_case.PackCase):
    def test_endless_templates(self):
        for source in ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "{% include '/etc/passwd' %}",
                       "{{ open('/etc/passwd') }}"):
            with open(self.path("t.jinja"), "w") as file:
                file.write(source)
            done = self.run_pack("chats.jsonl", "--chat-template", self.path("t.jinja"), out="failed")
            self.assertIn(done.returncode, (1, 2), source)
            self.assertEqual([name for name in os.listdir(self.folder.name) if name.startswith("failed")], [])

    def test_kills_leave_no_mixture(self):
        """SIGKILL at any moment of a run that replaces an older dataset: what is found is one of both, or none. MEG_KILLS: how many."""
        ends = (".bin", "_loss_mask.bin", "_loss_mask.idx", "_packing.json", ".idx.parquet")
        flags = [f"{pack_case.BIN}/pack_dataset", "--input", self.path("many.jsonl"), "--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model",
                 self.path("tokenizer"), "--packed-parquet", "--json", "--output-prefix"]
        self.write("many.jsonl", [{"messages": messages} for messages in self.conversations * 30])

        def files(prefix):
            found = []
            for end in (".idx", *ends):
                with open(self.path(prefix) + end, "rb") as file:
                    found.append(file.read())
            return found

        states = {"old": ["--chat-template", "chatml", "--seq-length", "300"], "new": ["--chat-template", "llama3", "--seq-length", "200"]}
        whole, seconds = {}, 0
        for name, of in states.items():
            begin = time.perf_counter()
            subprocess.run([*flags, self.path(name), *of], check=True, stdout=subprocess.DEVNULL)
            seconds = time.perf_counter() - begin
            whole[name] = files(name)
        self.assertNotEqual(whole["old"], whole["new"])
        rng, found = random.Random(1), collections.Counter()
        for _ in range(int(os.environ.get("MEG_KILLS", 16))):
            for name in os.listdir(self.folder.name):
                if name.startswith("killed"):
                    os.remove(self.path(name))
            subprocess.run([*flags, self.path("killed"), *states["old"]], check=True, stdout=subprocess.DEVNULL)
            process = subprocess.Popen([*flags, self.path("killed"), *states["new"]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            # Half of them at the end, where files are renamed.
            time.sleep(seconds * (rng.uniform(0, 1.1) if rng.random() < 0.5 else rng.uniform(0.8, 1.1)))
            process.kill()
            process.wait()
            if not os.path.exists(self.path("killed.idx")):
                found["none"] += 1
                continue
            is_old = files("killed") == whole["old"]
            self.assertTrue(is_old or files("killed") == whole["new"])
            found["old" if is_old else "new"] += 1
        print(f"kills: {dict(found)}")

    def test_interruption_leaves_nothing(self):
        read_end, write_end = os.pipe()
        process = subprocess.Popen(
            [f"{pack_case.BIN}/pack_dataset", "--input", "-", "--output-prefix", self.path("stopped"), "--tokenizer-type",
             "HuggingFaceTokenizer", "--tokenizer-model", self.path("tokenizer"), "--seq-length", "64", "--chat-template", "chatml"],
            stdin=read_end, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        os.close(read_end)
        while not any(name.startswith("stopped") for name in os.listdir(self.folder.name)) and process.poll() is None:
            pass
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        os.close(write_end)
        self.assertEqual(process.returncode, -signal.SIGTERM)
        self.assertEqual([name for name in os.listdir(self.folder.name) if name.startswith("stopped")], [])
