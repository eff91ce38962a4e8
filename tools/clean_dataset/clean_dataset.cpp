// Documents to fewer and cleaner documents. Stands for the steps of Megatron-LM tools/openwebtext.

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "libmeg/base/stopwatch.h"
#include "libmeg/base/thread_pool.h"
#include "libmeg/cleaning/clean.h"
#include "libmeg/io/atomic_file.h"
#include "libmeg/megatron/argument_table.h"
#include "libmeg/megatron/argument_values.h"
#include "libmeg/tokenizer/registry/open_tokenizer.h"
#include "tools/clean_dataset/clean_dataset_html.h"
#include "tools/clean_dataset/clean_dataset_summary.h"
#include "tools/common/byte_size.h"
#include "tools/common/flag_groups/input_flags.h"
#include "tools/common/flag_groups/tokenizer_flags.h"
#include "tools/common/flags/flags.h"
#include "tools/common/interruption.h"
#include "tools/common/progress_bar.h"
#include "tools/common/report.h"
#include "tools/common/resume_identity.h"
#include "tools/common/run_program.h"

namespace meg::tools {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

/// What the command line says.
struct Arguments {
  megatron::ArgumentValues args;
  cleaning::DatasetOutput dataset;
  std::string output_prefix;  // of datasets; empty: lines are written
  std::optional<std::string> dtype;
  bool provenance = false;
  InputFlags input;
  std::string command;
  std::string on_error = "fail";
  std::string duplicates_of = "documents";
  std::string keep_duplicate = "root";
  std::string contaminated = "cut";
  cleaning::UrlOptions urls;
  cleaning::DecontaminateOptions decontaminate;
  cleaning::LanguageOptions language;
  std::string memory = "1GiB";
  std::optional<std::string> minhash_stage;
  std::vector<std::string> splits;
  int64_t seed = static_cast<int64_t>(cleaning::CleanOptions().seed);
  std::vector<std::string> require_match, require_range;
  int64_t workers = available_processors();
  int64_t log_interval = 100'000;
  bool json = false;

  // What finish() makes of them.
  cleaning::CleanOptions options;
  tokenizer::TokenizerOptions tokenizer;
};

/// Megatron's arguments, by their fields.
void read_args(megatron::FieldReader& args, Arguments& arguments) {
  args.take("output_prefix", arguments.output_prefix);
  args.take("append_eod", arguments.dataset.append_eod);
  std::string dataset_impl = "mmap";
  args.take("dataset_impl", dataset_impl);
  if (dataset_impl != "mmap") arguments.dataset.format = dataset::IndexFormat::kTntidx;
  arguments.tokenizer.take_fields(args);
  arguments.tokenizer.vocab_extra_ids = 0;  // As preprocess_data.
}

ArgumentScope scope() {
  std::vector<std::string> fields =
      megatron::fields_read_by([](const megatron::FieldLookup& lookup) {
        megatron::FieldReader args(lookup);
        Arguments arguments;
        read_args(args, arguments);
      });
  return {.reads = std::move(fields), .required = {}, .idle = {}, .idle_fields = {}};
}

void declare(Flags& flags, Arguments& arguments) {
  cleaning::CleanOptions& options = arguments.options;
  declare_input_flags(flags, arguments.input, "stop after N documents have been written");
  flags.list("--json-keys", &options.json_keys, "KEY...",
             "the key of the text, then further ones; of JSON all keys are written, of other "
             "formats these");
  flags.value("--on-error", &arguments.on_error, "WHAT", "what to do with an invalid line")
      .choices({"fail", "skip"});
  flags.group("Steps, in this order");
  std::vector<std::string> repairs = {"all"};
  for (const std::string_view rule : cleaning::repair_rules()) repairs.emplace_back(rule);
  flags
      .list("--repair", &options.repair, "RULES...",
            "repair texts as ftfy does by these of its rules, in this order; all: as by its "
            "defaults, mojibake and HTML entities included")
      .choices(repairs);
  const auto filters = cleaning::url_filters();
  flags
      .list("--url-filters", &arguments.urls.filters, "FILTERS...",
            "remove documents by their URL: of a domain or an extension of the blacklist, up to 8 "
            "characters, malformed; asked in this order")
      .choices({filters.begin(), filters.end()});
  flags.value("--url-key", &arguments.urls.key, "KEY",
              "the key of the URL (default: the text is the URL)");
  flags.value("--url-blacklist", &arguments.urls.blacklist, "FILE",
              "lines `domain NAME` and `extension .NAME` (default: those of Megatron-LM's "
              "blacklist_urls.py)");
  flags.value("--url-patterns", &arguments.urls.patterns, "FILE",
              "remove documents in whose URL one of these RE2 patterns occurs, one a line");
  flags.value("--url-groups", &arguments.urls.groups, "FILE",
              "of each group of URLs that `find_duplicates groups` or Megatron-LM's "
              "group_duplicate_url.py found keep only documents of the first");
  flags.list("--require-match", &arguments.require_match, "KEY=REGEX...",
             "remove documents without a string at KEY in which the RE2 pattern occurs");
  flags.list("--require-range", &arguments.require_range, "KEY=MIN..MAX...",
             "remove documents without a number from MIN to MAX at KEY; either may be left out");
  flags.value("--min-chars", &options.min_chars, "N", "remove texts of fewer than N characters")
      .range(0, kMost);
  flags.value("--max-chars", &options.max_chars, "N", "remove texts of more than N characters")
      .range(0, kMost);
  flags
      .value("--min-tokens", &options.min_tokens, "N",
             "remove texts of fewer than N tokens; requires --tokenizer-type")
      .range(0, kMost);
  flags.value("--max-tokens", &options.max_tokens, "N", "remove texts of more than N tokens")
      .range(0, kMost);
  flags.list("--languages", &arguments.language.languages, "LANGUAGE...",
             "remove texts in other languages; all: keep every language that can be told. Without "
             "--language-model by scripts and stop words, with names such as en");
  flags.value("--language-model", &arguments.language.model, "FILE",
              "a model of fastText, such as lid.176.bin, whose labels are the languages");
  flags
      .value("--language-threshold", &arguments.language.threshold, "SCORE",
             "remove texts unless the score of one of --languages exceeds this")
      .real_range(0, 1);
  const auto rules = cleaning::quality_rules();
  flags
      .list("--quality", &options.quality, "RULES...",
            "apply the quality rules of published data sets, with their thresholds, to English "
            "text, in this order")
      .choices({rules.begin(), rules.end()});
  cleaning::DecontaminateOptions& decontaminate = arguments.decontaminate;
  flags
      .value("--sample", &options.sample, "SHARE",
             "keep this share of the documents, chosen by a hash")
      .real_range(0, 1);
  flags.list("--decontaminate", &decontaminate.test_sets, "FILE...",
             "cut or drop documents that share n-grams of words with these test sets (JSON lines)");
  flags.value("--decontaminate-key", &decontaminate.key, "KEY", "the key of the test sets' texts");
  flags
      .value("--contaminated", &arguments.contaminated, "WHAT",
             "cut: take the n-gram out, with what stands around it; what remains on either side "
             "becomes a document. drop: remove the document")
      .choices({"cut", "drop"});
  flags.value("--max-ngram-size", &decontaminate.max_ngram_size, "N", "words of an n-gram")
      .range(1, 1000);
  flags
      .value("--min-ngram-size", &decontaminate.min_ngram_size, "N",
             "fewest words of a shorter text that is an n-gram as a whole")
      .range(1, 1000);
  flags
      .value("--key-threshold", &decontaminate.key_threshold, "N",
             "ignore n-grams that N documents or more have; for this the input is read twice; 0: "
             "ignore none")
      .range(0, kMost);
  flags
      .value("--remove-char-each-side", &decontaminate.remove_char_each_side, "N",
             "characters to cut on either side of an n-gram, and on to the end of a sentence")
      .range(0, kMost);
  flags
      .value("--filter-text-char-len", &decontaminate.filter_text_char_len, "N",
             "remove cut parts of N characters or fewer")
      .range(0, kMost);
  flags
      .value("--splits-count", &decontaminate.splits_count, "N",
             "remove documents that would become more than N parts")
      .range(1, kMost);
  flags.toggle("--exact-duplicates", &options.exact_duplicates,
               "of documents with the same text keep only the first");
  flags
      .value("--duplicates-of", &arguments.duplicates_of, "WHAT",
             "what --exact-duplicates compares; paragraphs, lines: of equal ones in all texts only "
             "the first stays, and a text of which nothing is left goes")
      .choices({"documents", "paragraphs", "lines"});
  flags.value("--duplicates-by", &options.duplicates_by, "KEY",
              "compare the values of this key for --exact-duplicates, not the texts");
  flags.toggle("--near-duplicates", &options.near_duplicates,
               "of documents with nearly the same text keep only one, by MinHash signatures");
  flags
      .value("--keep-duplicate", &arguments.keep_duplicate, "WHICH",
             "which near duplicate stays; root: the one that datatrove keeps; highest, lowest: by "
             "the number at --keep-key")
      .choices({"root", "first", "longest", "highest", "lowest"});
  flags.value("--keep-key", &options.kept_duplicate_key, "KEY",
              "the key of the number that --keep-duplicate highest or lowest goes by");
  flags
      .value("--verify-jaccard", &options.verify_jaccard, "SIMILARITY",
             "join near duplicates only if their 5-grams of words have this Jaccard similarity")
      .real_range(0, 1);
  flags
      .value("--minhash-stage", &arguments.minhash_stage, "STAGE",
             "one stage of --near-duplicates on many machines: signatures of --shard I/N, buckets "
             "of --shard I/N of the 14 buckets, clusters of all once, filter of --shard I/N")
      .choices({"signatures", "buckets", "clusters", "filter"});
  flags.value("--minhash-folder", &options.minhash_folder, "FOLDER",
              "folder that the stages share");
  flags.group("Output and work");
  flags.value(
      "--output", &options.output, "FILE",
      "JSON lines, or the texts alone where the name ends in .txt; compressed where it ends "
      "in .gz or .zst");
  flags
      .value("--dtype", &arguments.dtype, "DTYPE",
             "type of the tokens of --output-prefix, as in preprocess_data")
      .choices({"uint16", "int32"});
  flags.toggle("--provenance", &arguments.provenance,
               "with --output-prefix: also write DATASET.provenance, the source of every document");
  flags.list(
      "--split", &arguments.splits, "NAME=SHARE...",
      "distribute documents over several files by a hash; --output or --output-prefix has {split} "
      "in its name, as in clean_{split}.jsonl");
  flags.value("--id-prefix", &options.id_prefix, "PREFIX",
              "add the key adlr_id, PREFIX-0000000001 and so on in the order of writing");
  flags.toggle("--shuffle", &options.shuffle, "write documents in another order");
  flags.value("--seed", &arguments.seed, "N", "seed of --sample, --split and --shuffle")
      .range(0, kMost);
  flags.value("--hash-key", &options.hash_key, "KEY",
              "the key whose values --sample and --split go by (default: the text)");
  flags.value("--memory", &arguments.memory, "SIZE",
              "memory for finding duplicates, such as 512MiB; what exceeds it goes to files beside "
              "the output");
  flags.toggle("--resume", &options.resume,
               "continue where the same command was killed; do nothing if it had finished");
  flags.value("--workers", &arguments.workers, "N", "threads").range(1, 4096);
  flags.value("--log-interval", &arguments.log_interval, "N",
              "documents between progress lines if standard error is not a terminal");
  flags.value("--report", &options.report, "FILE",
              "also write an HTML page with pictures: what each step removed, lengths, samples");
  flags.toggle("--json", &arguments.json, "print one JSON object, and nothing else");
  flags.arguments(megatron::argument_rows(megatron::ArgumentFamily::kPreprocess), scope(),
                  &arguments.args);
}

Result<std::optional<double>> parse_bound(std::string_view text) {
  if (text.empty()) return std::optional<double>();
  double number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec == std::errc() && parsed.ptr == text.data() + text.size()) {
    return std::optional<double>(number);
  }
  return make_error(StatusCode::kInvalidArgument, "expected a number, found {}", text);
}

Status add_key_rules(const Arguments& arguments, std::vector<cleaning::KeyRule>& rules) {
  for (const std::string& text : arguments.require_match) {
    const size_t sign = text.find('=');
    if (sign == text.npos || sign == 0) {
      return make_error(StatusCode::kInvalidArgument,
                        "--require-match: expected KEY=REGEX, found {}", text);
    }
    rules.push_back({.key = text.substr(0, sign),
                     .pattern = text.substr(sign + 1),
                     .min = std::nullopt,
                     .max = std::nullopt});
  }
  for (const std::string& text : arguments.require_range) {
    const size_t sign = text.find('=');
    const size_t dots = text.find("..", sign == text.npos ? 0 : sign);
    if (sign == text.npos || sign == 0 || dots == text.npos) {
      return make_error(StatusCode::kInvalidArgument,
                        "--require-range: expected KEY=MIN..MAX, found {}", text);
    }
    const std::string_view all = text;
    const auto min = parse_bound(all.substr(sign + 1, dots - sign - 1));
    const auto max = parse_bound(all.substr(dots + 2));
    if (!min.has_value()) return min.error().with_prefix("--require-range");
    if (!max.has_value()) return max.error().with_prefix("--require-range");
    rules.push_back(
        {.key = text.substr(0, sign), .pattern = std::nullopt, .min = *min, .max = *max});
  }
  return {};
}

/// Lines or a dataset.
Status finish_dataset(Arguments& arguments) {
  cleaning::CleanOptions& options = arguments.options;
  const auto invalid = [](std::string_view message) {
    return Status(StatusCode::kInvalidArgument, std::string(message));
  };
  if (arguments.output_prefix.empty()) {
    if (arguments.dtype) return invalid("--dtype: requires --output-prefix");
    if (arguments.provenance) return invalid("--provenance: requires --output-prefix");
    if (arguments.dataset.append_eod) return invalid("--append-eod: requires --output-prefix");
    return {};
  }
  if (!options.output.empty()) {
    return invalid("--output: lines, --output-prefix: a dataset: expected one of them");
  }
  if (arguments.dtype) arguments.dataset.dtype = dtype_from_name(*arguments.dtype);
  arguments.dataset.provenance = arguments.provenance;
  options.output = arguments.output_prefix;
  options.dataset = arguments.dataset;
  return {};
}

Status finish(Arguments& arguments) {
  cleaning::CleanOptions& options = arguments.options;
  MEG_RETURN_IF_ERROR(finish_input_flags(arguments.input, options));
  if (options.repair == std::vector<std::string>{"all"}) {
    const auto rules = cleaning::repair_rules();
    options.repair.assign(rules.begin(), rules.end());
  }
  if (arguments.on_error == "skip") options.on_error = preprocess::OnError::kSkip;
  const cleaning::UrlOptions& urls = arguments.urls;
  if (!urls.filters.empty() || !urls.patterns.empty() || !urls.groups.empty()) {
    options.urls = arguments.urls;
  } else if (!arguments.urls.key.empty() || !arguments.urls.blacklist.empty()) {
    return Status(StatusCode::kInvalidArgument,
                  "--url-key, --url-blacklist: require --url-filters, --url-patterns or "
                  "--url-groups");
  }
  std::vector<std::string>& languages = arguments.language.languages;
  if (!languages.empty()) {
    if (languages == std::vector<std::string>{"all"}) languages.clear();
    options.language = arguments.language;
  } else if (!arguments.language.model.empty() ||
             arguments.language.threshold != cleaning::LanguageOptions().threshold) {
    return Status(StatusCode::kInvalidArgument,
                  "--language-model, --language-threshold: require --languages");
  }
  if (!options.duplicates_by.empty() && !options.exact_duplicates) {
    return Status(StatusCode::kInvalidArgument, "--duplicates-by: requires --exact-duplicates");
  }
  using cleaning::DuplicateUnit;
  if (arguments.duplicates_of == "paragraphs") options.duplicate_unit = DuplicateUnit::kParagraph;
  if (arguments.duplicates_of == "lines") options.duplicate_unit = DuplicateUnit::kLine;
  if (arguments.contaminated == "drop") {
    arguments.decontaminate.contaminated = cleaning::Contaminated::kDrop;
  }
  if (!arguments.decontaminate.test_sets.empty()) options.decontaminate = arguments.decontaminate;
  using cleaning::KeptDuplicate;
  if (arguments.keep_duplicate == "first") options.kept_duplicate = KeptDuplicate::kFirst;
  if (arguments.keep_duplicate == "longest") options.kept_duplicate = KeptDuplicate::kLongest;
  if (arguments.keep_duplicate == "highest") options.kept_duplicate = KeptDuplicate::kHighest;
  if (arguments.keep_duplicate == "lowest") options.kept_duplicate = KeptDuplicate::kLowest;
  using cleaning::MinHashStage;
  if (arguments.minhash_stage) {
    options.near_duplicates = true;
    options.minhash_stage = *arguments.minhash_stage == "signatures" ? MinHashStage::kSignatures
                            : *arguments.minhash_stage == "buckets"  ? MinHashStage::kBuckets
                            : *arguments.minhash_stage == "clusters" ? MinHashStage::kClusters
                                                                     : MinHashStage::kFilter;
  } else if (!options.minhash_folder.empty()) {
    return Status(StatusCode::kInvalidArgument, "--minhash-folder: requires --minhash-stage");
  }
  options.seed = static_cast<uint64_t>(arguments.seed);
  for (const std::string& text : arguments.splits) {
    const size_t sign = text.rfind('=');
    const auto share = parse_bound(std::string_view(text).substr(sign == text.npos ? 0 : sign + 1));
    if (sign == text.npos || !share.has_value() || !share->has_value()) {
      return make_error(StatusCode::kInvalidArgument, "--split: expected NAME=SHARE, found {}",
                        text);
    }
    options.splits.push_back({.name = text.substr(0, sign), .share = **share});
  }
  const Result<int64_t> memory = parse_byte_size(arguments.memory);
  if (!memory.has_value()) return memory.error().with_prefix("--memory");
  options.memory = *memory;
  constexpr int kSamples = 5;
  if (options.report) options.samples = kSamples;
  options.workers = static_cast<int>(arguments.workers);
  const megatron::FieldLookup fields = arguments.args.lookup();
  megatron::FieldReader args(fields);
  read_args(args, arguments);
  MEG_RETURN_IF_ERROR(args.status());
  MEG_RETURN_IF_ERROR(finish_dataset(arguments));
  return add_key_rules(arguments, options.key_rules);
}

/// What a resumed run must have alike: the flags and the files that they name.
Status identify(const Flags& flags, Arguments& arguments) {
  cleaning::CleanOptions& options = arguments.options;
  if (!options.resume) return {};
  Identity& identity = options.resume_identity;
  identity = flag_identity(flags);
  for (const std::string& file : cleaning::named_files(options)) {
    MEG_RETURN_IF_ERROR(add_file_identities(file, identity));
  }
  MEG_ASSIGN_OR_RETURN(const Identity tokenizer, tokenizer_identity(arguments.args));
  identity.insert(identity.end(), tokenizer.begin(), tokenizer.end());
  return {};
}

/// Opened before the work, so that a path that cannot be written ends it before it begins.
Result<std::optional<io::AtomicFile>> open_report(const Arguments& arguments) {
  if (!arguments.options.report) return std::optional<io::AtomicFile>();
  MEG_ASSIGN_OR_RETURN(io::AtomicFile file, io::AtomicFile::create(*arguments.options.report));
  return std::optional<io::AtomicFile>(std::move(file));
}

Status run(Arguments& arguments) {
  MEG_ASSIGN_OR_RETURN(std::optional<io::AtomicFile> report, open_report(arguments));
  if (!arguments.options.output.empty()) note_new_folders(arguments.options.output);
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  cleaning::CleanOptions& options = arguments.options;
  if (options.min_tokens || options.max_tokens || options.dataset) {
    if (arguments.tokenizer.tokenizer_type.empty()) {
      return Status(StatusCode::kInvalidArgument,
                    "--min-tokens, --max-tokens, --output-prefix: require --tokenizer-type");
    }
    MEG_ASSIGN_OR_RETURN(tokenizer, tokenizer::open_tokenizer(arguments.tokenizer));
    for (const std::string& text : tokenizer->warnings()) warning(text);
    options.tokenizer = tokenizer.get();
    if (options.dataset) {
      options.dataset->tokenizer = dataset_tokenizer(arguments.tokenizer, *tokenizer);
    }
  }
  const Stopwatch work;
  ProgressBar bar(arguments.log_interval);
  const Result<cleaning::CleanSummary> summary =
      cleaning::clean(arguments.options, bar.interruptible_callback());
  bar.clear();
  MEG_RETURN_IF_ERROR(summary.status());
  const double seconds = work.seconds();
  if (report) {
    const std::string page = clean_report_page(*summary, arguments.command, seconds);
    MEG_RETURN_IF_ERROR(report->write(std::as_bytes(std::span(page))));
    MEG_RETURN_IF_ERROR(report->commit());
    note(written_text(*options.report, {&*options.report, 1}));
  }
  arguments.json ? print_clean_json(*summary, seconds)
                 : print_clean_summary(*summary, options.dataset.has_value(), seconds);
  for (const std::string& text : summary->skipped_examples) note("skipped " + text);
  for (const std::string& text : summary->warnings) warning(text);
  return {};
}

int main(int argc, const char* const* argv) {
  Arguments arguments;
  Flags flags("clean_dataset",
              "removes and repairs documents of a text corpus (JSON lines, a JSON array, CSV, "
              "plain text, Parquet, Arrow) and writes JSON lines or a dataset (.bin/.idx).");
  flags.examples(
      {"clean_dataset --input crawl --output clean.jsonl.zst --min-chars 512 --quality "
       "gopher_repetition gopher_quality --near-duplicates --report clean.html",
       "clean_dataset --input urls --txt-document line --url-filters domain extension short "
       "malformed --exact-duplicates --output clean_urls.txt",
       "clean_dataset --input crawl --min-tokens 128 --near-duplicates --shuffle --output-prefix "
       "clean --append-eod --provenance --tokenizer-type GPT2BPETokenizer --vocab-file "
       "gpt2-vocab.json --merge-file gpt2-merges.txt"});
  declare(flags, arguments);
  for (int i = 0; i < argc; ++i) arguments.command += (i == 0 ? "" : " ") + std::string(argv[i]);
  flags.usage("--input FILE... --output FILE");
  flags.also_requires([&arguments] {
    // Stages have their inputs or their outputs in the folder.
    const std::string stage = arguments.minhash_stage.value_or("");
    std::vector<std::string> missing;
    const bool reads = stage.empty() || stage == "signatures";
    const bool writes = stage.empty() || stage == "filter";
    if (reads && arguments.input.inputs.empty()) missing.emplace_back("--input");
    const bool has_output =
        !arguments.options.output.empty() || arguments.args.given("output_prefix");
    if (writes && !has_output) missing.emplace_back("--output");
    return missing;
  });
  if (const std::optional<int> code = flags.parse(argc, argv)) return *code;
  stop_at_signals();
  Status status = finish(arguments);
  if (status.ok()) status = identify(flags, arguments);
  if (status.ok()) status = run(arguments);
  return status.ok() ? 0 : fail_by_code(status);
}

}  // namespace
}  // namespace meg::tools

int main(int argc, char** argv) { return meg::tools::run_program(argc, argv, meg::tools::main); }
