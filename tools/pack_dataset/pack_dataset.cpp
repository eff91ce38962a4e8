// Conversations to packed sequences for fine-tuning. Stands for Megatron-Bridge's
// scripts/training/prepare_gpt_sft_packed_data.py.

#include "libmeg/packing/pack_dataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/base/stopwatch.h"
#include "libmeg/base/thread_pool.h"
#include "libmeg/checkpoint/dialects/mp_rank/open_weights.h"
#include "libmeg/io/mapped_file.h"
#include "libmeg/megatron/argument_table.h"
#include "libmeg/packing/builtin_templates.h"
#include "libmeg/tokenizer/registry/open_tokenizer.h"
#include "tools/common/checkpoint_tokenizer.h"
#include "tools/common/flag_groups/tokenizer_flags.h"
#include "tools/common/flags/flags.h"
#include "tools/common/interruption.h"
#include "tools/common/json_output.h"
#include "tools/common/progress_bar.h"
#include "tools/common/report.h"
#include "tools/common/run_program.h"

namespace meg::tools {
namespace {

namespace fs = std::filesystem;

struct Arguments {
  megatron::ArgumentValues args;
  std::optional<std::string> load, chat_template;
  std::string loss_on = "assistant";
  std::string truncation_method = "right";
  std::string packing_algorithm = "first_fit_decreasing";
  std::string on_error = "fail";
  int64_t seed = 1234;
  bool json = false;

  // What finish() makes of them.
  packing::PackOptions options;
  tokenizer::TokenizerOptions tokenizer;
  std::string tokenizer_origin;  // of take_checkpoint_tokenizer()
  int64_t log_interval = 1000;
};

/// Megatron's arguments, by their fields.
void read_args(megatron::FieldReader& args, Arguments& arguments) {
  args.take("output_prefix", arguments.options.output_prefix);
  args.take("workers", arguments.options.workers);
  args.take("log_interval", arguments.log_interval);
  arguments.tokenizer.take_fields(args);
}

ArgumentScope scope() {
  std::vector<std::string> fields =
      megatron::fields_read_by([](const megatron::FieldLookup& lookup) {
        megatron::FieldReader args(lookup);
        Arguments arguments;
        read_args(args, arguments);
      });
  return {.reads = std::move(fields), .required = {"output_prefix"}, .idle = {}, .idle_fields = {}};
}

Status take_tokenizer(Arguments& arguments) {
  if (!arguments.load) return Status();
  arguments.args.set("load", *arguments.load);
  std::shared_ptr<const checkpoint::MegatronCheckpoint> opened;
  MEG_ASSIGN_OR_RETURN(arguments.tokenizer_origin,
                       take_checkpoint_tokenizer(arguments.args, opened));
  if (!arguments.tokenizer_origin.empty() || arguments.args.given("tokenizer_type")) {
    return Status();
  }
  MEG_RETURN_IF_ERROR(checkpoint::open_weights(*arguments.load).status());
  return make_error(StatusCode::kInvalidArgument,
                    "{}: expected args or files of a tokenizer, found none: --tokenizer-type names "
                    "one",
                    *arguments.load);
}

Status finish(Arguments& arguments) {
  MEG_RETURN_IF_ERROR(take_tokenizer(arguments));
  const megatron::FieldLookup fields = arguments.args.lookup();
  megatron::FieldReader args(fields);
  read_args(args, arguments);
  MEG_RETURN_IF_ERROR(args.status());
  packing::PackOptions& options = arguments.options;
  if (arguments.loss_on == "last") options.loss_on = packing::LossOn::kLastTurn;
  if (arguments.loss_on == "all") options.loss_on = packing::LossOn::kAll;
  if (arguments.truncation_method == "left") options.truncation = packing::Truncation::kLeft;
  if (arguments.truncation_method == "drop") options.truncation = packing::Truncation::kDrop;
  if (arguments.packing_algorithm == "next_fit") {
    options.algorithm = packing::PackingAlgorithm::kNextFit;
  }
  if (arguments.on_error == "skip") options.on_error = preprocess::OnError::kSkip;
  options.seed = static_cast<uint32_t>(arguments.seed);
  // The template says which special tokens there are, as for transformers' apply_chat_template.
  if (!arguments.tokenizer.hf_include_special_tokens) {
    arguments.tokenizer.hf_include_special_tokens = false;
  }
  arguments.tokenizer.vocab_extra_ids = 0;
  return Status();
}

std::optional<int> parse(int argc, const char* const* argv, Arguments& arguments) {
  Flags flags("pack_dataset",
              "turns conversations (JSON lines of OpenAI, ShareGPT, or prompt and completion) into "
              "tokens with a loss mask, packed into sequences for fine-tuning.");
  flags.examples(
      {"pack_dataset --input chats.jsonl --output-prefix chats --tokenizer-type "
       "HuggingFaceTokenizer --tokenizer-model Qwen2.5-7B-Instruct --seq-length 4096",
       "pack_dataset --input sharegpt.jsonl.gz --output-prefix chats --tokenizer-type "
       "HuggingFaceTokenizer --tokenizer-model Llama-3.1-8B --chat-template llama3 --seq-length "
       "8192 --loss-on last --packed-parquet --on-error skip"});
  flags
      .list("--input", &arguments.options.inputs, "FILE...",
            "files, folders and patterns of JSON lines or JSON arrays, on disk or at s3://, also "
            "compressed (gzip, zstd, xz); - is standard input")
      .required();
  flags
      .value("--seq-length", &arguments.options.sequence_length, "N",
             "tokens of a packed sequence, as --seq-length of the training")
      .range(1, int64_t{1} << 30)
      .required();
  flags.value("--load", &arguments.load, "CHECKPOINT",
              "a checkpoint, whose tokenizer is used where no flag names one");
  flags.value(
      "--chat-template", &arguments.chat_template, "NAME|FILE|FOLDER",
      fmt::format("chat template: {}, a file with Jinja, or the folder of a tokenizer (default: "
                  "that of the tokenizer)",
                  fmt::join(packing::builtin_template_names(), ", ")));
  flags
      .value("--loss-on", &arguments.loss_on, "WHAT",
             "what the model learns: all that the assistant says, its last turn, or all tokens")
      .choices({"assistant", "last", "all"});
  flags
      .value("--truncation-method", &arguments.truncation_method, "HOW",
             "what becomes of a conversation of more than --seq-length + 1 tokens: its end is cut "
             "off, its beginning, or it is left out")
      .choices({"right", "left", "drop"});
  flags
      .value("--packing-algorithm", &arguments.packing_algorithm, "HOW",
             "first_fit_decreasing: fewest sequences, in random order; next_fit: conversations "
             "stay in order")
      .choices({"first_fit_decreasing", "next_fit"});
  flags.value("--seed", &arguments.seed, "N", "of the order of sequences with first_fit_decreasing")
      .range(0, std::numeric_limits<uint32_t>::max());
  flags.toggle("--packed-parquet", &arguments.options.parquet,
               "also write PREFIX.idx.parquet, which Megatron-Bridge trains on");
  flags.value("--on-error", &arguments.on_error, "WHAT", "what to do with an invalid line")
      .choices({"fail", "skip"});
  flags
      .value("--max-documents", &arguments.options.max_documents, "N", "stop after N conversations")
      .range(1, std::numeric_limits<int64_t>::max());
  flags.toggle("--json", &arguments.json, "print one JSON object, and nothing else");
  arguments.args.set("workers", int64_t{available_processors()});
  flags.also_requires([&arguments]() -> std::vector<std::string> {
    if (arguments.load || arguments.args.given("tokenizer_type")) return {};
    return {"--tokenizer-type or --load"};
  });
  flags.arguments(megatron::argument_rows(megatron::ArgumentFamily::kPreprocess), scope(),
                  &arguments.args);
  if (const std::optional<int> code = flags.parse(argc, argv)) return code;
  const Status status = finish(arguments);
  if (status.ok()) return std::nullopt;
  return fail_by_code(status);
}

/// The folder of the tokenizer; empty where it is none.
std::string tokenizer_folder(const std::string& model) {
  std::error_code absent;
  if (fs::is_directory(model, absent)) return model;
  const fs::path file(model);
  if (file.filename() == "tokenizer.json") {
    return file.has_parent_path() ? file.parent_path().string() : ".";
  }
  return "";
}

Result<chat::ChatTemplate> open_template(const Arguments& arguments) {
  const std::string folder = tokenizer_folder(arguments.tokenizer.tokenizer_model);
  std::string source_folder = folder;
  if (arguments.chat_template) {
    const std::string& given = *arguments.chat_template;
    const std::vector<std::string> names = packing::builtin_template_names();
    if (std::find(names.begin(), names.end(), given) != names.end()) {
      return packing::builtin_template(given);
    }
    std::error_code absent;
    if (!fs::exists(given, absent)) {
      return make_error(StatusCode::kInvalidArgument,
                        "--chat-template: expected {}, a file or a folder, found {}",
                        fmt::join(names, ", "), given);
    }
    if (!fs::is_directory(given, absent)) {
      MEG_ASSIGN_OR_RETURN(const io::MappedFile file, io::MappedFile::open(given));
      Result<chat::ChatTemplate> parsed = chat::ChatTemplate::parse(file.text(), folder);
      return parsed.has_value() ? std::move(parsed) : parsed.error().with_prefix(given);
    }
    source_folder = given;
  }
  if (!source_folder.empty()) {
    MEG_ASSIGN_OR_RETURN(std::optional<chat::ChatTemplate> found,
                         chat::ChatTemplate::open(source_folder));
    if (found) return *std::move(found);
  }
  return make_error(StatusCode::kInvalidArgument,
                    "{}: expected a chat template, found none: --chat-template names one ({})",
                    source_folder.empty() ? "the tokenizer" : source_folder,
                    fmt::join(packing::builtin_template_names(), ", "));
}

std::vector<std::pair<std::string, int64_t>> counts(const packing::PackSummary& summary) {
  return {{"conversations", summary.conversations},
          {"packed", summary.packed},
          {"truncated", summary.truncated},
          {"too long", summary.too_long},
          {"empty", summary.empty},
          {"without an answer", summary.without_assistant},
          {"without a token to learn", summary.without_loss},
          {"skipped lines", summary.skipped_lines},
          {"tokens", summary.tokens},
          {"tokens to learn", summary.loss_tokens},
          {"sequences", summary.sequences}};
}

void print_summary(const Arguments& arguments, const packing::PackSummary& summary,
                   double seconds) {
  for (const auto& [name, count] : counts(summary)) {
    const bool is_rare = count == 0 && name != "conversations";
    if (!is_rare) fmt::print("{}: {}\n", name, count);
  }
  fmt::print("packing efficiency: {:.2f}% ({:.2f} conversations in a sequence, at most {})\n",
             summary.efficiency * 100,
             static_cast<double>(summary.packed) / static_cast<double>(summary.sequences),
             summary.most_in_sequence);
  fmt::print("seconds: {:.3f}\nconversations/s: {:.0f}\n", seconds,
             static_cast<double>(summary.conversations) / seconds);
  const packing::PackOptions& options = arguments.options;
  for (const std::string& file : packing::packed_files(options.output_prefix, options.parquet)) {
    fmt::print("wrote {}\n", file);
  }
}

void print_json_summary(const Arguments& arguments, const packing::PackSummary& summary,
                        double seconds) {
  nlohmann::ordered_json object = json_object();
  for (auto [name, count] : counts(summary)) {
    std::replace(name.begin(), name.end(), ' ', '_');
    object[name] = count;
  }
  object["packing_efficiency"] = summary.efficiency;
  object["most_in_sequence"] = summary.most_in_sequence;
  object["bytes"] = summary.input_bytes;
  object["seconds"] = seconds;
  object["files"] =
      packing::packed_files(arguments.options.output_prefix, arguments.options.parquet);
  print_json(object);
}

Status run(Arguments& arguments) {
  note_new_folders(arguments.options.output_prefix);
  auto opened = tokenizer::open_tokenizer(arguments.tokenizer);
  if (!opened.has_value()) {
    return arguments.tokenizer_origin.empty()
               ? opened.error()
               : opened.error().with_prefix(arguments.tokenizer_origin);
  }
  const std::unique_ptr<tokenizer::Tokenizer> tokenizer = *std::move(opened);
  for (const std::string& text : tokenizer->warnings()) warning(text);
  MEG_ASSIGN_OR_RETURN(const chat::ChatTemplate chat_template, open_template(arguments));
  arguments.options.dataset_tokenizer = dataset_tokenizer(arguments.tokenizer, *tokenizer);
  const Stopwatch work;
  ProgressBar bar(arguments.log_interval);
  const auto progress = bar.interruptible_callback();
  const Result<packing::PackSummary> summary =
      packing::pack_dataset(arguments.options, chat_template, *tokenizer, progress);
  bar.clear();
  MEG_RETURN_IF_ERROR(summary.status());
  arguments.json ? print_json_summary(arguments, *summary, work.seconds())
                 : print_summary(arguments, *summary, work.seconds());
  for (const std::string& text : summary->skipped_examples) note("skipped " + text);
  for (const std::string& text : summary->warnings) warning(text);
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
