// JSON lines to Megatron's .bin/.idx. Stands for Megatron-LM tools/preprocess_data.py.

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/core/megatron_version.h"
#include "libmeg/core/stopwatch.h"
#include "libmeg/core/thread_pool.h"
#include "libmeg/dataset/preprocess.h"
#include "libmeg/tokenizer/open_tokenizer.h"
#include "tools/common/flags.h"
#include "tools/common/interruption.h"
#include "tools/common/progress_bar.h"
#include "tools/common/report.h"
#include "tools/common/tokenizer_flags.h"

namespace meg::tools {
namespace {

constexpr int kUsageError = 2;
constexpr int64_t kMostWorkers = 1024;

// The model's side of the vocabulary, as preprocess_data.py fixes it for its log.
constexpr int64_t kMakeVocabSizeDivisibleBy = 128;

/// What the command line says.
struct Arguments {
  PreprocessOptions options;
  TokenizerOptions tokenizer;
  std::optional<std::string> megatron_version;
  std::string on_error = "fail";
  std::string dataset_impl = "mmap";
  bool keep_sequential_samples = false;
  int64_t workers = available_processors();
  int64_t partitions = 1;
  int64_t log_interval = 1000;
};

void declare_tokenizer(Flags& flags, TokenizerOptions& tokenizer) {
  flags.group("Tokenizer");
  flags.value("--tokenizer-type", &tokenizer.tokenizer_type, "TYPE", "such as GPT2BPETokenizer")
      .required();
  declare_tokenizer_files(flags, tokenizer);
}

/// Flags of Megatron's script at one revision or another that are not bound.
void declare_other_flags(Flags& flags) {
  for (const char* name : {"--make-vocab-size-divisible-by", "--tensor-model-parallel-size",
                           "--padded-vocab-size", "--vocab-extra-ids", "--rank", "--chunk-size",
                           "--find-optimal-num-workers", "--max-documents"}) {
    flags.ignored(name, name == std::string_view("--find-optimal-num-workers") ? Arity::kSwitch
                                                                               : Arity::kValue);
  }
  flags.ignored("--workers-to-check", Arity::kList);
  flags.ignored("--legacy-tokenizer", Arity::kSwitch);
  flags.ignored("--tokenizer-hf-no-use-fast", Arity::kSwitch);
  flags.ignored("--trust-remote-code", Arity::kSwitch);
  for (const char* name : {"--split-sentences", "--keep-newlines", "--resume", "--provenance"}) {
    flags.not_yet(name, Arity::kSwitch);
  }
  for (const char* name : {"--lang", "--dtype", "--min-tokens", "--shard", "--tiktoken-pattern",
                           "--tiktoken-num-special-tokens", "--tokenizer-metadata"}) {
    flags.not_yet(name, Arity::kValue);
  }
  flags.not_yet("--tokenizer-special-tokens", Arity::kList);
  flags.not_yet("--tiktoken-special-tokens", Arity::kList);
}

std::optional<int> parse(int argc, char** argv, Arguments& arguments) {
  PreprocessOptions& options = arguments.options;
  Flags flags("preprocess_data",
              "turns JSON lines into the .bin/.idx datasets that Megatron reads.");
  flags.group("Input");
  flags
      .list("--input", &options.inputs, "FILE...",
            "JSON lines: files and patterns in this order; - is standard input")
      .required();
  flags.list("--json-keys", &options.json_keys, "KEY...", "keys whose texts to take");
  flags.value("--on-error", &arguments.on_error, "WHAT", "what a line that cannot be used does")
      .choices({"fail", "skip"});
  declare_tokenizer(flags, arguments.tokenizer);
  flags.toggle("--append-eod", &options.append_eod, "end every document with <|endoftext|>");
  flags.value("--megatron-version", &arguments.megatron_version, "REVISION",
              "follow this revision of Megatron-LM where they differ, such as v2.6");
  flags.group("Output");
  flags
      .value("--output-prefix", &options.output_prefix, "PREFIX",
             "writes PREFIX_KEY_document.bin and .idx")
      .required();
  flags.value("--dataset-impl", &arguments.dataset_impl, "IMPL", "format")
      .choices({"mmap", "lazy", "cached"});
  flags
      .value("--partitions", &arguments.partitions, "N",
             "deal documents over N datasets PREFIX_0, PREFIX_1, ... and merge these")
      .range(1, 1000);
  flags.toggle("--keep-sequential-samples", &arguments.keep_sequential_samples,
               "with --partitions: keep the input's order");
  flags.group("Running");
  flags.value("--workers", &arguments.workers, "N", "threads").range(1, kMostWorkers);
  flags.value("--log-interval", &arguments.log_interval, "N",
              "documents between two lines of progress");
  declare_other_flags(flags);
  if (const std::optional<int> code = flags.parse(argc, argv)) return code;

  if (arguments.dataset_impl != "mmap") {
    return fail(make_error(StatusCode::kUnsupported, "--dataset-impl {} is not supported yet",
                           arguments.dataset_impl));
  }
  options.on_error = arguments.on_error == "skip" ? OnError::kSkip : OnError::kFail;
  options.workers = static_cast<int>(arguments.workers);
  options.partitions = static_cast<int>(arguments.partitions);
  if (arguments.keep_sequential_samples) options.dealing = Dealing::kBlocks;
  return std::nullopt;
}

/// Sets what the named revision does differently.
Status apply_version(Arguments& arguments) {
  if (!arguments.megatron_version) return Status();
  MEG_ASSIGN_OR_RETURN(const MegatronVersion version,
                       parse_megatron_version(*arguments.megatron_version));
  arguments.options.skip_empty_documents = version.skip_empty_documents;
  arguments.tokenizer.special_tokens_in_text = version.gpt2_special_tokens_in_text;
  return Status();
}

void print(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

Result<std::unique_ptr<Tokenizer>> build_tokenizer(const TokenizerOptions& options) {
  print(fmt::format("> building {} tokenizer ...", options.tokenizer_type));
  MEG_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer, open_tokenizer(options));
  for (const std::string& text : tokenizer->warnings()) warning(text);
  const int64_t size = tokenizer->vocab_size();
  const int64_t blocks = (size + kMakeVocabSizeDivisibleBy - 1) / kMakeVocabSizeDivisibleBy;
  const int64_t padded = blocks * kMakeVocabSizeDivisibleBy;
  print(fmt::format(" > padded vocab (size: {}) with {} dummy tokens (new size: {})", size,
                    padded - size, padded));
  return tokenizer;
}

void print_summary(const PreprocessSummary& summary, double seconds) {
  fmt::print("documents: {}\ntokens: {}\nbytes: {}\nseconds: {:.3f}\ntokens/s: {:.0f}\n",
             summary.documents, summary.tokens, summary.input_bytes, seconds,
             static_cast<double>(summary.tokens) / seconds);
  if (summary.blank_lines > 0) fmt::print("blank lines: {}\n", summary.blank_lines);
  if (summary.skipped_lines > 0) fmt::print("skipped lines: {}\n", summary.skipped_lines);
  std::fflush(stdout);
  for (const std::string& text : summary.skipped_examples) note("skipped " + text);
  for (const std::string& text : summary.warnings) warning(text);
}

Status run(Arguments& arguments) {
  const Stopwatch startup;
  for (const std::string& input : arguments.options.inputs) print("Opening " + input);
  MEG_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer,
                       build_tokenizer(arguments.tokenizer));
  print(fmt::format("Time to startup: {}", startup.seconds()));

  const Stopwatch work;
  ProgressBar bar(arguments.log_interval);
  const auto progress = [&bar](const Progress& now) {
    bar.update(now);
    return !interrupted();
  };
  const Result<PreprocessSummary> summary = preprocess(arguments.options, *tokenizer, progress);
  bar.clear();
  MEG_RETURN_IF_ERROR(summary.status());
  print_summary(*summary, work.seconds());
  return Status();
}

int main(int argc, char** argv) {
  Arguments arguments;
  if (const std::optional<int> code = parse(argc, argv, arguments)) return *code;
  if (const Status status = apply_version(arguments); !status.ok()) {
    fail(status);
    return kUsageError;
  }
  stop_at_signals();
  const Status status = run(arguments);
  if (status.ok()) return 0;
  fail(status);
  return status.code() == StatusCode::kInvalidArgument ? kUsageError : 1;
}

}  // namespace
}  // namespace meg::tools

int main(int argc, char** argv) { return meg::tools::main(argc, argv); }
