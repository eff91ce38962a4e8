// Texts to Megatron's .bin/.idx. Stands for Megatron-LM tools/preprocess_data.py.

#include <fmt/format.h>

#include <cstdio>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/base/stopwatch.h"
#include "libmeg/base/thread_pool.h"
#include "libmeg/megatron/argument_table.h"
#include "libmeg/megatron/megatron_version.h"
#include "libmeg/preprocess/preprocess.h"
#include "libmeg/tokenizer/registry/open_tokenizer.h"
#include "tools/common/flag_groups/input_flags.h"
#include "tools/common/flag_groups/tokenizer_flags.h"
#include "tools/common/flags/flags.h"
#include "tools/common/interruption.h"
#include "tools/common/json_output.h"
#include "tools/common/progress_bar.h"
#include "tools/common/report.h"
#include "tools/common/resume_identity.h"
#include "tools/common/run_program.h"

namespace meg::tools {
namespace {

// The model's side of the vocabulary, as preprocess_data.py fixes it for its log.
constexpr int64_t kMakeVocabSizeDivisibleBy = 128;

/// What the command line says.
struct Arguments {
  megatron::ArgumentValues args;
  std::optional<std::string> megatron_version;
  std::string on_error = "fail";
  InputFlags input;
  std::optional<std::string> dtype;
  std::optional<int64_t> min_tokens;
  SentenceFlags sentences;
  bool use_gigatoken = false;

  // What finish() makes of them.
  preprocess::PreprocessOptions options;
  tokenizer::TokenizerOptions tokenizer;
  int64_t log_interval = 1000;
  bool json = false;
};

/// Megatron's arguments, by their fields.
void read_args(megatron::FieldReader& args, Arguments& arguments) {
  preprocess::PreprocessOptions& options = arguments.options;
  args.take("json_keys", options.json_keys);
  args.take("append_eod", options.append_eod);
  args.take("output_prefix", options.output_prefix);
  args.take("workers", options.workers);
  args.take("partitions", options.partitions);
  bool keep_sequential_samples = false;
  args.take("keep_sequential_samples", keep_sequential_samples);
  if (keep_sequential_samples) options.dealing = preprocess::Dealing::kBlocks;
  args.take("log_interval", arguments.log_interval);
  arguments.sentences.take_fields(args);
  std::string dataset_impl = "mmap";
  args.take("dataset_impl", dataset_impl);
  if (dataset_impl != "mmap") options.format = dataset::IndexFormat::kTntidx;
  arguments.tokenizer.take_fields(args);
  // Whatever --vocab-extra-ids says: preprocess_data.py sets it to 0 in every revision.
  arguments.tokenizer.vocab_extra_ids = 0;
}

// What read_args() reads is asked of itself: it runs once on no values and each field that it takes
// is noted. Flags outside of this list are refused or ignored with a note.
ArgumentScope scope() {
  std::vector<std::string> fields =
      megatron::fields_read_by([](const megatron::FieldLookup& lookup) {
        megatron::FieldReader args(lookup);
        Arguments arguments;
        read_args(args, arguments);
      });
  return {.reads = std::move(fields),
          .required = {"tokenizer_type", "output_prefix"},
          .idle = {},
          .idle_fields = {}};
}

Status finish(Arguments& arguments) {
  const megatron::FieldLookup fields = arguments.args.lookup();
  megatron::FieldReader args(fields);
  read_args(args, arguments);
  MEG_RETURN_IF_ERROR(args.status());
  MEG_RETURN_IF_ERROR(finish_input_flags(arguments.input, arguments.options));
  if (arguments.dtype) arguments.options.dtype = dtype_from_name(*arguments.dtype);
  arguments.options.min_tokens = arguments.min_tokens.value_or(0);
  if (arguments.on_error == "skip") arguments.options.on_error = preprocess::OnError::kSkip;
  megatron::MegatronVersion version = megatron::newest_megatron_version();
  if (arguments.megatron_version) {
    MEG_ASSIGN_OR_RETURN(version, megatron::parse_megatron_version(*arguments.megatron_version));
    arguments.options.skip_empty_documents = version.skip_empty_documents;
    arguments.tokenizer.version = version;
  }
  MEG_ASSIGN_OR_RETURN(arguments.options.sentences, sentence_options(arguments.sentences, version));
  if (arguments.use_gigatoken) {
    note("ignored: --use-gigatoken (another implementation of the same tokenizer)");
  }
  if (arguments.input.max_documents) {
    note(
        fmt::format("--max-documents: the dataset ends after {} documents (Megatron's flag of this "
                    "name only limits --find-optimal-num-workers)",
                    *arguments.input.max_documents));
  }
  if (arguments.options.resume) {
    MEG_ASSIGN_OR_RETURN(arguments.options.resume_identity, tokenizer_identity(arguments.args));
    if (arguments.options.sentences) {
      MEG_RETURN_IF_ERROR(add_file_identities(arguments.options.sentences->punkt_folder,
                                              arguments.options.resume_identity));
    }
    arguments.options.resume_identity.emplace_back("--megatron-version",
                                                   arguments.megatron_version.value_or(""));
  }
  if (arguments.input.shard && arguments.options.input.shard.count == 1) {
    note(
        "--shard: share 0 of 1 is all of the input; the datasets have the names that they have "
        "without --shard");
  }
  if (arguments.options.input.shard.count > 1) {
    arguments.options.shard_settings = tokenizer_settings(arguments.args);
    arguments.options.shard_settings.emplace_back("--megatron-version",
                                                  arguments.megatron_version.value_or(""));
    arguments.options.shard_settings.emplace_back("--lang", arguments.sentences.language);
  }
  return Status();
}

std::optional<int> parse(int argc, const char* const* argv, Arguments& arguments) {
  Flags flags("preprocess_data",
              "tokenizes text (JSON lines, a JSON array, CSV, plain text, Parquet, Arrow) into the "
              ".bin/.idx datasets that Megatron reads.");
  flags.examples(
      {"preprocess_data --input corpus.jsonl --output-prefix corpus --tokenizer-type "
       "GPT2BPETokenizer --vocab-file gpt2-vocab.json --merge-file gpt2-merges.txt --append-eod",
       "preprocess_data --input parts --csv-column content --output-prefix corpus "
       "--tokenizer-type GPT2BPETokenizer --vocab-file gpt2-vocab.json --merge-file "
       "gpt2-merges.txt --append-eod --on-error skip"});
  declare_input_flags(flags, arguments.input).required();
  flags.value("--on-error", &arguments.on_error, "WHAT", "what to do with an invalid line")
      .choices({"fail", "skip"});
  flags
      .value("--dtype", &arguments.dtype, "DTYPE",
             "type of the tokens (default: uint16 if the vocabulary has fewer than 65500 tokens, "
             "otherwise int32; int32 with --dataset-impl lazy and cached)")
      .choices({"uint16", "int32"});
  flags
      .value("--min-tokens", &arguments.min_tokens, "N",
             "leave out documents with fewer than N tokens, those of all keys together, without "
             "the end-of-document token")
      .range(1, std::numeric_limits<int64_t>::max());
  declare_punkt_model(flags, arguments.sentences);
  flags.value("--megatron-version", &arguments.megatron_version, "REVISION",
              "revision of Megatron-LM to follow where revisions differ, such as v2.6");
  // Megatron-LM after core_v0.19.0 has it; its preprocess_data_fast.py does nothing without it.
  flags.toggle("--use-gigatoken", &arguments.use_gigatoken,
               "accepted with a note: tokens do not depend on it");
  flags.toggle("--resume", &arguments.options.resume,
               "continue where the same command was killed; do nothing if it had finished");
  flags.toggle("--provenance", &arguments.options.provenance,
               "also write DATASET.provenance: the source of every document");
  flags.toggle("--json", &arguments.json, "print one JSON object, and nothing else");
  arguments.args.set("workers", int64_t{available_processors()});
  flags.arguments(megatron::argument_rows(megatron::ArgumentFamily::kPreprocess), scope(),
                  &arguments.args);
  if (const std::optional<int> code = flags.parse(argc, argv)) return code;
  const Status status = finish(arguments);
  if (status.ok()) return std::nullopt;
  return fail_by_code(status);
}

/// Says a line of Megatron's, unless one JSON object is all that is printed.
void print(const Arguments& arguments, const std::string& line) {
  if (arguments.json) return;
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

Result<std::unique_ptr<tokenizer::Tokenizer>> build_tokenizer(const Arguments& arguments) {
  print(arguments, fmt::format("> building {} tokenizer ...", arguments.tokenizer.tokenizer_type));
  MEG_ASSIGN_OR_RETURN(std::unique_ptr<tokenizer::Tokenizer> tokenizer,
                       tokenizer::open_tokenizer(arguments.tokenizer));
  for (const std::string& text : tokenizer->warnings()) warning(text);
  const int64_t size = tokenizer->vocab_size();
  const int64_t blocks = (size + kMakeVocabSizeDivisibleBy - 1) / kMakeVocabSizeDivisibleBy;
  const int64_t padded = blocks * kMakeVocabSizeDivisibleBy;
  print(arguments, fmt::format(" > padded vocab (size: {}) with {} dummy tokens (new size: {})",
                               size, padded - size, padded));
  return tokenizer;
}

void print_summary(const preprocess::PreprocessSummary& summary, double seconds) {
  if (summary.was_finished) fmt::print("already finished: nothing to do\n");
  fmt::print("documents: {}\ntokens: {}\nbytes: {}\nseconds: {:.3f}\ntokens/s: {:.0f}\n",
             summary.documents, summary.tokens, summary.input_bytes, seconds,
             static_cast<double>(summary.tokens) / seconds);
  if (summary.blank_lines > 0) fmt::print("blank lines: {}\n", summary.blank_lines);
  if (summary.skipped_lines > 0) fmt::print("skipped lines: {}\n", summary.skipped_lines);
  if (summary.short_documents > 0) fmt::print("short documents: {}\n", summary.short_documents);
  if (!summary.was_finished) {
    for (const std::string& prefix : summary.datasets) print_written_dataset(prefix);
  }
  std::fflush(stdout);
}

void print_json_summary(const preprocess::PreprocessSummary& summary, double seconds) {
  nlohmann::ordered_json object = json_object();
  object["already_finished"] = summary.was_finished;
  object["documents"] = summary.documents;
  object["tokens"] = summary.tokens;
  object["bytes"] = summary.input_bytes;
  object["seconds"] = seconds;
  object["blank_lines"] = summary.blank_lines;
  object["skipped_lines"] = summary.skipped_lines;
  object["short_documents"] = summary.short_documents;
  object["datasets"] = summary.datasets;
  print_json(object);
}

void print_messages(const preprocess::PreprocessSummary& summary) {
  for (const std::string& text : summary.skipped_examples) note("skipped " + text);
  for (const std::string& text : summary.warnings) warning(text);
}

Status run(Arguments& arguments) {
  const Stopwatch startup;
  for (const std::string& input : arguments.options.inputs) print(arguments, "Opening " + input);
  note_new_folders(arguments.options.output_prefix);
  MEG_ASSIGN_OR_RETURN(const std::unique_ptr<tokenizer::Tokenizer> tokenizer,
                       build_tokenizer(arguments));
  if (arguments.options.sentences) {
    print(arguments,
          "> sentences as nltk 3.10 splits them with " + arguments.options.sentences->punkt_folder);
  }
  arguments.options.dataset_tokenizer = dataset_tokenizer(arguments.tokenizer, *tokenizer);
  print(arguments, fmt::format("Time to startup: {}", startup.seconds()));

  const Stopwatch work;
  ProgressBar bar(arguments.log_interval);
  const auto progress = bar.interruptible_callback();
  const Result<preprocess::PreprocessSummary> summary =
      preprocess::preprocess(arguments.options, *tokenizer, progress);
  bar.clear();
  MEG_RETURN_IF_ERROR(summary.status());
  const double seconds = work.seconds();
  arguments.json ? print_json_summary(*summary, seconds) : print_summary(*summary, seconds);
  print_messages(*summary);
  return Status();
}

int main(int argc, const char* const* argv) {
  Arguments arguments;
  if (const std::optional<int> code = parse(argc, argv, arguments)) return *code;
  stop_at_signals();
  const Status status = run(arguments);
  if (status.ok()) return 0;
  return fail_by_code(status);
}

}  // namespace
}  // namespace meg::tools

int main(int argc, char** argv) { return meg::tools::run_program(argc, argv, meg::tools::main); }
