#include "libmeg/preprocess/sources/internal/columns_ahead.h"

#include <algorithm>
#include <new>
#include <system_error>
#include <utility>

// Groups that are small are pieces before anybody has read them: workers read those that they
// claim, side by side, and the thread reads the first ones that wait. Of larger groups a chunk
// begins where the last one ended, so one thread after another reads them, into pieces that wait.
//
// Whose turn a piece is never depends on who reads it: claim() gives them in the file's order.

namespace meg::preprocess {

class ColumnsAhead::Piece {
 public:
  enum class State { kLeft, kBeingRead, kRead };

  State state = State::kLeft;
  RowGroup group;   // of one that is left
  TextChunk chunk;  // of one that was read
  Status status;    // of reading it
};

namespace {

/// What `read` returns; memory that runs out must end neither a thread nor the wait for it.
template <class Read>
Status guarded(const Read& read) {
  try {
    return read();
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "out of memory while reading columns");
  }
}

}  // namespace

ColumnsAhead::ColumnsAhead(std::unique_ptr<ColumnReader> first, OpenReader open)
    : open_(std::move(open)), first_(std::move(first)) {}

ColumnsAhead::~ColumnsAhead() {
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Result<std::shared_ptr<ColumnsAhead::Piece>> ColumnsAhead::claim() {
  std::unique_lock lock(mutex_);
  // Start no thread for a file of one chunk: many are small.
  if (!std::exchange(is_first_claim_, false)) start();
  while (pieces_.empty() && !is_end_) {
    if (is_reading_) {
      changed_.wait(lock);
    } else if (!add_small_group() && !is_end_) {
      read_next(lock);
    }
  }
  if (pieces_.empty()) {
    MEG_RETURN_IF_ERROR(end_);
    return std::shared_ptr<Piece>();
  }
  std::shared_ptr<Piece> piece = std::move(pieces_.front());
  pieces_.pop_front();
  changed_.notify_all();
  return piece;
}

Status ColumnsAhead::read(Piece& piece, TextChunk& chunk) {
  std::unique_lock lock(mutex_);
  if (piece.state == Piece::State::kLeft) {  // Claimed, so nobody else looks at it.
    lock.unlock();
    return read_group(piece.group, chunk);
  }
  while (piece.state == Piece::State::kBeingRead) {
    if (!read_a_left_piece(lock)) changed_.wait(lock);
  }
  MEG_RETURN_IF_ERROR(piece.status);
  piece.chunk.number = chunk.number;
  piece.chunk.input = chunk.input;
  std::swap(piece.chunk, chunk);
  if (buffers_.size() < kPieces) buffers_.push_back(std::move(piece.chunk));
  return Status();
}

/// Called with the lock held. Where the system refuses a thread, those that claim read themselves.
void ColumnsAhead::start() {
  if (thread_.joinable() || is_end_) return;
  try {
    thread_ = std::thread([this] {
      Status status = guarded([this] { return read_ahead(); });
      if (status.ok()) return;
      const std::lock_guard end_lock(mutex_);
      is_end_ = true;
      end_ = std::move(status);
      changed_.notify_all();
    });
  } catch (const std::system_error&) {
  }
}

/// What the thread does.
Status ColumnsAhead::read_ahead() {
  std::unique_lock lock(mutex_);
  while (!is_stopped_) {
    while (pieces_.size() < kPieces && !is_reading_ && !is_end_ && add_small_group()) {
    }
    if (read_a_left_piece(lock)) continue;
    if (is_end_) break;
    if (pieces_.size() < kPieces && !is_reading_) {
      read_next(lock);
    } else {
      changed_.wait(lock);
    }
  }
  return Status();
}

/// Adds, with the lock held and while nobody reads, the next group as a piece that is left; false
/// where it is not small.
bool ColumnsAhead::add_small_group() {
  const auto group = first_->take_small_group();
  if (!group.has_value()) {
    is_end_ = true;
    end_ = group.error();
  }
  if (!group.has_value() || !group->has_value()) return false;
  pieces_.push_back(std::make_shared<Piece>());
  pieces_.back()->group = **group;
  changed_.notify_all();
  return true;
}

/// Reads the next chunk of a group that is not small. Called with the lock held, which it gives
/// back meanwhile.
void ColumnsAhead::read_next(std::unique_lock<std::mutex>& lock) {
  const auto piece = std::make_shared<Piece>();
  piece->chunk = take_buffer();
  is_reading_ = true;
  lock.unlock();
  Status status = guarded([&] { return first_->next(piece->chunk); });
  lock.lock();
  is_reading_ = false;
  if (!status.ok() || piece->chunk.records.empty()) {
    is_end_ = true;
    end_ = std::move(status);
  } else {
    piece->state = Piece::State::kRead;
    pieces_.push_back(piece);
  }
  changed_.notify_all();
}

/// Reads the first piece that waits and is left; false where there is none. Called with the lock
/// held, which it gives back meanwhile.
bool ColumnsAhead::read_a_left_piece(std::unique_lock<std::mutex>& lock) {
  const auto found = std::find_if(pieces_.begin(), pieces_.end(), [](const auto& piece) {
    return piece->state == Piece::State::kLeft;
  });
  if (found == pieces_.end()) return false;
  // Kept: it may be claimed meanwhile.
  const std::shared_ptr<Piece> piece = *found;
  piece->state = Piece::State::kBeingRead;
  piece->chunk = take_buffer();
  lock.unlock();
  Status status = guarded([&] { return read_group(piece->group, piece->chunk); });
  lock.lock();
  piece->status = std::move(status);
  piece->state = Piece::State::kRead;
  changed_.notify_all();
  return true;
}

/// Called with the lock held. Returns a chunk whose memory is used again, where there is one.
TextChunk ColumnsAhead::take_buffer() {
  if (buffers_.empty()) return {};
  TextChunk buffer = std::move(buffers_.back());
  buffers_.pop_back();
  return buffer;
}

/// Reads with a reader that no other thread has.
Status ColumnsAhead::read_group(const RowGroup& group, TextChunk& chunk) {
  MEG_ASSIGN_OR_RETURN(std::unique_ptr<ColumnReader> reader, take_reader());
  MEG_RETURN_IF_ERROR(reader->read_group(group, chunk));
  const std::lock_guard lock(mutex_);
  idle_readers_.push_back(std::move(reader));
  return Status();
}

Result<std::unique_ptr<ColumnReader>> ColumnsAhead::take_reader() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_readers_.empty()) {
      std::unique_ptr<ColumnReader> reader = std::move(idle_readers_.back());
      idle_readers_.pop_back();
      return reader;
    }
  }
  return open_();
}

}  // namespace meg::preprocess
