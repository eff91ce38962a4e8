#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "libmeg/io/byte_stream.h"
#include "libmeg/s3/object_store.h"

namespace meg::s3 {

/// Bytes [begin, end) of `object`, which must outlive the stream, fetched some blocks ahead by
/// several requests at once. interrupted: as Object::read_at.
std::unique_ptr<io::ByteStream> object_stream(const Object& object, int64_t begin, int64_t end,
                                              const std::atomic<bool>* interrupted);

}  // namespace meg::s3
