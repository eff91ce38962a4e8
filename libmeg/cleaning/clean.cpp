#include "libmeg/cleaning/clean.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "libmeg/base/thread_pool.h"
#include "libmeg/cleaning/duplicates/exact_duplicates.h"
#include "libmeg/cleaning/duplicates/near_duplicates.h"
#include "libmeg/cleaning/internal/packed.h"
#include "libmeg/cleaning/internal/step.h"
#include "libmeg/cleaning/ngrams/decontaminate.h"
#include "libmeg/io/atomic_file.h"
#include "libmeg/io/byte_stream.h"
#include "libmeg/preprocess/check_outputs.h"
#include "libmeg/preprocess/read_texts.h"
#include "libmeg/text/json/json_object.h"
#include "libmeg/text/printable.h"

// Every thread takes a part of the input through all steps that look at one document alone
// (PartCleaner). What depends on the documents before (duplicates, the limit) is decided where
// parts are settled, in order; then they are compressed, by all threads, and written, in order.

namespace meg::cleaning {
namespace {

constexpr int64_t kLeastMemory = int64_t{1} << 20;

/// A document that passed the steps.
struct Kept {
  size_t begin = 0;  ///< Of its line in the part's output.
  size_t size = 0;
  int64_t text_bytes = 0;
  std::optional<TextDigest> digest;
  std::optional<size_t> signature;  ///< Its place among the part's.
  bool is_held = false;             ///< Whether it stays is decided at the end.
};

/// What stands before a document's line in the file of those that are held.
struct HeldHeader {
  uint64_t size;  ///< of the line
  int64_t text_bytes;
};

/// Whether an output has the texts alone, one a line.
bool is_txt(std::string_view path) {
  for (const std::string_view ending : {".gz", ".zst"}) {
    if (path.ends_with(ending)) path.remove_suffix(ending.size());
  }
  return path.ends_with(".txt");
}

/// What the parts of one run share. Only the part that is settled or written uses it.
struct SharedState {
  io::AtomicFile file;
  Packing packing = Packing::kNone;
  std::optional<ExactDuplicates> exact;
  std::optional<NearDuplicates> near;
  io::AtomicFile held_file;
  int64_t held = 0;        ///< documents
  int64_t held_bytes = 0;  ///< written
  CleanSummary summary;
  StepCounts* exact_counts = nullptr;
  StepCounts* near_counts = nullptr;
};

void add(StepCounts& to, const StepCounts& counts) {
  to.documents += counts.documents;
  to.bytes += counts.bytes;
  to.removed += counts.removed;
  to.changed += counts.changed;
  to.removed_bytes += counts.removed_bytes;
  for (const auto& [reason, count] : counts.reasons) to.reasons[reason] += count;
}

Status check_is_text(bool has_list) {
  if (!has_list) return {};
  return Status(StatusCode::kCorruption, "byte 1: expected a string, found a list of strings");
}

/// Counts the n-grams of test sets in the documents that come to that step.
class NgramCounter : public preprocess::TextVisitor {
 public:
  NgramCounter(const CleanOptions& options, const std::vector<StepPlan>& plans, TestNgrams& ngrams)
      : options_(options), filter_(ngrams, *options.decontaminate) {
    for (const StepPlan& plan : plans) steps_.push_back(plan.make());
  }

  Status begin_document(std::string_view json, bool has_list) override {
    json_ = json;
    values_ = 0;
    return check_is_text(has_list);
  }

  Status visit(std::string_view text) override {
    if (values_++ == 0) text_ = text;
    if (values_ < options_.json_keys.size()) return {};
    Document document(json_, text_, words_);
    for (const std::unique_ptr<Step>& step : steps_) {
      MEG_ASSIGN_OR_RETURN(const std::string_view reason, step->run(document));
      if (!reason.empty()) return {};
    }
    filter_.count(document.text());
    return {};
  }

 private:
  const CleanOptions& options_;
  std::vector<std::unique_ptr<Step>> steps_;
  EnglishWords words_;
  NgramFilter filter_;
  std::string_view json_, text_;
  size_t values_ = 0;  // of the document, so far
};

class PartCleaner : public preprocess::TextVisitor {
 public:
  /// ngrams: null where they are not looked for.
  PartCleaner(const CleanOptions& options, const std::vector<StepPlan>& plans, TestNgrams* ngrams,
              SharedState& shared)
      : options_(options), shared_(shared) {
    for (const StepPlan& plan : plans) steps_.push_back(plan.make());
    counts_.resize(plans.size() + (ngrams != nullptr ? 1 : 0));
    if (ngrams != nullptr) ngram_filter_.emplace(*ngrams, *options.decontaminate);
  }

  void begin_part(int64_t /*number*/) override {
    out_.clear();
    kept_.clear();
    signatures_.clear();
    std::fill(counts_.begin(), counts_.end(), StepCounts());
  }

  Status begin_document(std::string_view json, bool has_list) override {
    json_ = json;
    values_.clear();
    return check_is_text(has_list);
  }

  Status visit(std::string_view text) override {
    values_.push_back(text);
    return values_.size() == options_.json_keys.size() ? clean_document() : Status();
  }

  Result<bool> settle() override {
    CleanSummary& summary = shared_.summary;
    for (size_t i = 0; i < counts_.size(); ++i) add(summary.steps[i], counts_[i]);
    MEG_RETURN_IF_ERROR(find_duplicates());
    // Those that are held come after those that stay.
    const auto is_held = [](const Kept& document) { return document.is_held; };
    const auto first_held = std::find_if(kept_.begin(), kept_.end(), is_held);
    int64_t stay = first_held - kept_.begin();
    const bool is_enough = options_.max_documents && stay >= *options_.max_documents - summary.kept;
    if (is_enough) {
      shared_.held -= kept_.end() - first_held;
      stay = *options_.max_documents - summary.kept;
      kept_.resize(static_cast<size_t>(stay));
    }
    for (int64_t i = 0; i < stay; ++i) {
      summary.kept_text_bytes += kept_[static_cast<size_t>(i)].text_bytes;
    }
    summary.kept += stay;
    return !is_enough;
  }

  Status pack() override {
    std::string ready;
    held_.clear();
    for (const Kept& document : kept_) {
      const std::string_view line = std::string_view(out_).substr(document.begin, document.size);
      if (document.is_held)
        append_held(document.text_bytes, line);
      else
        ready.append(line);
    }
    out_ = std::move(ready);
    if (out_.empty()) return {};
    MEG_ASSIGN_OR_RETURN(out_, packed(std::move(out_), shared_.packing));
    return {};
  }

  Status write() override {
    shared_.summary.output_bytes += std::ssize(out_);
    MEG_RETURN_IF_ERROR(shared_.file.write(std::as_bytes(std::span(out_))));
    shared_.held_bytes += std::ssize(held_);
    return held_.empty() ? Status() : shared_.held_file.write(std::as_bytes(std::span(held_)));
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
        count_removed(counts, bytes, reason);
        return {};
      }
      counts.removed_bytes += bytes - std::ssize(document.text());
      counts.changed += document.take_news() ? 1 : 0;
    }
    MEG_RETURN_IF_ERROR(check_is_line(document));
    ngram_filter_ ? decontaminate(document) : keep(document);
    return {};
  }

  Status check_is_line(const Document& document) const {
    if (!is_txt(options_.output) ||
        document.text().find_first_of("\r\n") == std::string_view::npos) {
      return {};
    }
    return make_error(StatusCode::kInvalidArgument,
                      "{}: expected texts of one line, found {}: write .jsonl", options_.output,
                      text::printable(document.text()));
  }

  static void count_removed(StepCounts& counts, int64_t bytes, std::string_view reason) {
    ++counts.removed;
    counts.removed_bytes += bytes;
    ++counts.reasons[std::string(reason)];
  }

  void decontaminate(Document& document) {
    StepCounts& counts = counts_[steps_.size()];
    const DecontaminateOptions& options = *options_.decontaminate;
    const auto bytes = std::ssize(document.text());
    ++counts.documents;
    counts.bytes += bytes;
    const std::vector<std::string_view>& parts = ngram_filter_->cut(document.text());
    const bool is_whole = parts.size() == 1 && parts.front().size() == document.text().size();
    if (is_whole) return keep(document);
    if (options.contaminated == Contaminated::kDrop) {
      return count_removed(counts, bytes, "contaminated");
    }
    if (parts.empty()) return count_removed(counts, bytes, "nothing_left");
    if (std::ssize(parts) > options.splits_count) {
      return count_removed(counts, bytes, "too_many_parts");
    }
    ++counts.changed;
    counts.removed_bytes += bytes;
    for (const std::string_view part : parts) {
      counts.removed_bytes -= std::ssize(part);
      document.change_text(part);
      keep(document);
    }
  }

  /// Adds the document to the part's output.
  void keep(const Document& document) {
    Kept kept{.begin = out_.size(),
              .text_bytes = std::ssize(document.text()),
              .digest = std::nullopt,
              .signature = std::nullopt};
    if (options_.exact_duplicates) kept.digest = digest_of(document);
    if (options_.near_duplicates) {
      std::array<uint64_t, kHashes> signature;
      if (hasher_.sign(document.text(), signature)) {
        kept.signature = signatures_.size();
        signatures_.push_back(signature);
      }
    }
    append_line(document);
    kept.size = out_.size() - kept.begin;
    kept_.push_back(kept);
  }

  /// Of what duplicates are compared by; none where the document has no such key.
  std::optional<TextDigest> digest_of(const Document& document) {
    if (options_.duplicates_by.empty()) return text_digest(document.text());
    const std::string_view value = text::find_json_value(json_, options_.duplicates_by);
    if (value.empty()) return std::nullopt;
    if (value.front() == '"') return text_digest(text::json_string_text(value, buffer_));
    TextDigest digest = text_digest(value);
    digest.low = ~digest.low;  // 5 is not "5".
    return digest;
  }

  void append_line(const Document& document) {
    if (is_txt(options_.output)) {
      out_.append(document.text());
    } else if (json_.empty()) {
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

  void append_held(int64_t text_bytes, std::string_view line) {
    const HeldHeader header{.size = line.size(), .text_bytes = text_bytes};
    held_.append(reinterpret_cast<const char*>(&header), sizeof(header)).append(line);
  }

  Status find_duplicates() {
    if (!shared_.exact && !shared_.near) return {};
    std::vector<Kept> kept;
    for (Kept& document : kept_) {
      if (shared_.exact) {
        StepCounts& counts = *shared_.exact_counts;
        ++counts.documents;
        counts.bytes += document.text_bytes;
        auto answer = ExactDuplicates::Answer::kNew;
        if (document.digest) {
          MEG_ASSIGN_OR_RETURN(answer, shared_.exact->add(shared_.held, *document.digest));
        }
        if (answer == ExactDuplicates::Answer::kRepeated) {
          ++counts.removed;
          counts.removed_bytes += document.text_bytes;
          continue;
        }
        // What follows an undecided one waits for it.
        document.is_held = shared_.exact->is_undecided();
      }
      if (shared_.near) {
        document.is_held = true;
        if (document.signature) {
          MEG_RETURN_IF_ERROR(shared_.near->add(shared_.held, document.text_bytes,
                                                signatures_[*document.signature]));
        }
      }
      if (document.is_held) MEG_RETURN_IF_ERROR(hold());
      kept.push_back(document);
    }
    kept_ = std::move(kept);
    return {};
  }

  Status hold() {
    if (shared_.held++ > 0) return {};
    MEG_ASSIGN_OR_RETURN(shared_.held_file,
                         io::AtomicFile::create_regular(options_.output + ".held"));
    return {};
  }

  const CleanOptions& options_;
  SharedState& shared_;
  std::vector<std::unique_ptr<Step>> steps_;
  std::optional<NgramFilter> ngram_filter_;
  EnglishWords words_;
  MinHasher hasher_;
  std::string buffer_;

  std::string_view json_;                 // of the document
  std::vector<std::string_view> values_;  // of its keys

  // Of the part.
  std::string out_, held_;
  std::vector<Kept> kept_;
  std::vector<std::array<uint64_t, kHashes>> signatures_;
  std::vector<StepCounts> counts_;
};

/// Reads the documents that are held, one after another.
class HeldDocuments {
 public:
  HeldDocuments(const io::AtomicFile& file, int64_t bytes) : file_(file), bytes_(bytes) {}

  /// line: valid until the next call.
  Status next(HeldHeader& header, std::string_view& line) {
    MEG_ASSIGN_OR_RETURN(std::string_view bytes, take(sizeof(header)));
    std::memcpy(&header, bytes.data(), sizeof(header));
    MEG_ASSIGN_OR_RETURN(line, take(header.size));
    return {};
  }

 private:
  Result<std::string_view> take(size_t size) {
    if (buffer_.size() - at_ < size) {
      buffer_.erase(0, at_);
      at_ = 0;
      const size_t have = buffer_.size();
      const auto left = static_cast<size_t>(bytes_ - offset_);
      if (left < size - have) {
        return make_error(StatusCode::kCorruption, "{}: ends in a document", file_.path());
      }
      buffer_.resize(std::min(std::max(size, kBufferBytes), have + left));
      const auto into = std::span(buffer_).subspan(have);
      MEG_ASSIGN_OR_RETURN(const size_t read, file_.read_at(offset_, std::as_writable_bytes(into)));
      if (read != into.size()) {
        return make_error(StatusCode::kCorruption, "{}: expected {} bytes, found {}", file_.path(),
                          into.size(), read);
      }
      offset_ += static_cast<int64_t>(read);
    }
    const std::string_view taken = std::string_view(buffer_).substr(at_, size);
    at_ += size;
    return taken;
  }

  static constexpr size_t kBufferBytes = size_t{4} << 20;

  const io::AtomicFile& file_;
  int64_t bytes_;
  int64_t offset_ = 0;  // of what was read
  std::string buffer_;
  size_t at_ = 0;
};

/// Decides which of the documents that are held stay, and writes those.
class Release {
 public:
  Release(const CleanOptions& options, SharedState& shared, const ProgressCallback& progress)
      : options_(options), shared_(shared), progress_(progress), pool_(options.workers) {}

  Status run() {
    const auto held = static_cast<size_t>(shared_.held);
    std::vector<bool> repeated(held), removed(held);
    if (shared_.exact) MEG_RETURN_IF_ERROR(shared_.exact->find(repeated));
    if (shared_.near) {
      MEG_ASSIGN_OR_RETURN(NearDuplicates::Clusters clusters,
                           shared_.near->find(shared_.held, repeated, options_.workers));
      removed = std::move(clusters.removed);
      shared_.summary.clusters = clusters.clusters;
      shared_.summary.largest_clusters = std::move(clusters.largest);
    }
    HeldDocuments documents(shared_.held_file, shared_.held_bytes);
    HeldHeader header{};
    std::string_view line;
    CleanSummary& summary = shared_.summary;
    for (size_t i = 0; i < held; ++i) {
      MEG_RETURN_IF_ERROR(documents.next(header, line));
      if (repeated[i]) {
        remove(*shared_.exact_counts, header);
        continue;
      }
      if (shared_.near) {
        ++shared_.near_counts->documents;
        shared_.near_counts->bytes += header.text_bytes;
      }
      if (removed[i]) {
        remove(*shared_.near_counts, header);
        continue;
      }
      if (options_.max_documents && summary.kept == *options_.max_documents) continue;
      ++summary.kept;
      summary.kept_text_bytes += header.text_bytes;
      MEG_RETURN_IF_ERROR(append(line));
    }
    return write();
  }

 private:
  static constexpr size_t kBlockBytes = size_t{1} << 20;

  static void remove(StepCounts& counts, const HeldHeader& header) {
    ++counts.removed;
    counts.removed_bytes += header.text_bytes;
  }

  Status append(std::string_view line) {
    if (blocks_.empty() || blocks_.back().size() >= kBlockBytes) {
      if (std::ssize(blocks_) == options_.workers) MEG_RETURN_IF_ERROR(write());
      blocks_.emplace_back();
    }
    blocks_.back().append(line);
    return {};
  }

  Status write() {
    std::vector<Status> statuses(blocks_.size());
    for (size_t i = 0; i < blocks_.size(); ++i) {
      pool_.submit([this, &statuses, i] {
        Result<std::string> block = packed(std::move(blocks_[i]), shared_.packing);
        statuses[i] = block.status();
        if (block.has_value()) blocks_[i] = std::move(*block);
      });
    }
    pool_.wait();
    for (size_t i = 0; i < blocks_.size(); ++i) {
      MEG_RETURN_IF_ERROR(statuses[i]);
      MEG_RETURN_IF_ERROR(shared_.file.write(std::as_bytes(std::span(blocks_[i]))));
      shared_.summary.output_bytes += std::ssize(blocks_[i]);
    }
    blocks_.clear();
    const Progress now{.documents = shared_.summary.kept, .counted = "docs"};
    if (!progress_ || progress_(now)) return {};
    return Status(StatusCode::kCancelled, "interrupted");
  }

  const CleanOptions& options_;
  SharedState& shared_;
  const ProgressCallback& progress_;
  ThreadPool pool_;
  std::vector<std::string> blocks_;
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
  if (options.memory < kLeastMemory) {
    return make_error(StatusCode::kInvalidArgument,
                      "`memory`: expected at least 1MiB, found {} bytes", options.memory);
  }
  if (options.max_documents && *options.max_documents < 1) {
    return Status(StatusCode::kInvalidArgument, "`max_documents`: expected at least 1");
  }
  return preprocess::check_outputs(options.inputs, {options.output});
}

Status check_can_be_read_twice(const std::vector<std::string>& inputs) {
  for (const std::string& input : inputs) {
    std::error_code missing;
    const auto status = std::filesystem::status(input, missing);
    const bool is_stream = std::filesystem::exists(status) &&
                           !std::filesystem::is_regular_file(status) &&
                           !std::filesystem::is_directory(status);
    if (input != io::kStandardInput && !is_stream) continue;
    return make_error(StatusCode::kUnsupported,
                      "{}: `key_threshold`: expected files, which are read twice, found a pipe; 0 "
                      "reads them once",
                      input);
  }
  return {};
}

preprocess::ReadTextsOptions reading_of(const CleanOptions& options, bool in_order) {
  return {.inputs = options.inputs,
          .input = options.input,
          .max_documents = std::nullopt,
          .json_keys = options.json_keys,
          .on_error = options.on_error,
          .chunk_bytes = options.chunk_bytes,
          .in_order = in_order};
}

/// The n-grams of the test sets that documents are compared with. Reads all documents.
Result<std::optional<TestNgrams>> read_ngrams(const CleanOptions& options,
                                              const std::vector<StepPlan>& plans,
                                              const ProgressCallback& progress) {
  if (!options.decontaminate) return std::optional<TestNgrams>();
  const int64_t threshold = options.decontaminate->key_threshold;
  if (threshold > 0) MEG_RETURN_IF_ERROR(check_can_be_read_twice(options.inputs));
  MEG_ASSIGN_OR_RETURN(TestNgrams ngrams, TestNgrams::read(*options.decontaminate));
  if (threshold > 0) {
    std::vector<NgramCounter> counters;
    counters.reserve(static_cast<size_t>(options.workers));  // Their addresses are handed out.
    std::vector<preprocess::TextVisitor*> visitors;
    for (int i = 0; i < options.workers; ++i) {
      visitors.push_back(&counters.emplace_back(options, plans, ngrams));
    }
    const auto read = preprocess::read_texts(reading_of(options, false), visitors, progress);
    MEG_RETURN_IF_ERROR(read.status());
    ngrams.remove_frequent(threshold);
  }
  return std::optional<TestNgrams>(std::move(ngrams));
}

}  // namespace

Result<CleanSummary> clean(const CleanOptions& options, const ProgressCallback& progress) {
  MEG_RETURN_IF_ERROR(check_options(options));
  MEG_ASSIGN_OR_RETURN(const std::vector<StepPlan> plans, plan_steps(options));
  MEG_ASSIGN_OR_RETURN(std::optional<TestNgrams> ngrams, read_ngrams(options, plans, progress));
  SharedState shared;
  std::vector<StepCounts>& steps = shared.summary.steps;
  for (const StepPlan& plan : plans) steps.push_back({.name = plan.name, .reasons = {}});
  if (options.decontaminate) steps.push_back({.name = "decontaminate", .reasons = {}});
  const size_t own_steps = steps.size();  // that need no other document
  const auto memory = static_cast<size_t>(options.memory / 2);
  if (options.exact_duplicates) {
    steps.push_back({.name = "exact_duplicates", .reasons = {}});
    shared.exact.emplace(options.output, memory);
  }
  if (options.near_duplicates) {
    steps.push_back({.name = "near_duplicates", .reasons = {}});
    shared.near.emplace(options.output, memory, options.kept_duplicate);
    shared.near_counts = &steps.back();
  }
  if (options.exact_duplicates) shared.exact_counts = &steps[own_steps];
  shared.packing = packing_of(options.output);
  MEG_ASSIGN_OR_RETURN(shared.file, io::AtomicFile::create(options.output));

  std::vector<PartCleaner> cleaners;
  cleaners.reserve(static_cast<size_t>(options.workers));  // Their addresses are handed out.
  std::vector<preprocess::TextVisitor*> visitors;
  for (int i = 0; i < options.workers; ++i) {
    visitors.push_back(&cleaners.emplace_back(options, plans, ngrams ? &*ngrams : nullptr, shared));
  }
  MEG_ASSIGN_OR_RETURN(const preprocess::ReadTextsSummary texts,
                       preprocess::read_texts(reading_of(options, true), visitors, progress));
  if (shared.held > 0) MEG_RETURN_IF_ERROR(Release(options, shared, progress).run());
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
