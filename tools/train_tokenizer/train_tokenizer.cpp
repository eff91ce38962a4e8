// Texts to a byte-level BPE tokenizer. New; Megatron-LM has no such program.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/base/stopwatch.h"
#include "libmeg/base/thread_pool.h"
#include "libmeg/preprocess/read_texts.h"
#include "libmeg/tokenizer/training/bpe_trainer.h"
#include "libmeg/tokenizer/training/save_trained_bpe.h"
#include "tools/common/byte_size.h"
#include "tools/common/flag_groups/input_flags.h"
#include "tools/common/flags/flags.h"
#include "tools/common/interruption.h"
#include "tools/common/progress_bar.h"
#include "tools/common/report.h"
#include "tools/common/run_program.h"

namespace meg::tools {
namespace {

constexpr std::string_view kEndOfText = "<|endoftext|>";
constexpr int64_t kLeastMemory = int64_t{1} << 20;

/// What the command line says.
struct Arguments {
  InputFlags input;
  std::string on_error = "fail";
  std::string memory_budget = "2GiB";
  std::optional<std::string> bos_token, eos_token, pad_token;
  int64_t workers = available_processors();
  int64_t log_interval = 100'000;

  preprocess::ReadTextsOptions texts;
  tokenizer::BpeTrainerOptions training;
  tokenizer::SaveOptions save;
};

void declare(Flags& flags, Arguments& arguments) {
  tokenizer::BpeTrainerOptions& training = arguments.training;
  declare_input_flags(flags, arguments.input).required();
  flags.list("--json-keys", &arguments.texts.json_keys, "KEY...", "keys to read texts from");
  flags.value("--on-error", &arguments.on_error, "WHAT", "what to do with an invalid line")
      .choices({"fail", "skip"});
  flags.group("Tokenizer");
  flags
      .value("--vocab-size", &training.vocab_size, "N",
             "size of the vocabulary: special tokens, the 256 bytes, and one token per merge")
      .required();
  flags
      .value("--min-frequency", &training.min_frequency, "N",
             "merge only pairs that occur at least N times in the texts")
      .range(0, std::numeric_limits<int64_t>::max());
  flags.list("--special-tokens", &training.special_tokens, "TOKEN...",
             "special tokens, which get the ids 0, 1, ... and are never split");
  flags.value("--pattern", &training.pattern, "NAME|REGEX",
              fmt::format("pattern that splits texts into words, which no merge crosses: {} or a "
                          "regular expression",
                          fmt::join(tokenizer::training_patterns(), ", ")));
  flags.value("--bos-token", &arguments.bos_token, "TOKEN", "special token that begins a text");
  flags.value("--eos-token", &arguments.eos_token, "TOKEN",
              "special token that ends a text (default: <|endoftext|> if it is a special token)");
  flags.value("--pad-token", &arguments.pad_token, "TOKEN", "special token that pads sequences");
  flags.group("Output and work");
  flags
      .value("--output-dir", &arguments.save.folder, "FOLDER",
             "folder for tokenizer.json, tokenizer_config.json and, with --pattern gpt2, "
             "vocab.json and merges.txt")
      .required();
  flags.value("--workers", &arguments.workers, "N", "threads that read and count").range(1, 4096);
  flags.value("--memory-budget", &arguments.memory_budget, "SIZE",
              "memory limit of the word counts, such as 512MiB; beyond it they are written to a "
              "file in the output folder");
  flags.value("--log-interval", &arguments.log_interval, "N",
              "documents between progress lines if standard error is not a terminal");
}

Status finish(Arguments& arguments) {
  MEG_RETURN_IF_ERROR(finish_input_flags(arguments.input, arguments.texts));
  if (arguments.on_error == "skip") arguments.texts.on_error = preprocess::OnError::kSkip;
  tokenizer::BpeTrainerOptions& training = arguments.training;
  const Result<int64_t> budget = parse_byte_size(arguments.memory_budget);
  if (!budget.has_value()) return budget.error().with_prefix("--memory-budget");
  if (*budget < kLeastMemory) {
    return make_error(StatusCode::kInvalidArgument,
                      "--memory-budget: expected at least 1MiB, found {}", arguments.memory_budget);
  }
  training.memory_budget = *budget;
  // The temporary file may be much larger than the outputs; it goes to the disk that was chosen for
  // them.
  training.spill_path = (std::filesystem::path(arguments.save.folder) / "word_counts").string();
  const std::vector<std::string>& special = training.special_tokens;
  const bool has_end = std::count(special.begin(), special.end(), kEndOfText) > 0;
  arguments.save.bos_token = arguments.bos_token.value_or("");
  arguments.save.eos_token = arguments.eos_token.value_or(has_end ? std::string(kEndOfText) : "");
  arguments.save.pad_token = arguments.pad_token.value_or("");
  return {};
}

/// Hands texts to a counter of words.
class CountingVisitor : public preprocess::TextVisitor {
 public:
  explicit CountingVisitor(tokenizer::WordCounter& counter) : counter_(counter) {}

  Status visit(std::string_view text) override { return counter_.count(text); }

 private:
  tokenizer::WordCounter& counter_;
};

void print(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

Result<preprocess::ReadTextsSummary> count_words(const Arguments& arguments,
                                                 tokenizer::BpeTrainer& trainer) {
  std::vector<CountingVisitor> visitors;
  visitors.reserve(static_cast<size_t>(arguments.workers));
  // Addresses of visitors are handed out below: the vector must not move them.
  for (int i = 0; i < static_cast<int>(arguments.workers); ++i) {
    visitors.emplace_back(trainer.counter(i));
  }
  std::vector<preprocess::TextVisitor*> all;
  all.reserve(visitors.size());
  for (CountingVisitor& visitor : visitors) all.push_back(&visitor);
  ProgressBar bar(arguments.log_interval);
  return preprocess::read_texts(arguments.texts, all, bar.interruptible_callback());
}

Result<tokenizer::TrainedBpe> learn(const Arguments& arguments, tokenizer::BpeTrainer& trainer) {
  ProgressBar bar(arguments.log_interval);
  return trainer.train([&](int64_t tokens) {
    bar.update({.documents = tokens,
                .total_documents = arguments.training.vocab_size,
                .counted = "tokens"});
    return !interrupted();
  });
}

void print_summary(const Arguments& arguments, const preprocess::ReadTextsSummary& texts,
                   const tokenizer::TrainedBpe& trained, double seconds) {
  fmt::print(
      "documents: {}\nbytes: {}\nwords: {}\ndistinct words: {}\nmerges: {}\nvocabulary: {}\n"
      "seconds: {:.3f}\n",
      texts.documents, texts.text_bytes, trained.words, trained.distinct_words,
      trained.merges.size(), trained.tokens.size(), seconds);
  if (trained.spilled_bytes > 0) fmt::print("spilled bytes: {}\n", trained.spilled_bytes);
  if (texts.skipped_lines > 0) fmt::print("skipped lines: {}\n", texts.skipped_lines);
  std::fflush(stdout);
  for (const std::string& text : texts.skipped_examples) note("skipped " + text);
  for (const std::string& text : texts.warnings) warning(text);
  if (std::ssize(trained.tokens) < arguments.training.vocab_size) {
    warning(fmt::format(
        "--vocab-size {}: the texts gave {} tokens; no pair is left that occurs {} times",
        arguments.training.vocab_size, trained.tokens.size(),
        std::max<int64_t>(arguments.training.min_frequency, 1)));
  }
}

Status run(const Arguments& arguments) {
  const Stopwatch work;
  MEG_ASSIGN_OR_RETURN(
      tokenizer::BpeTrainer trainer,
      tokenizer::BpeTrainer::create(arguments.training, static_cast<int>(arguments.workers)));
  note_new_folders(arguments.save.folder + "/");
  // The output's files are made before the texts are read: a folder that cannot be written is found
  // now.
  MEG_ASSIGN_OR_RETURN(tokenizer::TrainedBpeFiles files,
                       tokenizer::TrainedBpeFiles::create(arguments.save, arguments.training));
  for (const std::string& input : arguments.texts.inputs) print("Opening " + input);
  MEG_ASSIGN_OR_RETURN(const preprocess::ReadTextsSummary texts, count_words(arguments, trainer));
  // A vocabulary of bytes alone is most likely a wrong --json-keys.
  if (texts.text_bytes == 0) {
    return make_error(StatusCode::kInvalidArgument,
                      "--input: expected text, found none in {} documents", texts.documents);
  }
  print(fmt::format("> learning a vocabulary of {} tokens ...", arguments.training.vocab_size));
  MEG_ASSIGN_OR_RETURN(const tokenizer::TrainedBpe trained, learn(arguments, trainer));
  MEG_RETURN_IF_ERROR(files.save(trained));
  print_summary(arguments, texts, trained, work.seconds());
  for (const std::string& path : files.paths()) print(written_text(path, {&path, 1}));
  return {};
}

int main(int argc, const char* const* argv) {
  Arguments arguments;
  Flags flags("train_tokenizer",
              "trains a byte-level BPE tokenizer on text (JSON lines, a JSON array, CSV, plain "
              "text, Parquet, Arrow).");
  flags.examples(
      {"train_tokenizer --input corpus.jsonl --vocab-size 50257 --special-tokens "
       "'<|endoftext|>' --output-dir tokenizer",
       "train_tokenizer --input parts --vocab-size 128000 --pattern llama3 "
       "--special-tokens '<|begin_of_text|>' '<|end_of_text|>' --bos-token "
       "'<|begin_of_text|>' --eos-token '<|end_of_text|>' --output-dir tokenizer"});
  declare(flags, arguments);
  if (const std::optional<int> code = flags.parse(argc, argv)) return *code;
  // Do this after the command line: --help and errors of usage end the process before texts are
  // read.
  stop_at_signals();
  Status status = finish(arguments);
  if (status.ok()) status = run(arguments);
  return status.ok() ? 0 : fail_by_code(status);
}

}  // namespace
}  // namespace meg::tools

int main(int argc, char** argv) { return meg::tools::run_program(argc, argv, meg::tools::main); }
