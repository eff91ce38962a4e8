#include "libmeg/cleaning/internal/check_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libmeg/cleaning/internal/output.h"
#include "libmeg/cleaning/internal/step.h"
#include "libmeg/io/byte_stream.h"
#include "libmeg/preprocess/check_outputs.h"

namespace meg::cleaning {
namespace {

constexpr int64_t kLeastMemory = int64_t{1} << 20;

/// Refuses what a stage would ignore.
Status check_stage(const CleanOptions& options) {
  const MinHashStage stage = options.minhash_stage;
  if (stage == MinHashStage::kAll) return {};
  const auto invalid = [](std::string_view message) {
    return make_error(StatusCode::kInvalidArgument, "`minhash_stage`: {}", message);
  };
  if (options.minhash_folder.empty()) return invalid("requires `minhash_folder`");
  if (options.resume) {
    return Status(StatusCode::kUnsupported,
                  "`resume`: cannot be combined with `minhash_stage`: use more shards");
  }
  const bool counts_ngrams = options.decontaminate && options.decontaminate->key_threshold > 0;
  if (!options.near_duplicates || options.exact_duplicates || options.shuffle ||
      options.id_prefix || !options.splits.empty() || options.max_documents || counts_ngrams) {
    return invalid(
        "cannot be combined with what needs all documents (`exact_duplicates`, `shuffle`, "
        "`split`, `max_documents`, `id_prefix`, `key_threshold`)");
  }
  if (stage != MinHashStage::kFilter && !options.output.empty()) {
    return invalid("signatures, buckets and clusters have no `output`: expected it with filter");
  }
  if (stage != MinHashStage::kClusters && options.kept_duplicate != KeptDuplicate::kRoot) {
    return invalid("expected `keep_duplicate` with clusters");
  }
  const bool finds_pairs = stage == MinHashStage::kSignatures || stage == MinHashStage::kBuckets;
  if (!finds_pairs && options.verify_jaccard) {
    return invalid("expected `verify_jaccard` with signatures and buckets");
  }
  const bool has_key = stage == MinHashStage::kSignatures || stage == MinHashStage::kClusters;
  if (!has_key && !options.kept_duplicate_key.empty()) {
    return invalid("expected `keep_key` with signatures and clusters");
  }
  if (stage == MinHashStage::kSignatures) return {};
  MEG_ASSIGN_OR_RETURN(const std::vector<StepPlan> plans, plan_steps(options));
  if (!options.inputs.empty() || !plans.empty() || options.decontaminate) {
    return invalid("expected `input` and other steps with signatures");
  }
  if (stage == MinHashStage::kClusters && options.input.shard.count > 1) {
    return invalid("clusters are those of all shards: expected no `shard`");
  }
  return {};
}

Status check_near_duplicates(const CleanOptions& options) {
  const auto invalid = [](std::string_view message) {
    return Status(StatusCode::kInvalidArgument, std::string(message));
  };
  const bool decides_by_key = options.kept_duplicate == KeptDuplicate::kHighest ||
                              options.kept_duplicate == KeptDuplicate::kLowest;
  const bool has_rule = options.kept_duplicate != KeptDuplicate::kRoot ||
                        !options.kept_duplicate_key.empty() || options.verify_jaccard;
  if (has_rule && !options.near_duplicates) {
    return invalid("`keep_duplicate`, `keep_key`, `verify_jaccard`: require `near_duplicates`");
  }
  if (decides_by_key && options.kept_duplicate_key.empty()) {
    return invalid("`keep_duplicate`: highest and lowest require `keep_key`");
  }
  // Signatures record the values for clusters.
  const bool records = options.minhash_stage == MinHashStage::kSignatures;
  if (!options.kept_duplicate_key.empty() && !decides_by_key && !records) {
    return invalid("`keep_key`: requires `keep_duplicate` highest or lowest");
  }
  if (options.verify_jaccard && !(*options.verify_jaccard > 0 && *options.verify_jaccard <= 1)) {
    return invalid(fmt::format("`verify_jaccard`: expected more than 0, up to 1, found {}",
                               *options.verify_jaccard));
  }
  return check_stage(options);
}

Status check_splits(const CleanOptions& options) {
  const auto invalid = [](std::string message) {
    return Status(StatusCode::kInvalidArgument, std::move(message));
  };
  if (options.sample && !(*options.sample > 0 && *options.sample <= 1)) {
    return invalid(
        fmt::format("`sample`: expected more than 0, up to 1, found {}", *options.sample));
  }
  const bool has_place = options.output.find(kSplitPlace) != options.output.npos;
  if (options.splits.empty()) {
    if (!has_place) return {};
    return invalid(
        fmt::format("`output`: {} requires `split`, found {}", kSplitPlace, options.output));
  }
  if (!has_place) {
    return invalid(fmt::format("`output`: expected {} in it for the names of the splits, found {}",
                               kSplitPlace, options.output));
  }
  double sum = 0;
  std::set<std::string> names;
  for (const Split& split : options.splits) {
    const bool is_name = !split.name.empty() && split.name.find('/') == split.name.npos;
    if (!is_name || !names.insert(split.name).second) {
      return invalid(fmt::format("`split`: expected names, each once, found {}", split.name));
    }
    if (!(split.share > 0 && split.share <= 1)) {
      return invalid(fmt::format("`split`: expected shares of more than 0, up to 1, found {}={}",
                                 split.name, split.share));
    }
    sum += split.share;
  }
  if (std::abs(sum - 1) < 1e-9) return {};
  return invalid(fmt::format("`split`: expected shares that make 1, found {}", sum));
}

Status check_dataset(const CleanOptions& options) {
  if (!options.dataset) return {};
  const auto invalid = [](std::string_view message) {
    return Status(StatusCode::kInvalidArgument, std::string(message));
  };
  if (options.tokenizer == nullptr) return invalid("`output_prefix`: requires a tokenizer");
  if (options.id_prefix) {
    return invalid("`id_prefix`: expected JSON lines as output, found `output_prefix`");
  }
  if (options.dataset->append_eod && !options.tokenizer->eod()) {
    return invalid("`append_eod`: the vocabulary has no end-of-document token");
  }
  if (options.dataset->provenance && options.minhash_stage != MinHashStage::kAll) {
    return invalid("`provenance`: cannot be combined with `minhash_stage`");
  }
  if (options.output.empty()) return invalid("`output_prefix`: expected a path");
  for (const std::string& path : output_paths(options)) {
    MEG_RETURN_IF_ERROR(dataset::check_is_path(path));
  }
  return {};
}

/// The names of what inputs may be and outputs are not, which would be read as what they are not.
Status check_output_name(const CleanOptions& options) {
  if (options.dataset) return {};
  const std::string& name = options.output;
  constexpr std::string_view kOthers[] = {".xz", ".csv", ".parquet", ".arrow", ".feather"};
  const bool is_other = std::ranges::any_of(
      kOthers, [&name](std::string_view ending) { return name.ends_with(ending); });
  if (!is_other && name != io::kStandardInput) return {};
  return make_error(StatusCode::kUnsupported,
                    "`output`: expected a file of JSON lines or .txt, maybe .gz or .zst, found {}",
                    name);
}

/// What is written must be neither read nor written a second time. outputs: output_paths().
Status check_files(const CleanOptions& options, const std::vector<std::string>& outputs) {
  std::vector<std::string> others = options.inputs;
  for (std::string& file : named_files(options)) others.push_back(std::move(file));
  for (const std::string& path : outputs) {
    MEG_RETURN_IF_ERROR(preprocess::check_outputs(others, output_files(options, path)));
  }
  if (!options.report) return {};
  if (options.report->empty()) {
    return Status(StatusCode::kInvalidArgument, "`report`: expected a path, found an empty one");
  }
  for (const std::string& path : outputs) {
    for (std::string& file : output_files(options, path)) others.push_back(std::move(file));
  }
  return preprocess::check_outputs(others, {*options.report});
}

}  // namespace

std::vector<std::string> named_files(const CleanOptions& options) {
  std::vector<std::string> files;
  if (options.urls) {
    files = {options.urls->blacklist, options.urls->patterns, options.urls->groups};
  }
  if (options.language) files.push_back(options.language->model);
  if (options.decontaminate) {
    const std::vector<std::string>& test_sets = options.decontaminate->test_sets;
    files.insert(files.end(), test_sets.begin(), test_sets.end());
  }
  std::erase(files, "");
  return files;
}

Status check_options(const CleanOptions& options) {
  if (options.workers < 1 || options.chunk_bytes < 1) {
    return Status(StatusCode::kInvalidArgument, "workers and chunk_bytes: expected at least 1");
  }
  if (options.memory < kLeastMemory) {
    return make_error(StatusCode::kInvalidArgument,
                      "`memory`: expected at least 1MiB, found {} bytes", options.memory);
  }
  if (options.duplicate_unit != DuplicateUnit::kDocument &&
      (!options.exact_duplicates || options.near_duplicates || !options.duplicates_by.empty())) {
    return Status(StatusCode::kInvalidArgument,
                  "`duplicates_of`: paragraphs and lines require `exact_duplicates`, without "
                  "`duplicates_by` and `near_duplicates`");
  }
  MEG_RETURN_IF_ERROR(check_near_duplicates(options));
  MEG_RETURN_IF_ERROR(check_dataset(options));
  const bool has_output =
      options.minhash_stage == MinHashStage::kAll || options.minhash_stage == MinHashStage::kFilter;
  if (!has_output) return check_files(options, {});
  if (options.output.empty()) {
    return Status(StatusCode::kInvalidArgument, "`output`: expected a path, found an empty one");
  }
  MEG_RETURN_IF_ERROR(check_output_name(options));
  if (options.max_documents && *options.max_documents < 1) {
    return Status(StatusCode::kInvalidArgument, "`max_documents`: expected at least 1");
  }
  if (options.id_prefix && is_txt(options)) {
    return make_error(StatusCode::kInvalidArgument,
                      "`id_prefix`: expected JSON lines as output, found {}", options.output);
  }
  MEG_RETURN_IF_ERROR(check_splits(options));
  return check_files(options, output_paths(options));
}

}  // namespace meg::cleaning
