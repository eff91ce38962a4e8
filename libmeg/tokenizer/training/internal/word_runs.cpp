#include "libmeg/tokenizer/training/internal/word_runs.h"

#include <algorithm>
#include <cstring>
#include <queue>
#include <span>
#include <utility>

// Runs are lists of words with their counts in one order (comes_before). Spilled ones lie one
// after the other in one temporary file, each word after a header of 16 bytes, and are read
// through a buffer: a merge holds one word and one buffer for each run.

namespace meg::tokenizer {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 18;

/// What stands before a word's bytes in the file.
struct Header {
  int64_t count;
  uint64_t length;
};

class FileRun : public WordRun {
 public:
  FileRun(const io::AtomicFile& file, int64_t begin, int64_t end)
      : file_(file), at_(begin), end_(end) {}

  Result<std::optional<CountedWord>> next() override {
    if (used_ == buffer_.size() && at_ == end_) return std::optional<CountedWord>();
    Header header;
    MEG_RETURN_IF_ERROR(fill(sizeof(header)));
    std::memcpy(&header, buffer_.data() + used_, sizeof(header));
    used_ += sizeof(header);
    MEG_RETURN_IF_ERROR(fill(header.length));
    const std::string_view word = std::string_view(buffer_).substr(used_, header.length);
    used_ += header.length;
    return std::optional(CountedWord{word, header.count});
  }

 private:
  /// Sees to it that `count` bytes stand in the buffer.
  Status fill(size_t count) {
    if (buffer_.size() - used_ >= count) return {};
    buffer_.erase(0, std::exchange(used_, 0));
    const size_t kept = buffer_.size();
    const auto left = static_cast<size_t>(end_ - at_);
    const size_t wanted = std::min(std::max(count - kept, kBufferBytes), left);
    buffer_.resize(kept + wanted);
    MEG_ASSIGN_OR_RETURN(
        const size_t found,
        file_.read_at(at_, std::as_writable_bytes(std::span(buffer_).subspan(kept))));
    at_ += static_cast<int64_t>(found);
    if (found == wanted && buffer_.size() >= count) return {};
    return make_error(StatusCode::kCorruption,
                      "{}: expected the word counts that were written, "
                      "found the file's end",
                      file_.path());
  }

  const io::AtomicFile& file_;
  int64_t at_;
  const int64_t end_;
  std::string buffer_;
  size_t used_ = 0;
};

/// A run and its word whose turn it is.
struct Cursor {
  WordRun* run;
  CountedWord current;
};

struct ComesLater {
  bool operator()(const Cursor& a, const Cursor& b) const {
    return comes_before(b.current.word, a.current.word);
  }
};

using Cursors = std::priority_queue<Cursor, std::vector<Cursor>, ComesLater>;

Status advance(WordRun* run, Cursors& cursors) {
  MEG_ASSIGN_OR_RETURN(const std::optional<CountedWord> next, run->next());
  if (next) cursors.push({run, *next});
  return {};
}

void append(std::string& buffer, const CountedWord& word) {
  const Header header{word.count, word.word.size()};
  buffer.append(reinterpret_cast<const char*>(&header), sizeof(header));
  buffer += word.word;
}

}  // namespace

bool comes_before(std::string_view a, std::string_view b) {
  const bool a_is_long = a.size() >= kLongWord;
  const bool b_is_long = b.size() >= kLongWord;
  // Long words are in a table of their own, which is taken after the one of short words.
  return a_is_long != b_is_long ? b_is_long : a < b;
}

Status merge_runs(const std::vector<WordRun*>& runs,
                  const std::function<Status(const CountedWord&)>& take) {
  Cursors cursors;
  for (WordRun* const run : runs) MEG_RETURN_IF_ERROR(advance(run, cursors));
  std::string word;
  while (!cursors.empty()) {
    // A copy: advance() may replace the buffer that the word lies in.
    word = cursors.top().current.word;
    int64_t count = 0;
    while (!cursors.empty() && cursors.top().current.word == word) {
      const Cursor top = cursors.top();
      cursors.pop();
      count += top.current.count;
      MEG_RETURN_IF_ERROR(advance(top.run, cursors));
    }
    MEG_RETURN_IF_ERROR(take({word, count}));
  }
  return {};
}

// Created when the first run comes: most trainings never spill. It is never put in place, so it is
// gone at the end.
Status SpilledRuns::create() {
  MEG_ASSIGN_OR_RETURN(file_, io::AtomicFile::create_regular(path_));
  return {};
}

Status SpilledRuns::write(WordRun& run) {
  // Counters spill from several threads into one file.
  const std::lock_guard lock(mutex_);
  if (!file_) MEG_RETURN_IF_ERROR(create());
  const int64_t begin = end_;
  std::string buffer;
  const auto flush = [&]() -> Status {
    MEG_RETURN_IF_ERROR(file_->write(std::as_bytes(std::span(buffer))));
    end_ += static_cast<int64_t>(buffer.size());
    buffer.clear();
    return {};
  };
  while (true) {
    MEG_ASSIGN_OR_RETURN(const std::optional<CountedWord> word, run.next());
    if (!word) break;
    append(buffer, *word);
    if (buffer.size() >= kBufferBytes) MEG_RETURN_IF_ERROR(flush());
  }
  MEG_RETURN_IF_ERROR(flush());
  ranges_.push_back({begin, end_});
  return {};
}

std::vector<std::unique_ptr<WordRun>> SpilledRuns::runs() const {
  std::vector<std::unique_ptr<WordRun>> runs;
  for (const auto& [begin, end] : ranges_) {
    runs.push_back(std::make_unique<FileRun>(*file_, begin, end));
  }
  return runs;
}

}  // namespace meg::tokenizer
