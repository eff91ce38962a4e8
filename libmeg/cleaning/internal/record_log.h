#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/io/atomic_file.h"

namespace meg::cleaning {

/// A file of records of one size that outlives its process.
template <class Record>
class RecordLog {
 public:
  static_assert(std::is_trivially_copyable_v<Record>);

  /// The first `count` records of the file at `path`, which is made where there is none.
  /// kCorruption if it has fewer.
  static Result<RecordLog> open(const std::string& path, int64_t count) {
    MEG_ASSIGN_OR_RETURN(io::AtomicFile file, io::AtomicFile::open_kept(path, ""));
    MEG_RETURN_IF_ERROR(file.truncate(count * kSize));
    return RecordLog(std::move(file), count);
  }

  Status add(const Record& record) {
    records_.push_back(record);
    return records_.size() < kRecordsAtOnce ? Status() : flush();
  }

  /// Writes all to the system.
  Status flush() {
    MEG_RETURN_IF_ERROR(file_.write_at(count_ * kSize, std::as_bytes(std::span(records_))));
    count_ += std::ssize(records_);
    records_.clear();
    return {};
  }

  /// Of flushed records.
  int64_t count() const { return count_; }

  io::AtomicFile& file() { return file_; }

  /// Calls take(record), which returns a Status, of each flushed one.
  template <class Take>
  Status replay(Take take) {
    std::vector<Record> records;
    for (int64_t at = 0; at < count_; at += std::ssize(records)) {
      records.resize(
          static_cast<size_t>(std::min(count_ - at, static_cast<int64_t>(kRecordsAtOnce))));
      const auto into = std::as_writable_bytes(std::span(records));
      MEG_ASSIGN_OR_RETURN(const size_t read, file_.read_at(at * kSize, into));
      if (read != into.size()) {
        return make_error(StatusCode::kCorruption, "{}: expected {} bytes, found {}", file_.path(),
                          into.size(), read);
      }
      for (const Record& record : records) MEG_RETURN_IF_ERROR(take(record));
    }
    return {};
  }

 private:
  static constexpr auto kSize = static_cast<int64_t>(sizeof(Record));
  static constexpr size_t kRecordsAtOnce = (size_t{1} << 20) / sizeof(Record);

  RecordLog(io::AtomicFile file, int64_t count) : file_(std::move(file)), count_(count) {}

  io::AtomicFile file_;
  int64_t count_ = 0;  // in the file
  std::vector<Record> records_;
};

}  // namespace meg::cleaning
