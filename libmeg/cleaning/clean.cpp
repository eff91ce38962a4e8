#include "libmeg/cleaning/clean.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <span>
#include <unordered_set>
#include <utility>

#include "libmeg/cleaning/internal/packed.h"
#include "libmeg/cleaning/internal/step.h"
#include "libmeg/io/atomic_file.h"
#include "libmeg/preprocess/check_outputs.h"
#include "libmeg/preprocess/read_texts.h"
#include "libmeg/text/json/json_object.h"

// Every thread takes a part of the input through all steps that look at one document alone
// (PartCleaner). What depends on the documents before (duplicates, the limit) is decided where
// parts are settled, in order; then they are compressed, by all threads, and written, in order.

namespace meg::cleaning {
namespace {

using Digest = XXH128_hash_t;

struct DigestHash {
  size_t operator()(const Digest& digest) const { return digest.low64; }
};

struct DigestEqual {
  bool operator()(const Digest& a, const Digest& b) const { return XXH128_isEqual(a, b) != 0; }
};

/// A document that passed the steps.
struct Kept {
  size_t begin = 0;  ///< Of its line in the part's output.
  size_t size = 0;
  int64_t text_bytes = 0;
  Digest digest{};  ///< Of its text.
};

/// What the parts of one run share. Only the part that is settled or written uses it.
struct SharedState {
  io::AtomicFile file;
  Packing packing = Packing::kNone;
  std::unordered_set<Digest, DigestHash, DigestEqual> seen;
  CleanSummary summary;
};

void add(StepCounts& to, const StepCounts& counts) {
  to.documents += counts.documents;
  to.bytes += counts.bytes;
  to.removed += counts.removed;
  to.removed_bytes += counts.removed_bytes;
  for (const auto& [reason, count] : counts.reasons) to.reasons[reason] += count;
}

class PartCleaner : public preprocess::TextVisitor {
 public:
  PartCleaner(const CleanOptions& options, const std::vector<StepPlan>& plans, SharedState& shared)
      : options_(options), shared_(shared) {
    for (const StepPlan& plan : plans) steps_.push_back(plan.make());
    counts_.resize(plans.size());
  }

  void begin_part(int64_t /*number*/) override {
    out_.clear();
    kept_.clear();
    std::fill(counts_.begin(), counts_.end(), StepCounts());
  }

  Status begin_document(std::string_view json, bool has_list) override {
    if (has_list) {
      return Status(StatusCode::kCorruption, "byte 1: expected a string, found a list of strings");
    }
    json_ = json;
    values_.clear();
    return {};
  }

  Status visit(std::string_view text) override {
    values_.push_back(text);
    return values_.size() == options_.json_keys.size() ? clean_document() : Status();
  }

  Result<bool> settle() override {
    CleanSummary& summary = shared_.summary;
    for (size_t i = 0; i < counts_.size(); ++i) add(summary.steps[i], counts_[i]);
    if (options_.exact_duplicates) drop_duplicates(summary.steps[counts_.size()]);
    const auto left = static_cast<size_t>(
        options_.max_documents ? *options_.max_documents - summary.kept : std::ssize(kept_));
    kept_.resize(std::min(kept_.size(), left));
    for (const Kept& document : kept_) summary.kept_text_bytes += document.text_bytes;
    summary.kept += std::ssize(kept_);
    return !options_.max_documents || summary.kept < *options_.max_documents;
  }

  Status pack() override {
    size_t end = 0;
    for (const Kept& document : kept_) {
      if (document.begin != end) {
        std::copy_n(out_.begin() + static_cast<std::ptrdiff_t>(document.begin), document.size,
                    out_.begin() + static_cast<std::ptrdiff_t>(end));
      }
      end += document.size;
    }
    out_.resize(end);
    if (out_.empty()) return {};
    MEG_ASSIGN_OR_RETURN(out_, packed(std::move(out_), shared_.packing));
    return {};
  }

  Status write() override {
    shared_.summary.output_bytes += std::ssize(out_);
    return shared_.file.write(std::as_bytes(std::span(out_)));
  }

 private:
  Status clean_document() {
    Document document(json_, values_.front(), words_);
    for (size_t i = 0; i < steps_.size(); ++i) {
      StepCounts& counts = counts_[i];
      const auto bytes = std::ssize(document.text());
      ++counts.documents;
      counts.bytes += bytes;
      MEG_ASSIGN_OR_RETURN(const std::string_view reason, steps_[i]->run(document));
      if (!reason.empty()) {
        ++counts.removed;
        counts.removed_bytes += bytes;
        ++counts.reasons[std::string(reason)];
        return {};
      }
      counts.removed_bytes += bytes - std::ssize(document.text());
    }
    Kept kept{.begin = out_.size(), .text_bytes = std::ssize(document.text())};
    if (options_.exact_duplicates) {
      kept.digest = XXH3_128bits(document.text().data(), document.text().size());
    }
    append_line(document);
    kept.size = out_.size() - kept.begin;
    kept_.push_back(kept);
    return {};
  }

  void append_line(const Document& document) {
    if (json_.empty()) {
      append_members(document);
    } else if (!document.is_changed()) {
      append_json(json_);
    } else {
      const std::string_view old = text::find_json_value(json_, options_.json_keys.front());
      const auto begin = static_cast<size_t>(old.data() - json_.data());
      append_json(json_.substr(0, begin));
      text::append_json_string(document.text(), out_);
      append_json(json_.substr(begin + old.size()));
    }
    out_ += '\n';
  }

  /// An element of an array may span lines; no string of JSON does.
  void append_json(std::string_view json) {
    const auto begin = static_cast<std::ptrdiff_t>(out_.size());
    out_.append(json);
    std::replace_if(
        out_.begin() + begin, out_.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  }

  void append_members(const Document& document) {
    for (size_t key = 0; key < values_.size(); ++key) {
      out_ += key == 0 ? "{" : ", ";
      text::append_json_string(options_.json_keys[key], out_);
      out_ += ": ";
      text::append_json_string(key == 0 ? document.text() : values_[key], out_);
    }
    out_ += '}';
  }

  void drop_duplicates(StepCounts& counts) {
    std::erase_if(kept_, [&](const Kept& document) {
      ++counts.documents;
      counts.bytes += document.text_bytes;
      if (shared_.seen.insert(document.digest).second) return false;
      ++counts.removed;
      counts.removed_bytes += document.text_bytes;
      return true;
    });
  }

  const CleanOptions& options_;
  SharedState& shared_;
  std::vector<std::unique_ptr<Step>> steps_;
  EnglishWords words_;

  std::string_view json_;                 // of the document
  std::vector<std::string_view> values_;  // of its keys

  // Of the part.
  std::string out_;
  std::vector<Kept> kept_;
  std::vector<StepCounts> counts_;
};

/// Why an output has no documents.
std::string what_was_removed(const CleanSummary& summary) {
  std::string reasons;
  const auto add_reason = [&reasons](int64_t count, std::string_view what) {
    if (count > 0) reasons += fmt::format("{}{} {}", reasons.empty() ? "" : ", ", count, what);
  };
  for (const StepCounts& step : summary.steps) add_reason(step.removed, "removed by " + step.name);
  add_reason(summary.skipped_lines, "invalid lines skipped");
  return reasons.empty() ? "the input has none" : reasons;
}

Status check_options(const CleanOptions& options) {
  if (options.workers < 1 || options.chunk_bytes < 1) {
    return Status(StatusCode::kInvalidArgument, "workers and chunk_bytes: expected at least 1");
  }
  if (options.output.empty()) {
    return Status(StatusCode::kInvalidArgument, "`output`: expected a path, found an empty one");
  }
  if (options.max_documents && *options.max_documents < 1) {
    return Status(StatusCode::kInvalidArgument, "`max_documents`: expected at least 1");
  }
  return preprocess::check_outputs(options.inputs, {options.output});
}

}  // namespace

Result<CleanSummary> clean(const CleanOptions& options, const ProgressCallback& progress) {
  MEG_RETURN_IF_ERROR(check_options(options));
  MEG_ASSIGN_OR_RETURN(const std::vector<StepPlan> plans, plan_steps(options));
  SharedState shared;
  for (const StepPlan& plan : plans)
    shared.summary.steps.push_back({.name = plan.name, .reasons = {}});
  if (options.exact_duplicates)
    shared.summary.steps.push_back({.name = "exact_duplicates", .reasons = {}});
  shared.packing = packing_of(options.output);
  MEG_ASSIGN_OR_RETURN(shared.file, io::AtomicFile::create(options.output));

  std::vector<PartCleaner> cleaners;
  cleaners.reserve(static_cast<size_t>(options.workers));  // Their addresses are handed out.
  std::vector<preprocess::TextVisitor*> visitors;
  for (int i = 0; i < options.workers; ++i) {
    visitors.push_back(&cleaners.emplace_back(options, plans, shared));
  }
  const preprocess::ReadTextsOptions reading{.inputs = options.inputs,
                                             .input = options.input,
                                             .max_documents = std::nullopt,
                                             .json_keys = options.json_keys,
                                             .on_error = options.on_error,
                                             .chunk_bytes = options.chunk_bytes,
                                             .in_order = true};
  MEG_ASSIGN_OR_RETURN(const preprocess::ReadTextsSummary texts,
                       preprocess::read_texts(reading, visitors, progress));
  CleanSummary& summary = shared.summary;
  if (summary.output_bytes == 0) {
    MEG_ASSIGN_OR_RETURN(const std::string empty, packed("", shared.packing));
    MEG_RETURN_IF_ERROR(shared.file.write(std::as_bytes(std::span(empty))));
    summary.output_bytes = std::ssize(empty);
  }
  MEG_RETURN_IF_ERROR(shared.file.commit());
  summary.documents = texts.documents;
  summary.input_bytes = texts.input_bytes;
  summary.text_bytes = texts.text_bytes;
  summary.skipped_lines = texts.skipped_lines;
  summary.skipped_examples = texts.skipped_examples;
  summary.warnings = texts.warnings;
  if (summary.kept == 0) {
    summary.warnings.push_back(
        fmt::format("no documents: {} is empty ({})", options.output, what_was_removed(summary)));
  }
  return std::move(summary);
}

}  // namespace meg::cleaning
