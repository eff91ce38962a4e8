"""How conversations are packed, and the files."""
import collections
import json

import numpy
import pyarrow.parquet

from pack_dataset import pack_case


def first_fit_decreasing(lengths, size):
    """Megatron-Bridge's, on the lengths alone."""
    bins = []
    for length in sorted(lengths, reverse=True):
        for one in bins:
            if sum(one) + length <= size:
                one.append(length)
                break
        else:
            bins.append([length])
    return bins


class Bins(pack_case.PackCase):
    def test_packing(self):
        whole = self.in_order("chats.jsonl", "--chat-template", "chatml")
        lengths = [len(ids) - 1 for ids, _ in whole]
        size = max(lengths) + 50
        answer = self.pack("chats.jsonl", "--chat-template", "chatml", "--packed-parquet", length=size)
        packed = self.read()
        self.assertEqual(sorted(one for some in packed for one in some), sorted(whole))
        wanted = collections.Counter(tuple(sorted(one)) for one in first_fit_decreasing(lengths, size))
        self.assertEqual(collections.Counter(tuple(sorted(len(ids) - 1 for ids, _ in some)) for some in packed), wanted)
        self.assertAlmostEqual(answer["packing_efficiency"], sum(lengths) / len(packed) / size)
        with open(self.path("out_packing.json")) as file:
            self.assertEqual(json.load(file), [{
                "dataset_max_seqlen": max(lengths), "max_samples_per_bin": max(map(len, wanted)),
                "packing_factor": round(len(lengths) / len(packed), 2),
                "packing_efficiency": round(sum(lengths) / len(packed) / size * 100, 2), "pack_size": size,
                "min_packed_seqlen": min(map(sum, wanted))}])
        table = pyarrow.parquet.read_table(self.path("out.idx.parquet"))
        self.assertEqual([str(field.type.value_type) for field in table.schema], ["int32", "int8", "int32"])
        rows = table.to_pylist()
        self.assertEqual([row["input_ids"] for row in rows], [sum((ids for ids, _ in some), []) for some in packed])
        self.assertEqual([row["loss_mask"] for row in rows], [sum((mask[1:] + [0] for _, mask in some), []) for some in packed])
        self.assertEqual([row["seq_start_id"] for row in rows],
                         [numpy.cumsum([0] + [len(ids) for ids, _ in some])[:-1].tolist() for some in packed])

        self.pack("chats.jsonl", "--chat-template", "chatml", "--packing-algorithm", "next_fit", length=size)
        packed = self.read()
        self.assertEqual([one for some in packed for one in some], whole)
        self.assertTrue(all(sum(len(ids) - 1 for ids, _ in some) <= size for some in packed))
        for some, later in zip(packed, packed[1:]):
            self.assertGreater(sum(len(ids) - 1 for ids, _ in some) + len(later[0][0]) - 1, size)

    def test_many_rows_of_parquet(self):
        self.write("many.jsonl", [{"prompt": f"question {i}", "completion": "yes " * (i % 7 + 1)} for i in range(1700)])
        self.pack("many.jsonl", "--chat-template", "chatml", "--packed-parquet", length=24)
        file = pyarrow.parquet.ParquetFile(self.path("out.idx.parquet"))
        self.assertGreater(file.metadata.num_row_groups, 2)
        self.assertEqual(file.metadata.row_group(0).num_rows, 500)
        self.assertEqual([row["input_ids"] for row in file.read().to_pylist()],
                         [sum((ids for ids, _ in some), []) for some in self.read()])

    def test_truncation(self):
        whole = self.in_order("chats.jsonl", "--chat-template", "chatml")
        size = sorted(len(ids) for ids, _ in whole)[len(whole) // 2]
        for method, cut in (("right", lambda ids: ids[:size + 1]), ("left", lambda ids: ids[-size - 1:])):
            wanted = [(cut(ids), cut(mask)) for ids, mask in whole]
            wanted = [(ids, mask) for ids, mask in wanted if any(mask[1:])]
            self.assertEqual(self.in_order("chats.jsonl", "--chat-template", "chatml", "--truncation-method", method, length=size), wanted)
        made = self.in_order("chats.jsonl", "--chat-template", "chatml", "--truncation-method", "drop", length=size)
        self.assertEqual(made, [(ids, mask) for ids, mask in whole if len(ids) <= size + 1])

    def test_bytes_do_not_depend_on_workers(self):
        files = set()
        self.write("more.jsonl", [{"messages": messages} for messages in self.conversations * 200])
        for workers in ("1", "2", "5"):
            self.pack("more.jsonl", "--chat-template", "llama3", "--workers", workers, "--packed-parquet", length=512)
            content = []
            for end in (".bin", ".idx", "_loss_mask.bin", "_loss_mask.idx", ".idx.parquet", "_packing.json"):
                with open(self.path("out") + end, "rb") as file:
                    content.append(file.read())
            files.add(tuple(content))
        self.assertEqual(len(files), 1)
        self.pack("more.jsonl", "--chat-template", "llama3", "--max-documents", "4321", length=512)
        self.assertEqual(sum(map(len, self.read())), 4321)
