// Near duplicates by Megatron-LM's own comparison of characters. Stands for find_duplicates.py and
// group_duplicate_url.py of Megatron-LM tools/openwebtext.

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/stopwatch.h"
#include "libmeg/base/thread_pool.h"
#include "libmeg/cleaning/openwebtext/duplicate_groups.h"
#include "libmeg/cleaning/openwebtext/duplicate_pairs.h"
#include "tools/common/flags/flags.h"
#include "tools/common/interruption.h"
#include "tools/common/json_output.h"
#include "tools/common/progress_bar.h"
#include "tools/common/report.h"
#include "tools/common/run_program.h"

namespace meg::tools {
namespace {

constexpr std::string_view kPairsExample =
    "find_duplicates pairs --inputs crawl.jsonl url news.jsonl news_id --output pairs.jsonl";
constexpr std::string_view kGroupsExample = "find_duplicates groups pairs.jsonl groups.jsonl";

struct PairsArguments {
  cleaning::DuplicatePairsOptions options;
  std::vector<std::string> inputs;
  std::string jaccard = "union", on_error = "fail";
  int64_t seed = cleaning::DuplicatePairsOptions().seed;
  int64_t workers = available_processors();
  int64_t log_interval = 100'000;
  bool json = false;
};

std::optional<int> parse(int argc, const char* const* argv, PairsArguments& arguments) {
  cleaning::DuplicatePairsOptions& options = arguments.options;
  Flags flags("find_duplicates pairs",
              "finds documents that share most of their characters' 5-grams, as Megatron-LM's "
              "find_duplicates.py does, and writes their URLs with their similarity.");
  flags.examples({std::string(kPairsExample),
                  "find_duplicates pairs --inputs crawl.jsonl url --heuristic-iter -1 --jaccard "
                  "max --output pairs.jsonl"});
  flags
      .list("--inputs", &arguments.inputs, "FILE KEY...",
            "files of JSON lines, each with the key of its URLs or ids, which name the documents")
      .required();
  flags.value("--output", &options.output, "FILE", "lines {URL: [{URL: similarity}, ...]}")
      .required();
  flags
      .value("--jaccard", &arguments.jaccard, "OF",
             "what the number of common 5-grams is divided by: those of both texts, of the shorter "
             "or of the longer one")
      .choices({"union", "min", "max"});
  flags
      .value("--heuristic-iter", &options.heuristic_iterations, "N",
             "documents of a bucket that are compared with the rest of it; -1: all, which is "
             "quadratic")
      .range(-1, INT64_MAX);
  flags.value("--num-bands", &options.bands, "N", "buckets of a document").range(1, 1'000'000);
  flags
      .value("--num-seeds", &options.hashes, "N", "hashes of a document, a multiple of --num-bands")
      .range(1, 1'000'000);
  flags.value("--seed", &arguments.seed, "N", "of the hashes").range(0, UINT32_MAX);
  flags.value("--on-error", &arguments.on_error, "WHAT", "what to do with an invalid line")
      .choices({"fail", "skip"});
  flags.value("--workers", &arguments.workers, "N", "threads").range(1, 4096);
  flags.value("--log-interval", &arguments.log_interval, "N",
              "documents between progress lines if standard error is not a terminal");
  flags.toggle("--json", &arguments.json, "print one JSON object");
  if (const std::optional<int> code = flags.parse(argc, argv)) return code;
  if (arguments.inputs.size() % 2 != 0) {
    return fail_usage(make_error(StatusCode::kInvalidArgument,
                                 "--inputs: expected pairs of a file and a key, found {} words",
                                 arguments.inputs.size()));
  }
  for (size_t i = 0; i < arguments.inputs.size(); i += 2) {
    options.inputs.push_back({.path = arguments.inputs[i], .key = arguments.inputs[i + 1]});
  }
  using cleaning::SimilarityOf;
  if (arguments.jaccard == "min") options.similarity = SimilarityOf::kSmaller;
  if (arguments.jaccard == "max") options.similarity = SimilarityOf::kLarger;
  if (arguments.on_error == "skip") options.on_error = preprocess::OnError::kSkip;
  options.seed = static_cast<uint32_t>(arguments.seed);
  options.workers = static_cast<int>(arguments.workers);
  return std::nullopt;
}

void print_summary(const cleaning::DuplicatePairsSummary& summary, bool is_json, double seconds) {
  if (is_json) {
    nlohmann::ordered_json object = json_object();
    object["documents"] = summary.documents;
    object["input_bytes"] = summary.input_bytes;
    object["skipped_lines"] = summary.skipped_lines;
    object["repeated_urls"] = summary.repeated_urls;
    object["compared_pairs"] = summary.compared;
    object["similar_pairs"] = summary.similar;
    object["seconds"] = seconds;
    print_json(object);
    return;
  }
  fmt::print("documents: {}\n", summary.documents);
  if (summary.skipped_lines > 0) fmt::print("skipped lines: {}\n", summary.skipped_lines);
  fmt::print("compared pairs: {}\nsimilar pairs: {}\nseconds: {:.3f}\n", summary.compared,
             summary.similar, seconds);
  std::fflush(stdout);
}

int pairs_main(int argc, const char* const* argv) {
  PairsArguments arguments;
  if (const std::optional<int> code = parse(argc, argv, arguments)) return *code;
  stop_at_signals();
  note_new_folders(arguments.options.output);
  const Stopwatch work;
  ProgressBar bar(arguments.log_interval);
  const auto summary =
      cleaning::find_duplicate_pairs(arguments.options, bar.interruptible_callback());
  bar.clear();
  if (!summary.has_value()) return fail_by_code(summary.error());
  print_summary(*summary, arguments.json, work.seconds());
  for (const std::string& text : summary->skipped_examples) note("skipped " + text);
  if (summary->repeated_urls > 0) {
    warning(fmt::format("{} documents have the URL of an earlier one, whose text they replace",
                        summary->repeated_urls));
  }
  return 0;
}

struct GroupsArguments {
  std::string pairs, output;
  double threshold = 0.7;
  bool json = false;
};

int groups_main(int argc, const char* const* argv) {
  GroupsArguments arguments;
  Flags flags("find_duplicates groups",
              "joins pairs of similar documents to groups, as Megatron-LM's group_duplicate_url.py "
              "does; `clean_dataset --url-groups` keeps one document of each.");
  flags.examples({std::string(kGroupsExample),
                  "find_duplicates groups pairs.jsonl groups.jsonl --threshold 0.9"});
  flags.positional("PAIRS", &arguments.pairs, "lines of `find_duplicates pairs`");
  flags.positional("OUTPUT", &arguments.output, "JSON lines with a group each, under its number");
  flags
      .value("--threshold", &arguments.threshold, "SIMILARITY",
             "least similarity of URLs that are joined")
      .real_range(0, 1);
  flags.toggle("--json", &arguments.json, "print one JSON object");
  if (const std::optional<int> code = flags.parse(argc, argv)) return *code;
  stop_at_signals();
  note_new_folders(arguments.output);
  ProgressBar bar(0);
  const auto summary = cleaning::group_duplicates(
      arguments.pairs, arguments.output, arguments.threshold, bar.interruptible_callback());
  bar.clear();
  if (!summary.has_value()) return fail_by_code(summary.error());
  const int64_t removed = summary->urls - summary->groups;
  if (arguments.json) {
    nlohmann::ordered_json object = json_object();
    object["lines"] = summary->lines;
    object["groups"] = summary->groups;
    object["urls"] = summary->urls;
    object["to_remove"] = removed;
    print_json(object);
    return 0;
  }
  fmt::print("lines: {}\ngroups: {}\nURLs in groups: {}, of which {} are to be removed\n",
             summary->lines, summary->groups, summary->urls, removed);
  std::fflush(stdout);
  return 0;
}

int main(int argc, const char* const* argv) {
  const std::string_view name = argc > 1 ? argv[1] : "";
  if (name == "pairs") return pairs_main(argc - 1, argv + 1);
  if (name == "groups") return groups_main(argc - 1, argv + 1);
  std::string what;
  Flags flags("find_duplicates",
              "finds near duplicates as the scripts of Megatron-LM's tools/openwebtext do.");
  flags.examples({std::string(kPairsExample), std::string(kGroupsExample)});
  flags
      .positional("COMMAND", &what,
                  "pairs: documents that are alike; groups: those that belong together")
      .choices({"pairs", "groups"});
  const int words = argc < 2 || argv[1][0] == '-' ? argc : 2;
  return flags.parse(words, argv).value_or(2);
}

}  // namespace
}  // namespace meg::tools

int main(int argc, char** argv) { return meg::tools::run_program(argc, argv, meg::tools::main); }
