#include "libmeg/cleaning/internal/part_cleaner.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "libmeg/cleaning/duplicates/min_hash.h"
#include "libmeg/cleaning/internal/text_pieces.h"
#include "libmeg/text/json/json_object.h"
#include "libmeg/text/printable.h"

namespace meg::cleaning {
namespace {

/// A document that passed the steps.
struct Kept {
  size_t begin = 0;  ///< Of its line in the part's output.
  size_t size = 0;
  int64_t text_bytes = 0;
  std::optional<TextDigest> digest;
  std::optional<size_t> signature;                              ///< Its place among the part's.
  double key_value = std::numeric_limits<double>::quiet_NaN();  ///< Of kept_duplicate_key.
  size_t first_shingle = 0, shingles = 0;                       ///< Among the part's.
  size_t split = 0;
  size_t first_piece = 0, pieces = 0;  ///< Among the part's.
  int64_t kept_pieces = 0;             ///< That are not blank.
  bool is_cut = false;                 ///< Pieces of the text go.
  int64_t number = 0;                  ///< Among those that are written, from 1.
  bool is_held = false;                ///< Whether it stays is decided at the end.
  dataset::DocumentPlace place;
};

void add(StepCounts& to, const StepCounts& counts, const CleanOptions& options) {
  to.documents += counts.documents;
  to.bytes += counts.bytes;
  to.removed += counts.removed;
  to.changed += counts.changed;
  to.removed_bytes += counts.removed_bytes;
  for (const auto& [reason, count] : counts.reasons) to.reasons[reason] += count;
  for (const RemovedSample& sample : counts.samples) {
    SharedState::add_sample(to, sample.reason, sample.text, options);
  }
}

class PartCleaner : public preprocess::TextVisitor {
 public:
  /// ngrams: null where they are not looked for.
  PartCleaner(const CleanOptions& options, const std::vector<StepPlan>& plans, TestNgrams* ngrams,
              SharedState& shared)
      : options_(options), shared_(shared), editor_(options), packer_(options) {
    for (const StepPlan& plan : plans) steps_.push_back(plan.make());
    counts_.resize(plans.size() + (ngrams != nullptr ? 1 : 0));
    if (ngrams != nullptr) ngram_filter_.emplace(*ngrams, *options.decontaminate);
  }

  void begin_part(int64_t /*number*/) override {
    out_.clear();
    kept_.clear();
    signatures_.clear();
    shingles_.clear();
    pieces_.clear();
    lengths_ = {};
    languages_.clear();
    std::fill(counts_.begin(), counts_.end(), StepCounts());
  }

  Status begin_document(std::string_view json, bool has_list,
                        const dataset::DocumentPlace& place) override {
    json_ = json;
    place_ = place;
    values_.clear();
    return check_is_text(has_list);
  }

  Status visit(std::string_view text) override {
    values_.push_back(text);
    return values_.size() == options_.json_keys.size() ? clean_document() : Status();
  }

  Result<bool> settle() override {
    CleanSummary& summary = shared_.summary;
    for (size_t i = 0; i < counts_.size(); ++i) add(summary.steps[i], counts_[i], options_);
    for (size_t i = 0; i < lengths_.size(); ++i) summary.lengths_read[i] += lengths_[i];
    for (const auto& [language, count] : languages_) summary.languages[language] += count;
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
      Kept& document = kept_[static_cast<size_t>(i)];
      shared_.count_kept(document.split, document.text_bytes);
      document.number = summary.kept;
    }
    if (!is_enough && shared_.journal && shared_.journal->is_due()) {
      MEG_ASSIGN_OR_RETURN(checkpoint_, shared_.begin_checkpoint());
    }
    return !is_enough;
  }

  Status pack() override {
    ready_.assign(shared_.outputs.size(), {});
    held_.clear();
    for (const Kept& document : kept_) {
      std::string_view line = std::string_view(out_).substr(document.begin, document.size);
      if (document.is_cut) line = cut_line(document, line);
      if (!document.is_held) ready_[document.split].places.push_back(document.place);
      if (document.is_held) {
        append_held(document, line);
      } else if (options_.id_prefix) {
        editor_.append_with_id(line, document.number, ready_[document.split].bytes);
      } else {
        ready_[document.split].bytes.append(line);
      }
    }
    for (size_t output = 0; output < ready_.size(); ++output) {
      ready_[output].output = output;
      if (!ready_[output].bytes.empty()) MEG_RETURN_IF_ERROR(packer_.pack(ready_[output]));
    }
    return {};
  }

  Status write(const preprocess::ReadPosition& end) override {
    for (const OutputBlock& block : ready_) {
      if (!block.places.empty()) MEG_RETURN_IF_ERROR(shared_.write(block));
    }
    if (!held_.empty()) MEG_RETURN_IF_ERROR(shared_.write_held(held_));
    return checkpoint_ ? shared_.write_checkpoint(end, *checkpoint_) : Status();
  }

  Status end_part() override {
    return checkpoint_ ? shared_.save_checkpoint(*std::exchange(checkpoint_, {})) : Status();
  }

 private:
  Status clean_document() {
    Document document(json_, values_.front(), words_);
    ++lengths_[length_class(std::ssize(document.text()))];
    for (size_t i = 0; i < steps_.size(); ++i) {
      StepCounts& counts = counts_[i];
      const auto bytes = std::ssize(document.text());
      ++counts.documents;
      counts.bytes += bytes;
      const bool had_language = !document.language().empty();
      MEG_ASSIGN_OR_RETURN(const std::string_view reason, steps_[i]->run(document));
      if (!had_language && !document.language().empty()) {
        ++languages_[std::string(document.language())];
      }
      if (!reason.empty()) {
        count_removed(counts, document.text(), reason);
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
    if (!is_txt(options_) || document.text().find_first_of("\r\n") == std::string_view::npos) {
      return {};
    }
    return make_error(StatusCode::kInvalidArgument,
                      "{}: expected texts of one line, found {}: write .jsonl", options_.output,
                      text::printable(document.text()));
  }

  void count_removed(StepCounts& counts, std::string_view text, std::string_view reason) {
    ++counts.removed;
    counts.removed_bytes += std::ssize(text);
    ++counts.reasons[std::string(reason)];
    SharedState::add_sample(counts, reason, text, options_);
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
      return count_removed(counts, document.text(), "contaminated");
    }
    if (parts.empty()) return count_removed(counts, document.text(), "nothing_left");
    if (std::ssize(parts) > options.splits_count) {
      return count_removed(counts, document.text(), "too_many_parts");
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
              .signature = std::nullopt,
              .place = place_};
    if (options_.duplicate_unit != DuplicateUnit::kDocument) {
      kept.first_piece = pieces_.size();
      split_text(document.text(), options_.duplicate_unit, pieces_);
      kept.pieces = pieces_.size() - kept.first_piece;
    } else if (options_.exact_duplicates) {
      kept.digest = digest_of(document);
    }
    if (options_.near_duplicates) {
      std::array<uint64_t, kHashes> signature;
      if (hasher_.sign(document.text(), signature)) {
        kept.signature = signatures_.size();
        signatures_.push_back(signature);
        if (options_.verify_jaccard) {
          const std::span<const uint64_t> shingles = hasher_.distinct_shingles();
          kept.first_shingle = shingles_.size();
          kept.shingles = shingles.size();
          shingles_.insert(shingles_.end(), shingles.begin(), shingles.end());
        }
        if (!options_.kept_duplicate_key.empty()) kept.key_value = key_value();
      }
    }
    if (!options_.splits.empty()) kept.split = split_of(document);
    append_line(document);
    kept.size = out_.size() - kept.begin;
    kept_.push_back(kept);
  }

  size_t split_of(const Document& document) {
    const std::string_view value =
        value_to_hash(document.json(), document.text(), options_, buffer_);
    const double drawn = drawn_numbers(value, options_.seed).high;
    double end = 0;
    for (size_t i = 0; i + 1 < options_.splits.size(); ++i) {
      end += options_.splits[i].share;
      if (drawn < end) return i;
    }
    return options_.splits.size() - 1;
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

  /// The number at the key that decides which near duplicate stays; NaN where there is none.
  double key_value() const {
    const std::string_view value = text::find_json_value(json_, options_.kept_duplicate_key);
    double number = 0;
    const auto parsed = std::from_chars(value.data(), value.data() + value.size(), number);
    const bool is_number = parsed.ec == std::errc() && parsed.ptr == value.data() + value.size();
    return is_number ? number : std::numeric_limits<double>::quiet_NaN();
  }

  void append_line(const Document& document) {
    if (is_txt(options_)) {
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

  void append_held(const Kept& document, std::string_view line) {
    const HeldHeader header{.size = line.size(),
                            .text_bytes = document.text_bytes,
                            .split = document.split,
                            .is_cut = document.is_cut ? 1U : 0U,
                            .place = document.place};
    held_.append(reinterpret_cast<const char*>(&header), sizeof(header)).append(line);
  }

  Status find_duplicates() {
    if (!shared_.exact && !options_.near_duplicates && !options_.shuffle) return {};
    std::vector<Kept> kept;
    for (Kept& document : kept_) {
      if (shared_.exact) {
        StepCounts& counts = *shared_.exact_counts;
        ++counts.documents;
        counts.bytes += document.text_bytes;
        MEG_ASSIGN_OR_RETURN(const bool stays, remove_repeated(document));
        if (!stays) {
          shared_.count_removed(counts, document.text_bytes,
                                std::string_view(out_).substr(document.begin, document.size),
                                options_);
          continue;
        }
        // What follows an undecided one waits for it.
        document.is_held = shared_.exact->is_undecided();
      }
      if (options_.near_duplicates) {
        document.is_held = true;
        if (document.signature) MEG_RETURN_IF_ERROR(add_signature(document));
      }
      document.is_held = document.is_held || options_.shuffle;
      if (document.is_held) {
        shared_.held_pieces += document.kept_pieces;
        MEG_RETURN_IF_ERROR(hold());
      } else if (document.is_cut) {
        ++shared_.exact_counts->changed;
      }
      kept.push_back(document);
    }
    kept_ = std::move(kept);
    return {};
  }

  /// Removes what came before: the document, where the answer is false, or some of its pieces.
  Result<bool> remove_repeated(Kept& document) {
    using Answer = ExactDuplicates::Answer;
    if (document.digest) {
      MEG_ASSIGN_OR_RETURN(const Answer answer, shared_.add_digest(shared_.held, *document.digest));
      return answer != Answer::kRepeated;
    }
    if (!options_.duplicates_by.empty()) {
      ++shared_.exact_counts->without_key;
      return true;
    }
    int64_t removed = 0;
    const auto pieces = std::span(pieces_).subspan(document.first_piece, document.pieces);
    for (TextPiece& piece : pieces) {
      if (piece.is_blank) continue;
      MEG_ASSIGN_OR_RETURN(
          const Answer answer,
          shared_.add_digest(shared_.held_pieces + document.kept_pieces, piece.digest));
      piece.is_removed = answer == Answer::kRepeated;
      ++(piece.is_removed ? removed : document.kept_pieces);
    }
    if (removed == 0) return true;
    shared_.exact_counts->removed_pieces += removed;
    if (document.kept_pieces == 0) return false;
    const int64_t bytes = kept_piece_bytes(pieces);
    shared_.exact_counts->removed_bytes += document.text_bytes - bytes;
    document.text_bytes = bytes;
    document.is_cut = true;
    return true;
  }

  /// Valid until the next call.
  std::string_view cut_line(const Kept& document, std::string_view line) {
    const std::string_view text = editor_.text_of(line);
    buffer_.clear();
    append_kept_pieces(text, std::span(pieces_).subspan(document.first_piece, document.pieces),
                       buffer_);
    line_.clear();
    editor_.append_line(buffer_, line_);
    return line_;
  }

  Status add_signature(const Kept& document) {
    const auto& signature = signatures_[*document.signature];
    const auto shingles = std::span(shingles_).subspan(document.first_shingle, document.shingles);
    const SignedDocument record{
        .document = shared_.held,
        .facts = {.text_bytes = document.text_bytes, .key_value = document.key_value},
        .shingles = shingles.size()};
    if (shared_.journal) {
      MEG_RETURN_IF_ERROR(
          shared_.journal->add(SignatureRecord{.document = record, .signature = signature}));
    }
    if (shared_.near) return shared_.near->add(record, signature, shingles);
    if (shared_.shingles) MEG_RETURN_IF_ERROR(shared_.shingles->add(shingles));
    return shared_.signatures->add(record, signature);
  }

  Status hold() {
    ++shared_.held;
    if (!shared_.held_file.path().empty()) return {};
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
  LineEditor editor_;
  BlockPacker packer_;
  std::string buffer_, line_;

  std::string_view json_;  // of the document
  dataset::DocumentPlace place_;
  std::vector<std::string_view> values_;  // of its keys

  // Of the part.
  std::string out_, held_;
  std::vector<OutputBlock> ready_;  // of each split
  std::vector<Kept> kept_;
  std::vector<std::array<uint64_t, kHashes>> signatures_;
  std::vector<uint64_t> shingles_;
  std::vector<TextPiece> pieces_;
  std::vector<StepCounts> counts_;
  LengthCounts lengths_{};
  std::map<std::string, int64_t> languages_;
  std::optional<CleanCheckpoint> checkpoint_;  // at its end
};

}  // namespace

std::unique_ptr<preprocess::TextVisitor> make_part_cleaner(const CleanOptions& options,
                                                           const std::vector<StepPlan>& plans,
                                                           TestNgrams* ngrams,
                                                           SharedState& shared) {
  return std::make_unique<PartCleaner>(options, plans, ngrams, shared);
}

}  // namespace meg::cleaning
