// Datasets made of the documents of another one. New; Megatron-LM has no such tool.

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/stopwatch.h"
#include "libmeg/dataset/dataset_view.h"
#include "libmeg/dataset/index_format.h"
#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/preprocess/check_outputs.h"
#include "tools/common/document_orders.h"
#include "tools/common/flags/flags.h"
#include "tools/common/found_instead.h"
#include "tools/common/interruption.h"
#include "tools/common/json_output.h"
#include "tools/common/progress_bar.h"
#include "tools/common/report.h"
#include "tools/common/run_program.h"
#include "tools/dataset_tool/commands.h"

namespace meg::tools {
namespace {

using dataset::IndexedDataset;

struct Arguments {
  std::string command;
  std::string prefix;
  std::string output_prefix;
  std::optional<std::string> documents, document_list, matching;
  std::optional<int64_t> tokens;
  int64_t every = 1;
  int64_t seed = 1234;
  std::string by = "length";
  bool descending = false;
  bool copy = false;
  bool json = false;
};

/// What is said of each command.
struct Command {
  std::string_view name, summary, example, other_example;
};

constexpr Command kCommands[] = {
    {"slice", "takes documents from A to B, every Nth one, or as many as have N tokens.",
     "dataset_tool slice corpus_text_document --documents 0:1000 --output-prefix first",
     "dataset_tool slice corpus_text_document --every 10 --tokens 1000000 --output-prefix tenth"},
    {"exclude", "leaves documents out.",
     "dataset_tool exclude corpus_text_document --documents 17,40:60 --output-prefix clean",
     "dataset_tool exclude corpus_text_document --matching crawl --output-prefix books"},
    {"keep", "takes the documents that are named, in their order.",
     "dataset_tool keep corpus_text_document --document-list good.txt --output-prefix good",
     "dataset_tool keep corpus_text_document --documents 0,10:20 --copy --output-prefix few"},
    {"shuffle", "puts all documents into a random order.",
     "dataset_tool shuffle corpus_text_document --seed 1234 --output-prefix shuffled",
     "dataset_tool shuffle corpus_text_document --copy --output-prefix shuffled"},
    {"sort", "puts all documents in order.",
     "dataset_tool sort corpus_text_document --by length --output-prefix sorted",
     "dataset_tool sort corpus_text_document --descending --output-prefix longest_first"},
};

void declare_selection(Flags& flags, Arguments& arguments) {
  flags.group("Documents");
  flags.value("--documents", &arguments.documents, "LIST",
              "numbers from 0 on, and ranges such as 10:20 or -100:, with commas between them");
  if (arguments.command == "slice") {
    flags.value("--every", &arguments.every, "N", "only the first, the Nth after it, and so on")
        .range(1, INT64_MAX);
    flags
        .value("--tokens", &arguments.tokens, "N",
               "only the first documents, as long as they have at most this many tokens")
        .range(0, INT64_MAX);
    return;
  }
  flags.value("--document-list", &arguments.document_list, "FILE",
              "the same in a file, with any number on a line");
  flags.value("--matching", &arguments.matching, "REGEX",
              "documents from sources whose names have a match of this RE2 pattern; needs "
              "PREFIX.provenance");
}

std::optional<int> parse(int argc, const char* const* argv, const Command& command,
                         Arguments& arguments) {
  arguments.command = command.name;
  Flags flags(fmt::format("dataset_tool {}", command.name), std::string(command.summary));
  flags.examples({std::string(command.example), std::string(command.other_example)});
  flags.positional("PREFIX", &arguments.prefix, "the dataset, may end in .bin or .idx");
  if (command.name == "shuffle") {
    flags.group("Order");
    flags
        .value("--seed", &arguments.seed, "N",
               "of numpy.random.RandomState, whose permutation it is")
        .range(0, UINT32_MAX);
  } else if (command.name == "sort") {
    flags.group("Order");
    flags.value("--by", &arguments.by, "KEY", "length: tokens of a document").choices({"length"});
    flags.toggle("--descending", &arguments.descending, "the longest first");
  } else {
    declare_selection(flags, arguments);
  }
  flags.group("Output");
  flags.value("--output-prefix", &arguments.output_prefix, "PREFIX", "name of the new dataset")
      .required();
  flags.toggle("--copy", &arguments.copy,
               "copy the tokens (default: a view, whose PREFIX.bin is a link to the dataset's)");
  flags.toggle("--json", &arguments.json, "print one JSON object");
  if (const std::optional<int> code = flags.parse(argc, argv)) return code;
  const int named = int{arguments.documents.has_value()} +
                    int{arguments.document_list.has_value()} + int{arguments.matching.has_value()};
  if ((arguments.command == "exclude" || arguments.command == "keep") && named != 1) {
    return fail_usage(make_error(StatusCode::kInvalidArgument,
                                 "expected one of --documents, --document-list and --matching, "
                                 "found {}",
                                 named));
  }
  return std::nullopt;
}

/// The documents that flags name; all without any.
Result<DocumentRanges> named_documents(const Arguments& arguments, const IndexedDataset& set) {
  const int64_t count = set.document_count();
  if (arguments.document_list) return read_documents(*arguments.document_list, count);
  if (arguments.matching) {
    const Result<DocumentRanges> found = documents_from(set, *arguments.matching);
    if (!found.has_value()) return found.error().with_prefix("--matching");
    if (found->empty()) {
      warning("--matching: no document is from such a source");
    }
    return found;
  }
  if (!arguments.documents) return others({}, count);
  const Result<DocumentRanges> found = parse_documents(*arguments.documents, count);
  if (!found.has_value()) return found.error().with_prefix("--documents");
  return found;
}

Result<dataset::DocumentOrder> order_of(const Arguments& arguments, const IndexedDataset& set) {
  if (arguments.command == "shuffle") {
    return shuffled(set.document_count(), static_cast<uint32_t>(arguments.seed));
  }
  if (arguments.command == "sort") return by_length(set, arguments.descending);
  MEG_ASSIGN_OR_RETURN(DocumentRanges ranges, named_documents(arguments, set));
  if (arguments.command == "exclude") ranges = others(ranges, set.document_count());
  const dataset::DocumentOrder chosen = every(std::move(ranges), arguments.every);
  if (!arguments.tokens) return chosen;
  DocumentRanges kept;
  MEG_RETURN_IF_ERROR(chosen([&](int64_t begin, int64_t end) {
    kept.push_back({begin, end});
    return Status();
  }));
  MEG_ASSIGN_OR_RETURN(kept, within_tokens(set, kept, *arguments.tokens));
  return in_order(std::move(kept));
}

void print_summary(const Arguments& arguments, const dataset::ViewSummary& summary,
                   int64_t documents, double seconds) {
  if (arguments.json) {
    nlohmann::ordered_json object = json_object();
    object["dataset"] = arguments.output_prefix;
    object["view_of"] = summary.view ? nlohmann::ordered_json(summary.view->bin) : nullptr;
    object["documents"] = summary.documents;
    object["left_out"] = documents - summary.documents;
    object["sequences"] = summary.sequences;
    object["tokens"] = summary.items;
    object["seconds"] = seconds;
    print_json(object);
    return;
  }
  fmt::print("documents: {} of {}\nsequences: {}\ntokens: {}\nseconds: {:.3f}\n", summary.documents,
             documents, summary.sequences, summary.items, seconds);
  if (summary.view) fmt::print("view of: {}\n", summary.view->bin);
  print_written_dataset(dataset::dataset_prefix(arguments.output_prefix), summary.view.has_value());
  std::fflush(stdout);
}

Status run(const Arguments& arguments) {
  const Stopwatch work;
  const Result<IndexedDataset> set = IndexedDataset::open(arguments.prefix);
  if (!set.has_value()) return no_dataset(arguments.prefix, set.error());
  MEG_ASSIGN_OR_RETURN(const dataset::DocumentOrder order, order_of(arguments, *set));
  note_new_folders(arguments.output_prefix);
  ProgressBar bar(0);
  const dataset::ViewOptions options{.copy = arguments.copy,
                                     .progress = bar.interruptible_callback()};
  const Result<dataset::ViewSummary> summary =
      dataset::write_dataset_view(*set, order, arguments.output_prefix, options);
  bar.clear();
  MEG_RETURN_IF_ERROR(summary.status());
  print_summary(arguments, *summary, set->document_count(), work.seconds());
  if (summary->documents == 0) warning("no documents: nothing was selected");
  if (arguments.command == "exclude" && summary->documents == set->document_count()) {
    warning("all documents: nothing was left out");
  }
  return {};
}

/// Commands with files of their own.
struct OtherCommand {
  std::string_view name, example;
  int (*main)(int argc, const char* const* argv);
};

constexpr OtherCommand kOtherCommands[] = {
    {"concat", "dataset_tool concat books_text_document wiki_text_document --output-prefix both",
     concat_main},
    {"repair", "dataset_tool repair broken_text_document --output-prefix mended", repair_main},
    {"convert", "dataset_tool convert corpus_text_document --dtype int32 --output-prefix wide",
     convert_main},
    {"stat", "dataset_tool stat corpus_text_document", stat_main},
    {"provenance",
     "dataset_tool provenance corpus_text_document --input corpus.jsonl --tokenizer-type "
     "GPT2BPETokenizer --vocab-file gpt2-vocab.json --merge-file gpt2-merges.txt",
     provenance_main},
};

/// As many as other programs show, before those of the other commands; each command shows its own.
constexpr size_t kExamples = 2;

/// Answers --help, --version and command lines that name no command.
int usage_main(int argc, const char* const* argv) {
  std::string what;
  std::vector<std::string> names, examples;
  for (const Command& command : kCommands) {
    names.emplace_back(command.name);
    if (examples.size() < kExamples) examples.emplace_back(command.example);
  }
  for (const OtherCommand& command : kOtherCommands) {
    names.emplace_back(command.name);
    if (examples.size() <= kExamples) examples.emplace_back(command.example);
  }
  Flags flags("dataset_tool",
              "makes datasets of the documents of another one, as views of its tokens or as "
              "copies; repairs, converts and describes datasets.");
  flags.examples(examples);
  flags.positional("COMMAND", &what, "what to do; see also dataset_tool COMMAND --help")
      .choices(names);
  const int words = argc < 2 || argv[1][0] == '-' ? argc : 2;
  return flags.parse(words, argv).value_or(2);
}

int main(int argc, const char* const* argv) {
  const std::string_view name = argc > 1 ? argv[1] : "";
  for (const Command& command : kCommands) {
    if (command.name != name) continue;
    Arguments arguments;
    if (const std::optional<int> code = parse(argc - 1, argv + 1, command, arguments)) return *code;
    stop_at_signals();
    const Status status = run(arguments);
    return status.ok() ? 0 : fail(status);
  }
  for (const OtherCommand& command : kOtherCommands) {
    if (command.name == name) return command.main(argc - 1, argv + 1);
  }
  return usage_main(argc, argv);
}

}  // namespace

Status check_is_another_file(const std::string& file, const std::string& prefix,
                             std::vector<std::string> inputs) {
  for (const char* const ending : {".bin", ".idx", ".libmeg", ".provenance"}) {
    inputs.push_back(prefix + ending);
  }
  return preprocess::check_outputs(inputs, {file});
}

}  // namespace meg::tools

int main(int argc, char** argv) { return meg::tools::run_program(argc, argv, meg::tools::main); }
