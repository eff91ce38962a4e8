#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/preprocess/sources/input_options.h"
#include "libmeg/preprocess/sources/internal/text_chunk.h"

namespace meg::preprocess {

/// Finds the documents in one input's text, which arrives from begin to end.
class RecordScanner {
 public:
  virtual ~RecordScanner() = default;

  /// Scans the new part of `text`, which has grown since the last call, or begins where the last
  /// take() ended. is_end: it does not grow any more; end() is then its size.
  /// Errors: `line 3, byte 7: expected ...`, both from 1.
  virtual Status scan(std::string_view text, bool is_end) = 0;

  /// Bytes of the text that hold whole documents.
  size_t end() const { return end_; }

  /// Passes the documents in text.substr(0, end()) to `chunk`, and starts again after them.
  virtual void take(std::string_view text, TextChunk& chunk);

 protected:
  explicit RecordScanner(RecordFormat format) : format_(format) {}

  /// Records a document; must be called in order.
  void add_record(std::string_view text, size_t begin, size_t size);

  /// A kCorruption at text[at], after the last record.
  Status error_at(std::string_view text, size_t at, const std::string& what) const;

  RecordFormat format_;
  size_t position_ = 0;  ///< where scan() continues
  size_t end_ = 0;

 private:
  struct Place {
    int64_t lines;   // LFs before it in the text
    int64_t column;  // bytes before it in its line
  };

  Place place_of(std::string_view text, size_t at) const;
  void move_to(std::string_view text, size_t at);

  std::vector<Record> records_;
  size_t placed_ = 0;         // up to here LFs are counted
  Place place_{0, 0};         // of placed_
  int64_t lines_before_ = 0;  // LFs before the text
};

/// The scanner of an input. format: not kAuto. keys: the JSON keys.
std::unique_ptr<RecordScanner> make_scanner(InputFormat format, const InputOptions& options,
                                            const std::vector<std::string>& keys);

}  // namespace meg::preprocess
