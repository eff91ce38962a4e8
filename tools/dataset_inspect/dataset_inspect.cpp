// Shows what a dataset holds, touching only what it shows. New; Megatron-LM has no such tool.

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/dataset/dataset_summary.h"
#include "libmeg/dataset/dataset_view.h"
#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/samples/blend.h"
#include "libmeg/text/printable.h"
#include "libmeg/tokenizer/registry/open_tokenizer.h"
#include "tools/common/flag_groups/data_flags.h"
#include "tools/common/flags/flags.h"
#include "tools/common/found_instead.h"
#include "tools/common/json_output.h"
#include "tools/common/report.h"
#include "tools/common/run_program.h"
#include "tools/dataset_inspect/dataset_inspect_trace.h"

namespace meg::tools {
namespace {

using nlohmann::ordered_json;

constexpr size_t kBarWidth = 40;

struct Arguments {
  std::string prefix;
  std::optional<int64_t> document;
  std::optional<int64_t> sequence;
  bool histogram = false;
  bool decode = false;
  bool json = false;
  bool trace = false;
  std::optional<int64_t> step;
  std::optional<int64_t> rank;
  megatron::ArgumentValues args;
  DataFlags data;

  bool selects() const { return document.has_value() || sequence.has_value(); }
};

/// The dataset that --data-path names where it names just one; empty otherwise.
std::string only_dataset(const DataFlags& data) {
  const Result<samples::Blend> blend =
      samples::parse_blend(data.data_path, megatron::newest_megatron_version());
  return blend.has_value() && blend->prefixes.size() == 1 ? blend->prefixes[0] : std::string();
}

Status check(const Arguments& arguments) {
  const auto usage = [](const char* message) {
    return Status(StatusCode::kInvalidArgument, message);
  };
  if (arguments.prefix.empty()) return usage("PREFIX: required");
  if (arguments.decode && !arguments.selects()) {
    return usage("--decode needs --document or --sequence");
  }
  if (!arguments.trace) {
    return arguments.step.has_value() || arguments.rank.has_value()
               ? usage("--step and --rank need --trace")
               : Status();
  }
  if (arguments.step.has_value() == arguments.document.has_value()) {
    return usage("--trace needs either --step or --document");
  }
  if (arguments.rank.has_value() && !arguments.step.has_value()) {
    return usage("--rank needs --step");
  }
  if (arguments.rank.value_or(0) < 0) return usage("--rank: expected at least 0");
  if (arguments.decode || arguments.histogram || arguments.sequence.has_value()) {
    return usage("--decode, --histogram and --sequence: cannot be combined with --trace");
  }
  return Status();
}

std::optional<int> parse(int argc, const char* const* argv, Arguments& arguments) {
  Flags flags("dataset_inspect",
              "shows what a dataset (PREFIX.bin and PREFIX.idx) holds: its counts, sizes and "
              "sequence lengths, or single documents and sequences.");
  flags.examples({"dataset_inspect corpus_text_document",
                  "dataset_inspect corpus_text_document --document 0 --decode --vocab-file "
                  "gpt2-vocab.json --merge-file gpt2-merges.txt",
                  "dataset_inspect --trace --step 100 --data-path corpus_text_document --split "
                  "949,50,1 --seq-length 1024 --micro-batch-size 4 --global-batch-size 16 "
                  "--train-iters 1000 --vocab-file gpt2-vocab.json --merge-file gpt2-merges.txt"});
  flags
      .positional(
          "PREFIX", &arguments.prefix,
          "prefix of the dataset, may end in .bin or .idx; optional with --trace and --data-path")
      .optional();
  flags.group("What to show");
  flags.value("--document", &arguments.document, "D",
              "show the sequences of document D, counted from 0");
  flags.value("--sequence", &arguments.sequence, "I", "show sequence I, counted from 0");
  flags.toggle("--histogram", &arguments.histogram,
               "show the histogram of lengths even with --document or --sequence");
  flags.toggle("--json", &arguments.json, "print one JSON object");
  flags.toggle("--decode", &arguments.decode,
               "also decode the tokens to text, with the tokenizer flags");
  flags.group("Tracing a training run (with the run's flags, below)");
  flags.toggle("--trace", &arguments.trace,
               "list the samples of a --step, or the steps that used a --document");
  flags.value("--step", &arguments.step, "N", "training step, counted from 1");
  flags.value("--rank", &arguments.rank, "R", "show only this data-parallel rank, counted from 0");
  flags.not_yet("--html", Arity::kValue);
  declare_data_flags(flags, arguments.data, arguments.args);
  if (const std::optional<int> code = flags.parse(argc, argv)) return code;
  if (const Status status = finish_data_flags(arguments.args, arguments.data); !status.ok())
    return fail_usage(status);
  if (arguments.trace && arguments.prefix.empty()) arguments.prefix = only_dataset(arguments.data);
  if (const Status status = check(arguments); !status.ok()) return fail_usage(status);
  return std::nullopt;
}

template <class Float>
Result<ordered_json> floats_json(const dataset::IndexedDataset& dataset, int64_t sequence) {
  MEG_ASSIGN_OR_RETURN(const int64_t length, dataset.sequence_length(sequence));
  std::vector<std::byte> buffer;
  MEG_ASSIGN_OR_RETURN(const auto bytes, dataset.sequence(sequence, 0, length, buffer));
  std::vector<Float> items(static_cast<size_t>(length));
  dataset::LittleEndianArray<Float>(bytes).copy(0, items);
  return ordered_json(items);
}

/// The items of a sequence as a JSON array of numbers, whatever their type.
/// Float items exist in datasets of other kinds than tokens; all integers fit an int64.
Result<ordered_json> items_json(const dataset::IndexedDataset& dataset, int64_t sequence) {
  if (dataset.dtype() == DType::kFloat32) return floats_json<float>(dataset, sequence);
  if (dataset.dtype() == DType::kFloat64) return floats_json<double>(dataset, sequence);
  MEG_ASSIGN_OR_RETURN(const int64_t length, dataset.sequence_length(sequence));
  std::vector<int64_t> items(static_cast<size_t>(length));
  MEG_RETURN_IF_ERROR(dataset.copy_tokens(sequence, 0, items));
  return ordered_json(items);
}

Result<std::string> decoded(const dataset::IndexedDataset& dataset, int64_t sequence,
                            const tokenizer::Tokenizer& tokenizer) {
  MEG_ASSIGN_OR_RETURN(const int64_t length, dataset.sequence_length(sequence));
  std::vector<int32_t> ids(static_cast<size_t>(length));
  MEG_RETURN_IF_ERROR(dataset.copy_tokens(sequence, 0, ids));
  return tokenizer.decode(ids);
}

Result<ordered_json> sequence_json(const dataset::IndexedDataset& dataset, int64_t sequence,
                                   const tokenizer::Tokenizer* tokenizer) {
  MEG_ASSIGN_OR_RETURN(ordered_json items, items_json(dataset, sequence));
  ordered_json object;
  object["sequence"] = sequence;
  object["length"] = dataset.sequence_lengths()[sequence];
  if (dataset.flattened()) object["shape"] = dataset.shape(sequence);
  object["pointer"] = dataset.sequence_pointers()[sequence];
  if (dataset.multimodal()) object["mode"] = dataset.sequence_modes()[sequence];
  object["tokens"] = std::move(items);
  if (tokenizer != nullptr) {
    MEG_ASSIGN_OR_RETURN(std::string text, decoded(dataset, sequence, *tokenizer));
    object["text"] = std::move(text);
  }
  return object;
}

Result<ordered_json> document_json(const dataset::IndexedDataset& dataset, int64_t document,
                                   const tokenizer::Tokenizer* tokenizer) {
  MEG_ASSIGN_OR_RETURN(const dataset::SequenceRange range, dataset.document(document));
  ordered_json object;
  object["document"] = document;
  object["sequences"] = ordered_json::array();
  for (int64_t sequence = range.begin; sequence < range.end; ++sequence) {
    MEG_ASSIGN_OR_RETURN(ordered_json one, sequence_json(dataset, sequence, tokenizer));
    object["sequences"].push_back(std::move(one));
  }
  return object;
}

Result<ordered_json> dataset_json(const dataset::IndexedDataset& dataset) {
  MEG_ASSIGN_OR_RETURN(const auto view, dataset::read_view_of(dataset.prefix()));
  ordered_json object = json_object();
  object["prefix"] = dataset.prefix();
  object["format"] = dataset::index_format_name(dataset.format());
  object["version"] = dataset::kIndexVersion;
  object["dtype"] = dtype_name(dataset.dtype());
  object["multimodal"] = dataset.multimodal();
  object["flattened"] = dataset.flattened();
  object["view_of"] = view ? ordered_json(view->bin) : nullptr;
  object["sequences"] = dataset.sequence_count();
  object["documents"] = dataset.document_count();
  object["tokens"] = dataset.item_count();
  object["bin_bytes"] = dataset.bin().size();
  object["idx_bytes"] = dataset.idx().size();
  return object;
}

void add_lengths(const dataset::LengthSummary& lengths, ordered_json& object) {
  object["lengths"] = {{"min", lengths.min}, {"mean", lengths.mean}, {"median", lengths.median},
                       {"p90", lengths.p90}, {"p99", lengths.p99},   {"max", lengths.max}};
  object["histogram"] = ordered_json::array();
  for (const dataset::LengthBucket& bucket : lengths.histogram) {
    object["histogram"].push_back(
        {{"from", bucket.from}, {"to", bucket.to}, {"sequences", bucket.sequences}});
  }
}

/// The whole answer; the text output is made from it.
Result<ordered_json> inspect(const dataset::IndexedDataset& dataset, const Arguments& arguments) {
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  if (arguments.decode) {
    MEG_ASSIGN_OR_RETURN(const tokenizer::TokenizerOptions options,
                         tokenizer_options(arguments.data));
    // Tokens of another tokenizer would be decoded to nonsense without an error.
    MEG_RETURN_IF_ERROR(check_dataset_tokenizers({&dataset.prefix(), 1}, options));
    MEG_ASSIGN_OR_RETURN(tokenizer, tokenizer::open_tokenizer(options));
  }
  MEG_ASSIGN_OR_RETURN(ordered_json object, dataset_json(dataset));
  if (arguments.histogram || !arguments.selects()) {
    MEG_ASSIGN_OR_RETURN(const dataset::LengthSummary lengths, dataset::summarize_lengths(dataset));
    add_lengths(lengths, object);
  }
  if (arguments.document.has_value()) {
    MEG_ASSIGN_OR_RETURN(object["document"],
                         document_json(dataset, *arguments.document, tokenizer.get()));
  }
  if (arguments.sequence.has_value()) {
    MEG_ASSIGN_OR_RETURN(object["sequence"],
                         sequence_json(dataset, *arguments.sequence, tokenizer.get()));
  }
  return object;
}

/// "1 token", "2 tokens"
std::string counted(int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

void print_sequence(const ordered_json& sequence) {
  fmt::print("sequence {}: {}{} at byte {} of .bin{}\n", sequence["sequence"].dump(),
             counted(sequence["length"].get<int64_t>(), "token"),
             sequence.contains("shape") ? " of shape " + sequence["shape"].dump() : "",
             sequence["pointer"].dump(),
             sequence.contains("mode") ? ", mode " + sequence["mode"].dump() : "");
  fmt::print("tokens:");
  for (const ordered_json& token : sequence["tokens"]) fmt::print(" {}", token.dump());
  fmt::print("\n");
  if (sequence.contains("text")) fmt::print("text:\n{}\n", sequence["text"].get<std::string>());
}

void print_histogram(const ordered_json& histogram, int64_t sequences) {
  int64_t most = 1;
  for (const ordered_json& bucket : histogram) {
    most = std::max(most, bucket["sequences"].get<int64_t>());
  }
  fmt::print("\n{:>23}  {:>12}\n", "tokens", "sequences");
  for (const ordered_json& bucket : histogram) {
    const auto count = bucket["sequences"].get<int64_t>();
    const double share = static_cast<double>(count) / static_cast<double>(sequences);
    const auto width =
        static_cast<double>(kBarWidth) * static_cast<double>(count) / static_cast<double>(most);
    const std::string bar = width < 1 ? "" : "  " + std::string(static_cast<size_t>(width), '#');
    fmt::print("{:>10} - {:>10}  {:>12}  {:5.1f} %{}\n", bucket["from"].get<int64_t>(),
               bucket["to"].get<int64_t>(), count, 100 * share, bar);
  }
}

void print_dataset(const ordered_json& object) {
  fmt::print("dataset    {}\n", object["prefix"].get<std::string>());
  fmt::print("format     {} version {}{}{}\n", object["format"].get<std::string>(),
             object["version"].dump(), object["multimodal"].get<bool>() ? ", multimodal" : "",
             object["flattened"].get<bool>() ? ", items of several dimensions" : "");
  fmt::print("dtype      {}\n", object["dtype"].get<std::string>());
  for (const char* field : {"documents", "sequences", "tokens"}) {
    fmt::print("{:<10} {}\n", field, object[field].get<int64_t>());
  }
  fmt::print(".bin       {} bytes\n.idx       {} bytes\n", object["bin_bytes"].get<int64_t>(),
             object["idx_bytes"].get<int64_t>());
  if (object["view_of"].is_string())
    fmt::print("view of    {}\n", text::printable_name(object["view_of"].get<std::string>(), 1000));
}

void print_lengths(const ordered_json& object) {
  if (object["histogram"].empty()) return;
  const ordered_json& lengths = object["lengths"];
  fmt::print("lengths    min {}, mean {:.1f}, median {}, p90 {}, p99 {}, max {}\n",
             lengths["min"].get<int64_t>(), lengths["mean"].get<double>(),
             lengths["median"].get<int64_t>(), lengths["p90"].get<int64_t>(),
             lengths["p99"].get<int64_t>(), lengths["max"].get<int64_t>());
  print_histogram(object["histogram"], object["sequences"].get<int64_t>());
}

void print_text(const ordered_json& object) {
  if (object.contains("lengths")) {
    print_dataset(object);
    print_lengths(object);
  }
  if (object.contains("document")) {
    const ordered_json& document = object["document"];
    const auto count = static_cast<int64_t>(document["sequences"].size());
    fmt::print("document {}: {}\n", document["document"].dump(), counted(count, "sequence"));
    for (const ordered_json& sequence : document["sequences"]) print_sequence(sequence);
  }
  if (object.contains("sequence")) print_sequence(object["sequence"]);
}

int print_trace_of(const dataset::IndexedDataset& dataset, const Arguments& arguments) {
  const TraceQuestion question = {
      .step = arguments.step, .rank = arguments.rank.value_or(-1), .document = arguments.document};
  const Result<ordered_json> answer = trace(dataset, arguments.data, question);
  if (!answer.has_value()) return fail_by_code(answer.error());
  if (arguments.json) {
    print_json(*answer);
  } else {
    print_trace(*answer);
  }
  return 0;
}

// NOLINTNEXTLINE(bugprone-exception-escape): not the program's own main(), run_program() catches.
int main(int argc, const char* const* argv) {
  Arguments arguments;
  if (const std::optional<int> code = parse(argc, argv, arguments)) return *code;
  const Result<dataset::IndexedDataset> dataset = dataset::IndexedDataset::open(
      arguments.prefix, {.idx_cache = arguments.data.object_storage_cache_path.value_or(""),
                         .flatten = !arguments.trace});
  if (!dataset.has_value()) return fail(no_dataset(arguments.prefix, dataset.error()));
  if (arguments.trace) return print_trace_of(*dataset, arguments);
  const Result<ordered_json> answer = inspect(*dataset, arguments);
  if (!answer.has_value()) return fail(answer.error());
  if (arguments.json) {
    print_json(*answer);
  } else {
    print_text(*answer);
  }
  if ((*answer)["view_of"].is_string()) return 0;
  // This is no error: .bin may have been extended by another process, or .idx may be a view of a
  // part of it.
  const int64_t expected = (*answer)["tokens"].get<int64_t>() * dataset->item_size();
  if (dataset->bin().size() != expected) {
    warning(
        fmt::format("{}: expected {} bytes by the lengths, found {} (unless this is a view): see "
                    "verify dataset",
                    dataset->bin().path(), expected, dataset->bin().size()));
  }
  return 0;
}

}  // namespace
}  // namespace meg::tools

int main(int argc, char** argv) { return meg::tools::run_program(argc, argv, meg::tools::main); }
