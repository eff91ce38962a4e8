#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/cleaning/clean.h"

namespace meg::cleaning {

/// The words of a text as Python's re.finditer(r"\w+", text.lower()) finds them.
class LowerWords {
 public:
  void split(std::string_view text);

  size_t size() const { return begins_.size() - 1; }

  /// `count` words from `first` on, with one space between them.
  std::string_view run(size_t first, size_t count) const {
    return std::string_view(joined_).substr(begins_[first],
                                            begins_[first + count] - 1 - begins_[first]);
  }

  /// Characters of the text in lower case before a word.
  int64_t characters_before(size_t word) const;

 private:
  std::string lowered_;
  std::string joined_;          // each word with a space after it
  std::vector<size_t> begins_;  // in joined_, and its end
  std::vector<size_t> places_;  // in lowered_
};

/// The n-grams of test sets.
class TestNgrams {
 public:
  static Result<TestNgrams> read(const DecontaminateOptions& options);

  /// The number of an n-gram; -1 where it is none.
  int64_t find(std::string_view ngram) const;

  /// Whether one may begin with these shortest() words; false of most that none begins with.
  bool may_begin_with(std::string_view words) const;

  /// The sizes that occur, ascending.
  const std::vector<size_t>& sizes() const { return sizes_; }

  size_t shortest() const { return sizes_.empty() ? 0 : sizes_.front(); }

  /// Counts a document that has this n-gram. From any thread.
  void count(int64_t number) { ++counts_[static_cast<size_t>(number)]; }

  /// Ignores those that were counted `threshold` times or more from here on.
  void remove_frequent(int64_t threshold) { threshold_ = threshold; }

 private:
  struct Slot {
    uint64_t digest = 0;
    int64_t number = -1;  // none
  };

  void add(const LowerWords& words, const DecontaminateOptions& options);
  void index();
  void grow();
  size_t slot_of(uint64_t digest, std::string_view ngram) const;

  std::deque<std::string> texts_;
  std::vector<std::string_view> ngrams_;  // by number, in texts_
  std::vector<Slot> slots_;               // a hash table, at most half full
  std::unique_ptr<std::atomic<int64_t>[]> counts_;
  int64_t threshold_ = std::numeric_limits<int64_t>::max();
  std::vector<size_t> sizes_;
  std::vector<uint64_t> beginnings_;  // bits, of digests
};

/// Finds n-grams of test sets in documents. Belongs to one thread. Mirrors Megatron-LM
/// tools/openwebtext/filter_ngrams.py: free_ngram.
class NgramFilter {
 public:
  NgramFilter(TestNgrams& ngrams, const DecontaminateOptions& options)
      : ngrams_(ngrams), options_(options) {}

  /// Counts the document for each n-gram that it has.
  void count(std::string_view text);

  /// The parts of the document that are left: the whole document if it has no n-gram. Views into
  /// it.
  const std::vector<std::string_view>& cut(std::string_view text);

 private:
  struct Match {
    int64_t number = -1;     ///< of the n-gram; -1: none
    int64_t begin = 0;       ///< characters before it
    int64_t characters = 0;  ///< its own
  };

  Match find_first(std::string_view text);
  Match match_at(size_t word, size_t size) const;

  TestNgrams& ngrams_;
  const DecontaminateOptions& options_;
  LowerWords words_;
  std::vector<std::string_view> parts_;
};

}  // namespace meg::cleaning
