#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/io/atomic_file.h"

namespace meg::tokenizer {

/// A word and how often it was met.
struct CountedWord {
  std::string_view word;
  int64_t count = 0;
};

/// Counted words in ascending order, each once: short words (below kLongWord bytes) before long
/// ones, both by their bytes.
class WordRun {
 public:
  virtual ~WordRun() = default;

  /// The next word, valid until the next call; nullopt at the end.
  virtual Result<std::optional<CountedWord>> next() = 0;
};

/// From this length on a word is a long one.
inline constexpr size_t kLongWord = 16;

/// Whether `a` comes before `b` in a run.
bool comes_before(std::string_view a, std::string_view b);

/// Passes the words of all runs to `take`, in order, each once with the sum of its counts.
Status merge_runs(const std::vector<WordRun*>& runs,
                  const std::function<Status(const CountedWord&)>& take);

/// Runs that no memory is left for, in one file that is removed in the end.
class SpilledRuns {
 public:
  /// path: of the file, which is made with the first run.
  explicit SpilledRuns(std::string path) : path_(std::move(path)) {}

  /// Writes a run; safe to call from several threads.
  Status write(WordRun& run);

  /// What was written, each from its begin. They must not outlive this.
  std::vector<std::unique_ptr<WordRun>> runs() const;

  int64_t bytes() const { return end_; }

 private:
  struct Range {
    int64_t begin;
    int64_t end;
  };

  Status create();

  const std::string path_;
  std::mutex mutex_;  // guards all below while there are writers
  std::optional<io::AtomicFile> file_;
  std::vector<Range> ranges_;
  int64_t end_ = 0;
};

}  // namespace meg::tokenizer
