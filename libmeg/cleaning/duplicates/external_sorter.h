#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/io/atomic_file.h"

namespace meg::cleaning {

/// Sorts records in bounded memory: what does not fit goes to a temporary file in sorted runs,
/// which are merged when they are read. Record: trivially copyable, with operator<.
template <class Record>
class ExternalSorter {
 public:
  static_assert(std::is_trivially_copyable_v<Record>);

  /// path: of the temporary file, which is only made if it is needed. bytes: of memory.
  ExternalSorter(std::string path, size_t bytes)
      : path_(std::move(path)), capacity_(std::max<size_t>(bytes / sizeof(Record), 1024)) {}

  Status add(const Record& record) {
    if (records_.size() >= capacity_) MEG_RETURN_IF_ERROR(spill());
    records_.push_back(record);
    return {};
  }

  /// Sorts what remains; next() may be called then.
  Status finish() {
    if (run_ends_.empty()) {
      std::sort(records_.begin(), records_.end());
      return {};
    }
    if (!records_.empty()) MEG_RETURN_IF_ERROR(spill());
    // The memory becomes the runs' buffers.
    const size_t share = std::max<size_t>(capacity_ / run_ends_.size(), 1);
    int64_t begin = 0;
    for (const int64_t end : run_ends_) {
      runs_.push_back({.next = begin, .end = end, .records = std::vector<Record>(share)});
      begin = end;
    }
    std::vector<Record>().swap(records_);
    for (size_t i = 0; i < runs_.size(); ++i) MEG_RETURN_IF_ERROR(advance(i));
    return {};
  }

  /// The records in order; false at the end.
  Result<bool> next(Record& record) {
    if (runs_.empty()) {
      if (taken_ == records_.size()) return false;
      record = records_[taken_++];
      return true;
    }
    if (heads_.empty()) return false;
    const Head head = heads_.top();
    heads_.pop();
    record = head.record;
    MEG_RETURN_IF_ERROR(advance(head.run));
    return true;
  }

 private:
  struct Run {
    int64_t next = 0, end = 0;  // records in the file
    std::vector<Record> records;
    size_t at = 0, size = 0;  // of records
  };

  struct Head {
    Record record;
    size_t run;

    bool operator<(const Head& other) const { return other.record < record; }  // the least on top
  };

  Status spill() {
    if (run_ends_.empty()) {
      MEG_ASSIGN_OR_RETURN(file_, io::AtomicFile::create_regular(path_));
    }
    std::sort(records_.begin(), records_.end());
    MEG_RETURN_IF_ERROR(file_.write(std::as_bytes(std::span(records_))));
    run_ends_.push_back((run_ends_.empty() ? 0 : run_ends_.back()) + std::ssize(records_));
    records_.clear();
    return {};
  }

  /// Puts the run's next record among the heads.
  Status advance(size_t index) {
    Run& run = runs_[index];
    if (run.at == run.size) {
      const int64_t count = std::min(std::ssize(run.records), run.end - run.next);
      if (count == 0) return {};
      constexpr auto kSize = static_cast<int64_t>(sizeof(Record));
      const auto into = std::span(run.records).first(static_cast<size_t>(count));
      MEG_ASSIGN_OR_RETURN(const size_t read,
                           file_.read_at(run.next * kSize, std::as_writable_bytes(into)));
      if (read != into.size_bytes()) {
        return make_error(StatusCode::kCorruption, "{}: expected {} bytes, found {}", path_,
                          into.size_bytes(), read);
      }
      run.next += count;
      run.at = 0;
      run.size = static_cast<size_t>(count);
    }
    heads_.push({run.records[run.at++], index});
    return {};
  }

  std::string path_;
  size_t capacity_;  // records
  io::AtomicFile file_;
  std::vector<Record> records_;
  size_t taken_ = 0;
  std::vector<int64_t> run_ends_;  // records in the file
  std::vector<Run> runs_;
  std::priority_queue<Head> heads_;
};

}  // namespace meg::cleaning
