#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/base/stopwatch.h"
#include "libmeg/base/thread_pool.h"
#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/io/atomic_file.h"
#include "libmeg/megatron/argument_table.h"
#include "libmeg/preprocess/find_provenance.h"
#include "libmeg/tokenizer/registry/open_tokenizer.h"
#include "tools/common/flag_groups/input_flags.h"
#include "tools/common/flag_groups/tokenizer_flags.h"
#include "tools/common/flags/flags.h"
#include "tools/common/found_instead.h"
#include "tools/common/interruption.h"
#include "tools/common/json_output.h"
#include "tools/common/progress_bar.h"
#include "tools/common/report.h"
#include "tools/dataset_tool/commands.h"

namespace meg::tools {
namespace {

/// Documents that a warning names; --missing-list has them all.
constexpr size_t kNamed = 5;

struct ProvenanceArguments {
  std::string prefix;
  megatron::ArgumentValues args;
  std::optional<std::string> megatron_version, missing_list;
  std::string on_error = "fail";
  InputFlags input;
  SentenceFlags sentences;
  preprocess::PreprocessOptions options;
  tokenizer::TokenizerOptions tokenizer;
  int64_t log_interval = 1000;
  bool json = false;
};

/// Megatron's arguments, by their fields.
void read_args(megatron::FieldReader& args, ProvenanceArguments& arguments) {
  args.take("json_keys", arguments.options.json_keys);
  args.take("append_eod", arguments.options.append_eod);
  args.take("workers", arguments.options.workers);
  args.take("log_interval", arguments.log_interval);
  arguments.sentences.take_fields(args);
  arguments.tokenizer.take_fields(args);
  arguments.tokenizer.vocab_extra_ids = 0;  // As preprocess_data.
}

/// The command line that made the dataset may be given as it was.
ArgumentScope provenance_scope() {
  std::vector<std::string> fields =
      megatron::fields_read_by([](const megatron::FieldLookup& lookup) {
        megatron::FieldReader args(lookup);
        ProvenanceArguments arguments;
        read_args(args, arguments);
      });
  constexpr std::string_view kNotWritten = "no dataset is written";
  return {.reads = std::move(fields),
          .required = {"tokenizer_type"},
          .idle = {},
          .idle_fields = {{"output_prefix", kNotWritten},
                          {"dataset_impl", kNotWritten},
                          {"partitions", kNotWritten},
                          {"keep_sequential_samples", kNotWritten}}};
}

Status finish(ProvenanceArguments& arguments) {
  const megatron::FieldLookup fields = arguments.args.lookup();
  megatron::FieldReader args(fields);
  read_args(args, arguments);
  MEG_RETURN_IF_ERROR(args.status());
  MEG_RETURN_IF_ERROR(finish_input_flags(arguments.input, arguments.options));
  if (arguments.on_error == "skip") arguments.options.on_error = preprocess::OnError::kSkip;
  megatron::MegatronVersion version = megatron::newest_megatron_version();
  if (arguments.megatron_version) {
    MEG_ASSIGN_OR_RETURN(version, megatron::parse_megatron_version(*arguments.megatron_version));
    arguments.tokenizer.version = version;
  }
  MEG_ASSIGN_OR_RETURN(arguments.options.sentences, sentence_options(arguments.sentences, version));
  return {};
}

std::optional<int> parse(int argc, const char* const* argv, ProvenanceArguments& arguments) {
  Flags flags("dataset_tool provenance",
              "writes PREFIX.provenance for a dataset that has none: finds its documents in the "
              "texts that it was made of, by tokenizing these again.");
  flags.examples(
      {"dataset_tool provenance corpus_text_document --input corpus.jsonl --tokenizer-type "
       "GPT2BPETokenizer --vocab-file gpt2-vocab.json --merge-file gpt2-merges.txt --append-eod",
       "dataset_tool provenance corpus_text_document --input parts --tokenizer-type "
       "HuggingFaceTokenizer --tokenizer-model Llama-3.1-8B --append-eod --missing-list "
       "missing.txt"});
  flags.positional("PREFIX", &arguments.prefix, "the dataset, may end in .bin or .idx");
  declare_input_flags(flags, arguments.input).required();
  flags.value("--on-error", &arguments.on_error, "WHAT", "what to do with an invalid line")
      .choices({"fail", "skip"});
  declare_punkt_model(flags, arguments.sentences);
  flags.value("--megatron-version", &arguments.megatron_version, "REVISION",
              "revision of Megatron-LM to follow where revisions differ, such as v2.6");
  flags.value("--missing-list", &arguments.missing_list, "FILE",
              "write the numbers of documents that are not found, as --document-list takes them");
  flags.toggle("--json", &arguments.json, "print one JSON object");
  arguments.args.set("workers", int64_t{available_processors()});
  flags.arguments(megatron::argument_rows(megatron::ArgumentFamily::kPreprocess),
                  provenance_scope(), &arguments.args);
  if (const std::optional<int> code = flags.parse(argc, argv)) return code;
  const Status status = finish(arguments);
  return status.ok() ? std::nullopt : std::optional(fail_by_code(status));
}

/// Numbers and ranges, one a line.
Status write_list(const std::string& path, const std::vector<int64_t>& documents) {
  std::string text;
  for (size_t begin = 0; begin < documents.size();) {
    size_t end = begin + 1;
    while (end < documents.size() && documents[end] == documents[end - 1] + 1) ++end;
    text += end - begin == 1 ? fmt::format("{}\n", documents[begin])
                             : fmt::format("{}:{}\n", documents[begin], documents[end - 1] + 1);
    begin = end;
  }
  MEG_ASSIGN_OR_RETURN(io::AtomicFile file, io::AtomicFile::create(path));
  MEG_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(text))));
  return file.commit();
}

void print_summary(const ProvenanceArguments& arguments, const std::string& path,
                   const preprocess::FoundProvenance& found, double seconds) {
  const int64_t missing = std::ssize(found.missing);
  if (arguments.json) {
    nlohmann::ordered_json object = json_object();
    object["provenance"] = path;
    object["documents"] = found.documents;
    object["missing_documents"] = missing;
    object["shared_places"] = found.shared_places;
    object["documents_read"] = found.read.documents;
    object["unused_documents"] = found.unused;
    object["skipped_lines"] = found.read.skipped_lines;
    object["seconds"] = seconds;
    print_json(object);
    return;
  }
  fmt::print("documents found: {} of {}\n", found.documents - missing, found.documents);
  if (found.shared_places > 0) {
    fmt::print("of these with the place of an equal document: {}\n", found.shared_places);
  }
  fmt::print("documents read: {}, {} of them not in the dataset\n", found.read.documents,
             found.unused);
  if (found.read.skipped_lines > 0) fmt::print("skipped lines: {}\n", found.read.skipped_lines);
  fmt::print("seconds: {:.3f}\nwrote {}\n", seconds, path);
  std::fflush(stdout);
}

Status run(const ProvenanceArguments& arguments) {
  const Stopwatch work;
  const Result<dataset::IndexedDataset> set = dataset::IndexedDataset::open(arguments.prefix);
  if (!set.has_value()) return no_dataset(arguments.prefix, set.error());
  if (arguments.missing_list) {
    MEG_RETURN_IF_ERROR(
        check_is_another_file(*arguments.missing_list, set->prefix(), arguments.options.inputs));
  }
  MEG_RETURN_IF_ERROR(check_dataset_tokenizers({&set->prefix(), 1}, arguments.tokenizer));
  MEG_ASSIGN_OR_RETURN(const std::unique_ptr<tokenizer::Tokenizer> tokenizer,
                       tokenizer::open_tokenizer(arguments.tokenizer));
  for (const std::string& text : tokenizer->warnings()) warning(text);
  ProgressBar bar(arguments.log_interval);
  const auto progress = bar.interruptible_callback();
  const Result<preprocess::FoundProvenance> found =
      preprocess::find_provenance(*set, arguments.options, *tokenizer, progress);
  bar.clear();
  MEG_RETURN_IF_ERROR(found.status());
  if (arguments.missing_list) {
    MEG_RETURN_IF_ERROR(write_list(*arguments.missing_list, found->missing));
  }
  print_summary(arguments, dataset::provenance_path(set->prefix()), *found, work.seconds());
  for (const std::string& text : found->read.skipped_examples) note("skipped " + text);
  for (const std::string& text : found->read.warnings) warning(text);
  if (found->missing.empty()) return {};
  const auto named = std::span(found->missing).first(std::min(found->missing.size(), kNamed));
  warning(fmt::format("{} documents are not in the inputs: {}{}", found->missing.size(),
                      fmt::join(named, ", "), named.size() < found->missing.size() ? ", ..." : ""));
  return {};
}

}  // namespace

int provenance_main(int argc, const char* const* argv) {
  ProvenanceArguments arguments;
  if (const std::optional<int> code = parse(argc, argv, arguments)) return *code;
  stop_at_signals();
  const Status status = run(arguments);
  return status.ok() ? 0 : fail_by_code(status);
}

}  // namespace meg::tools
