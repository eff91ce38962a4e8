#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "libmeg/cleaning/internal/quality/quality_rules.h"
#include "libmeg/cleaning/internal/quality/quality_text.h"
#include "libmeg/cleaning/internal/quality/word_runs.h"
#include "libmeg/text/python_text.h"

namespace meg::cleaning {
namespace {

class GopherRepetition : public Step {
 public:
  Result<std::string_view> run(Document& document) override {
    const std::string_view text = document.text();
    if (text.empty()) return std::string_view("empty");
    const int64_t characters = count_characters(text);
    split_at_newlines(text::python_strip(text), 2, parts_);
    Repeated repeated = count_repeated(parts_, counts_);
    if (ratio(repeated.count, std::ssize(parts_)) > 0.3) return std::string_view("dup_para_frac");
    if (ratio(repeated.characters, characters) > 0.2) return std::string_view("dup_para_char_frac");
    split_at_newlines(text, 1, parts_);
    repeated = count_repeated(parts_, counts_);
    if (ratio(repeated.count, std::ssize(parts_)) > 0.3) return std::string_view("dup_line_frac");
    if (ratio(repeated.characters, characters) > 0.2) return std::string_view("dup_line_char_frac");

    constexpr struct {
      size_t words;
      double most;
      std::string_view reason;
    } kTop[] = {{2, 0.2, "top_2_gram"}, {3, 0.18, "top_3_gram"}, {4, 0.16, "top_4_gram"}},
      kRepeated[] = {{5, 0.15, "duplicated_5_n_grams"}, {6, 0.14, "duplicated_6_n_grams"},
                     {7, 0.13, "duplicated_7_n_grams"}, {8, 0.12, "duplicated_8_n_grams"},
                     {9, 0.11, "duplicated_9_n_grams"}, {10, 0.10, "duplicated_10_n_grams"}};

    runs_.set(document, true);
    int64_t most = runs_.words();
    for (const auto& rule : kTop) {
      // A run occurs no more often than a shorter one in it.
      if (ratio(most * runs_.most_characters(rule.words), characters) <= rule.most) continue;
      if (ratio(bound_most_frequent(rule.words, most), characters) <= rule.most) continue;
      if (ratio(most_frequent(rule.words, most), characters) > rule.most) return rule.reason;
    }
    runs_.set(document, false);
    find_repeated_beginnings(kRepeated[0].words);
    for (const auto& rule : kRepeated) {
      if (ratio(repeated_runs(rule.words), characters) > rule.most) return rule.reason;
    }
    return std::string_view();
  }

 private:
  /// At least what most_frequent() answers, as of runs with equal keys. occurrences: lowered to at
  /// least how often a run of `words` words occurs.
  int64_t bound_most_frequent(size_t words, int64_t& occurrences) {
    if (runs_.words() < words) return 0;
    const size_t count = runs_.words() - words + 1;
    const int bits = std::clamp(static_cast<int>(std::bit_width(count)), 6, 16);
    occurrences_.assign(size_t{1} << bits, 0);
    keys_.resize(count);
    for (size_t i = 0; i < count; ++i) {
      keys_[i] = runs_.key(i, words) >> (64 - bits);
      ++occurrences_[keys_[i]];
    }
    int64_t most = 0, bound = 0;
    for (size_t i = 0; i < count; ++i) {
      const int64_t occurs = occurrences_[keys_[i]];
      most = std::max(most, occurs);
      bound = std::max(bound, occurs * runs_.characters(i, words));
    }
    occurrences = std::min(occurrences, most);
    return bound;
  }

  /// Characters of the run of `words` words that occurs most often, the first such one, times how
  /// often that is. occurrences: receives that number.
  int64_t most_frequent(size_t words, int64_t& occurrences) {
    counts_.restart(runs_.words());
    uint32_t most = 0, first = 0;
    for (size_t i = 0; i + words <= runs_.words(); ++i) {
      const DigestCounts::Slot& slot = counts_.add(runs_.run(i, words), i);
      if (slot.count < most || (slot.count == most && slot.first > first)) continue;
      most = slot.count;
      first = slot.first;
    }
    occurrences = most;
    return most == 0 ? 0 : most * runs_.characters(first, words);
  }

  /// Finds the words at which runs of `fewest` words or more can begin that occur twice: all that
  /// are not the only ones with the same bytes after them, and those of shorter runs.
  void find_repeated_beginnings(size_t fewest) {
    candidates_.clear();
    if (runs_.words() < fewest) return;
    const size_t count = runs_.words() - fewest + 1;
    // Two bits for each key: whether it was seen, and whether it was again.
    const int bits = std::clamp(static_cast<int>(std::bit_width(count)) + 3, 10, 26);
    seen_.assign(size_t{2} << bits, false);
    keys_.resize(count);
    for (size_t i = 0; i < count; ++i) {
      keys_[i] = 2 * (runs_.beginning_key(i) >> (64 - bits));
      if (seen_[keys_[i]]) seen_[keys_[i] + 1] = true;
      seen_[keys_[i]] = true;
    }
    constexpr size_t kBeginning = 2 * kLoadedBytes;
    for (size_t i = 0; i < count; ++i) {
      if (seen_[keys_[i] + 1] || runs_.run(i, fewest).size() < kBeginning) candidates_.push_back(i);
    }
  }

  /// Characters of runs of `words` words that occurred before, which do not overlap.
  int64_t repeated_runs(size_t words) {
    counts_.restart(candidates_.size());
    int64_t characters = 0;
    size_t next = 0;
    for (const size_t i : candidates_) {
      if (i + words > runs_.words()) break;
      if (i < next || counts_.add(runs_.run(i, words), i).count == 1) continue;
      characters += runs_.characters(i, words);
      next = i + words;
    }
    return characters;
  }

  std::vector<std::string_view> parts_;
  DigestCounts counts_;
  WordRuns runs_;
  std::vector<size_t> candidates_;  // words
  std::vector<uint64_t> keys_;
  std::vector<uint32_t> occurrences_;  // by key
  std::vector<bool> seen_;
};

}  // namespace

std::unique_ptr<Step> make_gopher_repetition() { return std::make_unique<GopherRepetition>(); }

}  // namespace meg::cleaning
