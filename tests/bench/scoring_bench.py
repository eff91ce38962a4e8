#!/usr/bin/env python3
"""LAMBADA scored over HTTP beside evaluate_gpt --strict-lambada, and lm_eval --model hf: the same weights and cores.

scoring_bench.py SERVER EVALUATE_GPT LAMBADA.jsonl HF_GPT2 --vocab-file V --merge-file M
    [--lines 64] [--clients 16] [--runs 3] [--lm-eval PYTHON]

HF_GPT2 is a folder of make_hf_gpt2.py. The clients send what lm-eval's local-completions sends, a prompt of ids each; all
log probabilities are compared with evaluate_gpt's before a rate is told. Rates are tokens of prompts a second, by the clock
and by processor time, medians of runs in turn; lm_eval (a Python that has it, torch and transformers) is timed from its
first request to its last one, by its progress. Of programs that load the model for each run, the processor time of a run
with one line is taken off.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "serving"))
from server_process import ServerProcess  # noqa: E402

TASK = {"task": "meg_lambada", "dataset_path": "json", "test_split": "test", "output_type": "loglikelihood",
        "doc_to_text": "{{text.split(' ')[:-1]|join(' ')}}", "doc_to_target": "{{' '+text.split(' ')[-1]}}",
        "metric_list": [{"metric": "acc"}]}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server")
    parser.add_argument("evaluate")
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("hf", type=pathlib.Path)
    parser.add_argument("--vocab-file", required=True)
    parser.add_argument("--merge-file", required=True)
    parser.add_argument("--lines", type=int, default=64)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--lm-eval")
    return parser.parse_args()


def processor_seconds(work):
    """(what work() returns, the processor time of the programs that it has waited for)"""
    def used():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime
    before = used()
    result = work()
    return result, used() - before


def server_seconds(server):
    fields = pathlib.Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def offline(arguments, model, data, results):
    """(results by line, tokens/s)"""
    done = subprocess.run([arguments.evaluate, "--task", "LAMBADA", "--valid-data", data, "--strict-lambada", *model,
                           "--output", results], capture_output=True, text=True, check=True)
    return ([json.loads(line) for line in results.read_text().splitlines()],
            int(re.search(r"([0-9]+) tokens/s", done.stdout + done.stderr).group(1)))


def tokenize(server, text):
    context, _, word = text.rpartition(" ")
    status, answer = server.ask({"prompt": f"{context} {word}"}, "POST", "/tokenize")
    assert status == 200, answer
    return answer["tokens"]


def over_http(server, clients, prompts, wanted):
    """tokens/s"""
    def score(ids, line):
        assert ids[line["context"]:] == line["target"], line
        status, answer = server.ask({"prompt": [ids], "max_tokens": 1, "temperature": 0, "logprobs": 1, "echo": True,
                                     "seed": 1234}, "POST", "/v1/completions", timeout=3600)
        assert status == 200, answer
        return sum(answer["choices"][0]["logprobs"]["token_logprobs"][line["context"]:-1])
    start = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        found = list(pool.map(score, prompts, wanted))
    seconds = time.monotonic() - start
    for line, logprob in zip(wanted, found, strict=True):
        assert abs(logprob - line["logprob"]) < 1e-5 * len(line["target"]), (line["index"], logprob, line["logprob"])
    return sum(len(ids) - 1 for ids in prompts) / seconds


def lm_eval(arguments, folder, tokens, task="meg_lambada"):
    """tokens/s of transformers in lm-eval, in batches of 8"""
    environment = dict(os.environ, HF_HOME=str(folder / "home"), HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false",
                       CUDA_VISIBLE_DEVICES="")
    done = subprocess.run(
        [arguments.lm_eval, "-m", "lm_eval", "--model", "hf", "--model_args", f"pretrained={arguments.hf},dtype=float32",
         "--tasks", task, "--include_path", folder, "--batch_size", "8"],
        env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    minutes, seconds = re.findall(r"Running loglikelihood requests: 100%.*?\[(\d+):(\d+)<", done.stderr)[-1]
    return tokens / max(1, 60 * int(minutes) + int(seconds))


def main():
    arguments = parse_arguments()
    vocabulary = ["--vocab-file", arguments.vocab_file, "--merge-file", arguments.merge_file]
    with tempfile.TemporaryDirectory() as held:
        folder = pathlib.Path(held)
        subprocess.run([sys.executable, ROOT / "tests/generation/hf_gpt2_to_megatron.py", arguments.hf, folder / "checkpoint"],
                       check=True, stdout=subprocess.DEVNULL)
        lines = arguments.data.read_text().splitlines(keepends=True)[:arguments.lines]
        data, one = folder / "lambada.jsonl", folder / "one.jsonl"
        data.write_text("".join(lines))
        one.write_text(lines[0])
        for task, file in (("meg_lambada", data), ("meg_one", one)):
            (folder / f"{task}.yaml").write_text(json.dumps(
                {**TASK, "task": task, "dataset_kwargs": {"data_files": {"test": str(file)}}}))
        model = ["--load", folder / "checkpoint", "--device", "cpu", *vocabulary]
        server = ServerProcess(arguments.server, *model[:4], vocabulary=vocabulary)
        names = ["evaluate_gpt", f"over HTTP, {arguments.clients} clients", "lm_eval --model hf"]
        rates = {name: [] for name in names}

        def note(name, rate, seconds):
            rates[name].append((rate, tokens / seconds))
        try:
            prompts = [tokenize(server, json.loads(line)["text"]) for line in lines]
            tokens = sum(map(len, prompts)) - len(prompts)
            _, start = processor_seconds(lambda: offline(arguments, model, one, folder / "results.jsonl"))
            _, lm_eval_start = processor_seconds(
                lambda: arguments.lm_eval and lm_eval(arguments, folder, tokens, "meg_one"))
            for _ in range(arguments.runs):
                (wanted, rate), seconds = processor_seconds(
                    lambda: offline(arguments, model, data, folder / "results.jsonl"))
                note(names[0], rate, seconds - start)
                before = server_seconds(server)
                rate = over_http(server, arguments.clients, prompts, wanted)
                note(names[1], rate, server_seconds(server) - before)
                if arguments.lm_eval:
                    rate, seconds = processor_seconds(lambda: lm_eval(arguments, folder, tokens))
                    note(names[2], rate, seconds - lm_eval_start)
        finally:
            assert server.stop() == 0, server.log_text()
    print(f"{arguments.lines} lines, {arguments.runs} runs, load {os.getloadavg()[0]:.1f}; the log probabilities are equal")
    first = [statistics.median(values) for values in zip(*rates[names[0]])]
    for name, values in rates.items():
        if values:
            rate, of_processor = (statistics.median(each) for each in zip(*values))
            print(f"{name}: {rate:.0f} tokens/s ({rate / first[0]:.2f}x), "
                  f"{of_processor:.0f} a second of processor time ({of_processor / first[1]:.2f}x)")


if __name__ == "__main__":
    main()
