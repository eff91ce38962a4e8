"""Checkpoints beside what torch, safetensors and megatron-core read from the same files."""

import glob
import json
import os
import pathlib
import pickle
import shutil
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import libmeg

TESTDATA = pathlib.Path(__file__).resolve().parents[2] / "testdata"
CORE = TESTDATA / "megatron_core"
SHARED = pathlib.Path(os.environ.get("MEG_SHARED", TESTDATA.parents[1] / "shared")) / "oracle" / "checkpoints"
EMBEDDING = "embedding.word_embeddings.weight"

torch = pytest.importorskip("torch")


def load(path):
    return torch.load(path, weights_only=False, map_location="cpu")


def rank_file(folder, rank="mp_rank_00"):
    return glob.glob(f"{folder}/iter_*/{rank}/model_optim_rng.pt")[0]


def parameters_of(model):
    return {name: value for name, value in model.items() if torch.is_tensor(value) and "_extra_state" not in name}


def assert_same(tensors, expected):
    assert tensors.keys() == expected.keys()
    for name, tensor in tensors.items():
        assert tensor.dtype == expected[name].dtype and torch.equal(tensor, expected[name]), name


# ---- Values of the neighbours ----


def test_ranks_of_core_are_the_whole_model_that_core_makes_of_them():
    for case in ["tp2pp2", "distopt_tp2_dp2"]:
        expected = parameters_of(load(rank_file(CORE / case / "whole"))["model"])
        assert_same(libmeg.open_checkpoint(CORE / case / "ranks").state_dict(), expected)
        assert_same(libmeg.open_checkpoint(CORE / case / "whole").state_dict(), expected)


def test_virtual_stages_are_in_the_order_of_the_layers():
    whole = load(rank_file(CORE / "pp2_vpp2" / "whole"))
    ours = libmeg.open_checkpoint(CORE / "pp2_vpp2" / "ranks")
    assert ours.virtual_pipeline_model_parallel_size == 2 and ours.pipeline_model_parallel_size == 2
    assert_same(ours.state_dict(), parameters_of(whole["model"]))


@pytest.mark.parametrize("case", ["tp2pp2", "pp2_vpp2"])
def test_the_optimizer_of_ranks_is_the_one_that_core_makes_of_them(case):
    whole = load(rank_file(CORE / case / "whole"))["optimizer"]
    optimizer = libmeg.open_checkpoint(CORE / case / "ranks").optimizer
    assert optimizer.form == "mixed precision" and not optimizer.is_distributed
    name_of = {state["fp32_param"].numpy().tobytes(): name for name, state in optimizer.items()}
    assert len(name_of) == len(optimizer)
    masters = [master for group in whole["fp32_from_fp16_params"] for master in group]
    assert len(masters) == len(optimizer)
    for index, master in enumerate(masters):
        ours = optimizer[name_of[master.numpy().tobytes()]]
        for kind in ["exp_avg", "exp_avg_sq"]:
            assert torch.equal(ours[kind].torch(), whole["optimizer"]["state"][index][kind])
    theirs = whole["optimizer"]["param_groups"]
    for ours in optimizer.param_groups:
        match = next(group for group in theirs if group["wd_mult"] == ours["wd_mult"])
        shared = set(match) & set(ours)
        assert {"lr", "betas", "eps", "weight_decay", "step"} <= shared
        assert all(ours[key] == match[key] for key in shared)


def test_the_distributed_optimizer_is_the_plain_one_of_the_same_run():
    for case in ["bf16_tp2pp2_dp2", "fp16_dp3", "fp32_dp2"]:
        folder = TESTDATA / "optimizer_shards" / case
        shards, plain = (libmeg.open_checkpoint(*(folder / form).glob("iter_*")) for form in ["shards", "plain"])
        assert shards.optimizer.is_distributed and not plain.optimizer.is_distributed
        assert list(shards.optimizer) == list(plain.optimizer) and len(plain.optimizer) > 0
        for name, state in plain.optimizer.items():
            for kind, tensor in state.items():
                np.testing.assert_array_equal(shards.optimizer[name][kind].numpy(), tensor.numpy())


def test_masters_of_the_distributed_optimizer_round_to_the_weights():
    checkpoint = libmeg.open_checkpoint(CORE / "distopt_tp2_dp2" / "ranks")
    assert checkpoint.optimizer.is_distributed
    for name, state in checkpoint.optimizer.items():
        assert torch.equal(state["fp32_param"].torch().bfloat16(), checkpoint[name].torch())


def test_a_table_is_the_rows_of_its_ranks():
    folder = TESTDATA / "checkpoint"
    ranks = [load(rank_file(folder, f"mp_rank_{rank:02}_000")) for rank in range(2)]
    parts = [rank["model"]["language_model"]["embedding"]["word_embeddings"]["weight"] for rank in ranks]
    checkpoint = libmeg.open_checkpoint(folder)
    table = checkpoint[EMBEDDING]
    expected = torch.cat(parts)
    assert table.shape == tuple(expected.shape) and table.dtype == "float16" and len(table) == len(expected)
    assert torch.equal(table.torch(), expected)
    np.testing.assert_array_equal(table.numpy(), expected.numpy())
    assert (checkpoint.format, checkpoint.iteration, checkpoint.checkpoint_version) == ("torch", 100, 3.0)
    assert (checkpoint.tensor_model_parallel_size, checkpoint.pipeline_model_parallel_size) == (2, 2)
    args = vars(ranks[0]["args"])
    ours = checkpoint.args
    assert ours.keys() == args.keys()
    plain = {name: value for name, value in args.items() if type(value) in (int, float, bool, str, list, type(None))}
    assert {name: ours[name] for name in plain} == plain and ours["params_dtype"] == "torch.float16"


def test_weights_of_hugging_face_are_those_of_safetensors(tmp_path):
    transformers = pytest.importorskip("transformers")
    safetensors = pytest.importorskip("safetensors.torch")
    config = transformers.LlamaConfig(
        hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=40, max_position_embeddings=32,
    )  # fmt: skip
    torch.manual_seed(1)
    transformers.LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(tmp_path)
    theirs = safetensors.load_file(tmp_path / "model.safetensors")
    ours = libmeg.open_checkpoint(tmp_path)
    assert ours.format == "Hugging Face" and len(ours.optimizer) == 0
    weights = ours.state_dict()
    assert torch.equal(weights[EMBEDDING], theirs["model.embed_tokens.weight"])
    assert torch.equal(weights["output_layer.weight"], theirs["lm_head.weight"])
    for layer in range(2):
        peer, mine = f"model.layers.{layer}", f"decoder.layers.{layer}"
        down = weights[f"{mine}.mlp.linear_fc2.weight"]
        assert torch.equal(down, theirs[f"{peer}.mlp.down_proj.weight"])
        gated = torch.cat([theirs[f"{peer}.mlp.gate_proj.weight"], theirs[f"{peer}.mlp.up_proj.weight"]])
        assert torch.equal(weights[f"{mine}.mlp.linear_fc1.weight"], gated)
        query, key, value = (theirs[f"{peer}.self_attn.{name}_proj.weight"].view(2, -1, 16) for name in "qkv")
        grouped = torch.cat([query, key, value], dim=1).reshape(-1, 16)
        assert torch.equal(weights[f"{mine}.self_attention.linear_qkv.weight"], grouped)


@pytest.mark.parametrize(
    "case",
    ["dist_gpt_tp1pp1_fp32_model", "dist_gpt_tp2pp1_bf16_opt", "dist_llama_tp2pp2_bf16_model",
     "v0161_dist_gpt_tp2pp1_bf16_distopt_dp2"],
)  # fmt: skip
def test_torch_dist_is_what_torch_makes_of_it(case, tmp_path):
    if not (SHARED / case).exists():
        pytest.skip("no golden checkpoints")
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    dcp_to_torch_save(glob.glob(f"{SHARED / case}/iter_*")[0], tmp_path / "whole.pt")
    theirs = load(tmp_path / "whole.pt")
    ours = libmeg.open_checkpoint(SHARED / case)
    assert ours.format == "torch_dist"
    compared = 0
    for name, weight in ours.state_dict().items():
        if name in theirs:
            expected = theirs[name]
        else:  # Layers are rows of one tensor.
            before, _, after = name.partition(".layers.")
            layer, _, rest = after.partition(".")
            for norm, module in [("input", "self_attention.linear_qkv"), ("pre_mlp", "mlp.linear_fc1")]:
                if f"{before}.layers.{rest}" not in theirs:  # The module that the norm is fused with has its weights.
                    rest = rest.replace(f"{norm}_layernorm.", f"{module}.layer_norm_")
            expected = theirs[f"{before}.layers.{rest}"][int(layer)]
        assert torch.equal(weight, expected[: len(weight)].reshape(weight.shape)), name
        compared += 1
    assert compared == len(ours)


GOLDEN = ["gpt_tp2pp2_fp16", "gpt_tp2pp2_bf16_untied", "mcore_llama_tp1pp1_bf16", "gpt_tp2pp2_bf16_distopt"]


@pytest.mark.parametrize("case", GOLDEN)
def test_parts_of_golden_ranks_are_what_torch_loads(case):
    if not (SHARED / case).exists():
        pytest.skip("no golden checkpoints")
    ours = libmeg.open_checkpoint(SHARED / case)
    found = {}
    for path in sorted(glob.glob(f"{SHARED / case}/iter_*/mp_rank_*/model_optim_rng.pt")):
        for tensor in tensors_in(load(path)["model"]):
            found.setdefault(tuple(tensor.shape), set()).add(bytes(tensor.contiguous().view(torch.uint8).numpy()))
    for name, weight in ours.items():
        merged, ranks = weight.torch(), ours.tensor_model_parallel_size
        cuts = [
            bytes(part.contiguous().view(torch.uint8).numpy())
            for axis in range(min(merged.ndim, 2))
            for part in merged.tensor_split(ranks, axis)
        ] + [bytes(merged.view(torch.uint8).numpy())]
        if "linear_fc1" in name and ours.args.get("swiglu"):
            halves = [half.tensor_split(ranks) for half in merged.chunk(2)]
            cuts += [bytes(torch.cat(pair).view(torch.uint8).numpy()) for pair in zip(*halves)]
        assert any(cut in known for cut in cuts for known in found.values()), name


def tensors_in(tree):
    for value in tree.values():
        if torch.is_tensor(value):
            yield value
        elif isinstance(value, dict):
            yield from tensors_in(value)


# ---- Tensors ----


def test_slices_read_their_rows():
    table = libmeg.open_checkpoint(CORE / "tp2pp2" / "ranks")[EMBEDDING]
    whole = table.torch()
    for rows in [slice(3, 20), slice(None), slice(-4, None), slice(5, 5), slice(9, 2), slice(30, 99)]:
        assert torch.equal(table[rows].torch(), whole[rows])
    for row in [0, 7, -1]:
        assert torch.equal(table[row].torch(), whole[row])
    assert torch.equal(table[4:20][2:5][1].torch(), whole[7])
    assert table[2:5].shape == (3, 8) and table[0].shape == (8,) and table[0][0].shape == ()
    assert torch.equal(table[3][2].torch(), whole[3, 2])
    assert len(list(table)) == len(whole)


def test_tensors_are_arrays_and_dlpack():
    table = libmeg.open_checkpoint(TESTDATA / "checkpoint")[EMBEDDING]
    array = table.numpy()
    np.testing.assert_array_equal(np.asarray(table), array)
    assert np.asarray(table, dtype=np.float32).dtype == np.float32
    np.testing.assert_array_equal(np.from_dlpack(table), array)
    np.testing.assert_array_equal(torch.from_dlpack(table).numpy(), array)
    half = libmeg.open_checkpoint(CORE / "tp2pp2" / "ranks")[EMBEDDING]
    assert half.dtype == "bfloat16" and torch.equal(torch.from_dlpack(half), half.torch())
    array[0, 0] = 5  # its own memory
    assert table.numpy()[0, 0] != 5


def test_bfloat16_is_numpys_by_ml_dtypes_alone():
    half = libmeg.open_checkpoint(CORE / "tp2pp2" / "ranks")[EMBEDDING]
    try:
        import ml_dtypes
    except ImportError:
        with pytest.raises(libmeg.errors.UnsupportedError, match="ml_dtypes"):
            half.numpy()
        with pytest.raises(libmeg.errors.UnsupportedError, match="ml_dtypes"):
            libmeg.open_checkpoint(CORE / "tp2pp2" / "ranks").state_dict(numpy=True)
    else:
        assert half.numpy().dtype == ml_dtypes.bfloat16
        np.testing.assert_array_equal(half.numpy().view(np.uint16), half.torch().view(torch.uint16).numpy())


# ---- Wrong arguments and files ----


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda c: libmeg.open_checkpoint("no"), FileNotFoundError, "no: "),
        (lambda c: libmeg.open_checkpoint(c.path + "/..", iteration=7), libmeg.errors.NotFoundError, "iter_0000007"),
        (lambda c: libmeg.open_checkpoint(5), TypeError, ""),
        (lambda c: libmeg.open_checkpoint(TESTDATA / "checkpoint", iteration="7"), TypeError, "integer"),
        (lambda c: libmeg.open_checkpoint(TESTDATA / "tokenizer"), libmeg.Error, ""),
        (lambda c: c["no"], KeyError, "no"),
        (lambda c: c.optimizer["no"], KeyError, "no"),
        (lambda c: c[EMBEDDING][80], libmeg.errors.OutOfRangeError, "expected a row below 80, found 80"),
        (lambda c: c[EMBEDDING][-81], IndexError, ""),
        (lambda c: c[EMBEDDING][::2], libmeg.errors.InvalidArgumentError, "step 1, found 2"),
        (lambda c: c[EMBEDDING]["a"], TypeError, "integer"),
        (lambda c: c[EMBEDDING][0][0][0], libmeg.errors.OutOfRangeError, "dimension"),
        (lambda c: len(c[EMBEDDING][0][0]), TypeError, ""),
        (lambda c: np.array(c[EMBEDDING], copy=False), ValueError, ""),
        (lambda c: c._reader.read([[0, 0, 0]], [np.empty(10**6, np.uint8)]), IndexError, ""),
        (lambda c: c._reader.read([[0, 99, 0]], [np.empty(16, np.uint8)]), IndexError, ""),
        (lambda c: c._reader.read([[-1, 0, 0]], [np.empty(16, np.uint8)]), IndexError, ""),
        (lambda c: c._reader.read([[0, 0, 2**62]], [np.empty(16, np.uint8)]), IndexError, ""),
        (lambda c: c._reader.read([], [np.empty(16, np.uint8)]), IndexError, ""),
        (lambda c: c._reader.read([[0, 0, 0]], [np.empty(4)]), TypeError, ""),
        (lambda c: c._reader.read([[0, 0, 0]], [np.frombuffer(b"0123456789abcdef", np.uint8)]), TypeError, ""),
    ],
)  # fmt: skip
def test_wrong_arguments_are_exceptions(call, error, message):
    with pytest.raises(error) as raised:
        call(libmeg.open_checkpoint(TESTDATA / "checkpoint"))
    assert message in str(raised.value)


def test_a_closed_checkpoint_is_an_error():
    with libmeg.open_checkpoint(TESTDATA / "checkpoint") as checkpoint:
        table = checkpoint[EMBEDDING]
        assert not checkpoint.closed
    assert checkpoint.closed and "closed" in repr(checkpoint)
    for call in [table.numpy, checkpoint.state_dict, lambda: checkpoint.args, lambda: checkpoint.optimizer]:
        with pytest.raises(libmeg.errors.InvalidArgumentError, match="closed"):
            call()
    checkpoint.close()


def test_a_tensor_keeps_its_checkpoint_open():
    table = libmeg.open_checkpoint(TESTDATA / "checkpoint")[EMBEDDING]
    assert table.numpy().shape == (80, 8)


@pytest.mark.parametrize("damage", ["delete", "truncate", "flip"])
def test_files_that_change_after_opening_are_errors(tmp_path, damage):
    folder = tmp_path / "checkpoint"
    shutil.copytree(TESTDATA / "checkpoint", folder)
    checkpoint = libmeg.open_checkpoint(folder)
    for path in folder.glob("iter_*/mp_rank_*/model_optim_rng.pt"):
        if damage == "delete":
            path.unlink()
        elif damage == "truncate":
            os.truncate(path, 64)
        else:
            data = bytearray(path.read_bytes())
            for i in range(len(data)):
                data[i] ^= 0x10
            path.write_bytes(data)
    try:
        checkpoint.state_dict()
    except libmeg.Error as error:
        assert "model_optim_rng.pt" in str(error) and "\n" not in str(error)
    else:
        assert damage == "delete"  # The descriptor was still open.
    if damage == "flip":
        with pytest.raises(libmeg.errors.CorruptionError, match="CRC"):
            checkpoint[EMBEDDING].numpy()


def test_odd_and_hostile_files_are_read_or_refused():
    if not SHARED.exists():
        pytest.skip("no golden checkpoints")
    expected = json.loads((SHARED / "evil" / "expected.json").read_text())
    assert len(expected) > 80
    for name in expected:
        try:
            with libmeg.open_checkpoint(SHARED / "evil" / name, ignore_optimizer=True) as checkpoint:
                checkpoint.state_dict()
                checkpoint.args
        except libmeg.Error as error:
            assert "\n" not in str(error)
    assert not os.path.exists("EVIL_WAS_EXECUTED")


def test_args_are_not_executed_and_stay_in_proportion(tmp_path):
    class Call:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "executed"),)

    data = load(rank_file(CORE / "tp2pp2" / "whole"))
    data["args"].hook = Call()
    data["args"].scaled = {(1, 2): [1.5, None, {"a": True}], b"k": 2**70}
    path = tmp_path / "iter_0000002" / "mp_rank_00" / "model_optim_rng.pt"
    path.parent.mkdir(parents=True)
    torch.save(data, path)
    shutil.rmtree(tmp_path / "executed", ignore_errors=True)
    args = libmeg.open_checkpoint(path.parents[1]).args
    assert args["scaled"] == data["args"].scaled and "mkdir" in args["hook"]
    assert not (tmp_path / "executed").exists()
    shared = ["x" * 1000]
    for _ in range(40):
        shared = [shared, shared]
    data["args"].hook = shared
    torch.save(data, path)
    with pytest.raises(libmeg.Error):
        libmeg.open_checkpoint(path.parents[1]).args


# ---- Threads, processes, interruption, memory ----


def test_many_threads_share_a_checkpoint():
    checkpoint = libmeg.open_checkpoint(CORE / "tp2pp2" / "ranks")
    expected = checkpoint.state_dict()

    def read(i):
        name = list(checkpoint)[i % len(checkpoint)]
        return torch.equal(checkpoint[name].torch(), expected[name])

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(read, range(400)))


def test_a_checkpoint_may_be_closed_while_it_is_read():
    for _ in range(20):
        checkpoint = libmeg.open_checkpoint(CORE / "tp2pp2" / "ranks")
        closing = threading.Thread(target=checkpoint.close)
        closing.start()
        try:
            checkpoint.state_dict()
        except libmeg.errors.InvalidArgumentError:
            pass
        closing.join()


def test_processes_take_a_checkpoint_along():
    checkpoint = libmeg.open_checkpoint(TESTDATA / "checkpoint")
    expected = checkpoint[EMBEDDING].numpy()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(checkpoint))[EMBEDDING].numpy(), expected)
    for _ in range(5):
        child = os.fork()
        if child == 0:
            os._exit(0 if np.array_equal(checkpoint[EMBEDDING].numpy(), expected) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_long_reads_hear_ctrl_c(tmp_path):
    data = load(rank_file(CORE / "tp2pp2" / "whole"))
    data["args"].num_layers = 2
    data["args"].padded_vocab_size = rows = 1 << 25  # 512 MiB of bfloat16
    data["model"][EMBEDDING] = torch.zeros(rows, 8, dtype=torch.bfloat16)
    path = tmp_path / "iter_0000002" / "mp_rank_00" / "model_optim_rng.pt"
    path.parent.mkdir(parents=True)
    torch.save(data, path)
    checkpoint = libmeg.open_checkpoint(path.parents[1], ignore_optimizer=True)
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        for _ in range(1000):
            checkpoint[EMBEDDING].torch()
    timer.join()
    assert checkpoint[EMBEDDING][-2:].torch().tolist() == [[0] * 8] * 2


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_repeated_use_does_not_grow():
    def use(times):
        for i in range(times):
            with libmeg.open_checkpoint(path, ignore_optimizer=i % 10 > 0) as checkpoint:
                checkpoint[EMBEDDING].torch()
                checkpoint.args
                checkpoint.optimizer
            with pytest.raises(libmeg.Error):
                libmeg.open_checkpoint("no")

    path = rank_file(CORE / "tp2pp2" / "whole")
    use(200)
    before, descriptors = resident_bytes(), len(os.listdir("/proc/self/fd"))
    use(3000)
    assert resident_bytes() - before < 6 << 20
    assert len(os.listdir("/proc/self/fd")) <= descriptors + 1
