#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "libmeg/base/condition_variable.h"
#include "libmeg/base/result.h"
#include "libmeg/preprocess/sources/internal/column_reader.h"
#include "libmeg/preprocess/sources/internal/text_chunk.h"

namespace meg::preprocess {

/// Reads the chunks of a file of columns, in order, with a thread of its own that reads some ahead,
/// because decompressing and decoding takes nearly as long as tokenizing.
class ColumnsAhead {
 public:
  /// A chunk of the file.
  class Piece;

  using OpenReader = std::function<Result<std::unique_ptr<ColumnReader>>()>;

  /// first: the reader whose groups and rows are selected. open: further ones of the same file.
  ColumnsAhead(std::unique_ptr<ColumnReader> first, OpenReader open);
  ColumnsAhead(const ColumnsAhead&) = delete;
  ColumnsAhead& operator=(const ColumnsAhead&) = delete;
  ~ColumnsAhead();

  /// The next chunk, read or not; null at the end. One thread at a time.
  Result<std::shared_ptr<Piece>> claim();

  /// Fills the chunk except for number and input. Any number of threads, each with a piece of its
  /// own.
  Status read(Piece& piece, TextChunk& chunk);

 private:
  void start();
  Status read_ahead();
  bool add_small_group();
  void read_next(std::unique_lock<std::mutex>& lock);
  bool read_a_left_piece(std::unique_lock<std::mutex>& lock);
  TextChunk take_buffer();
  Status read_group(const RowGroup& group, TextChunk& chunk);
  Result<std::unique_ptr<ColumnReader>> take_reader();

  /// Chunks that wait, read or not. Small groups have up to four chunks' bytes.
  static constexpr size_t kPieces = 4;

  OpenReader open_;
  std::unique_ptr<ColumnReader> first_;  // used by one thread at a time: who has is_reading_ set

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Piece>> pieces_;
  std::vector<std::unique_ptr<ColumnReader>> idle_readers_;  // of small groups
  std::vector<TextChunk> buffers_;                           // to be used again
  bool is_reading_ = false;
  bool is_end_ = false;
  Status end_;  // the error that ended the chunks, if one did
  bool is_first_claim_ = true;
  bool is_stopped_ = false;
  std::thread thread_;
};

}  // namespace meg::preprocess
