#include "libmeg/preprocess/sources/internal/text_chunk.h"

#include <algorithm>
#include <cstring>

namespace meg::preprocess {

Status grow_chunk(TextChunk& chunk, size_t bytes) {
  const size_t capacity = bytes + text::kTextPadding;
  if (chunk.capacity >= capacity) return Status();
  auto* grown = static_cast<char*>(std::realloc(chunk.buffer.get(), capacity));
  if (grown == nullptr) {
    return make_error(StatusCode::kResourceExhausted, "no memory for a line of {} bytes", bytes);
  }
  // realloc has freed or kept the old block; the pointer must not free it again.
  static_cast<void>(chunk.buffer.release());
  chunk.buffer.reset(grown);
  chunk.capacity = capacity;
  return Status();
}

Status prepare_chunk(TextChunk& chunk, size_t bytes, size_t chunk_bytes) {
  const size_t wanted = std::max(bytes, chunk_bytes);
  // A buffer that is too small is freed before a larger one is taken, as its content is not needed:
  // realloc would copy it.
  if (chunk.capacity < wanted + text::kTextPadding ||
      // One that is more than twice too large was grown for one long line.
      chunk.capacity / 2 > wanted + text::kTextPadding) {
    chunk.buffer.reset();
    chunk.capacity = 0;
  }
  return grow_chunk(chunk, wanted);
}

void finish_chunk(TextChunk& chunk, size_t bytes) {
  // Readers load whole vectors past the text; the padding is readable, and zero so that they see
  // no stale bytes.
  std::memset(chunk.buffer.get() + bytes, 0, text::kTextPadding);
  chunk.lines = {chunk.buffer.get(), bytes};
}

}  // namespace meg::preprocess
