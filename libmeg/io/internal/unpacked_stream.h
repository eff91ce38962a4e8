#pragma once

#include <memory>
#include <string>

#include "libmeg/io/byte_stream.h"
#include "libmeg/io/internal/unpacker.h"
#include "libmeg/io/internal/unpacking_meter.h"

namespace meg::io {

/// Unpacks, in the thread that reads, a file that `meter` has gone through already, up to where the
/// unpacker continues that the first read() makes; otherwise like unpacked_stream().
std::unique_ptr<ByteStream> one_unpacked_stream(std::unique_ptr<ByteStream> packed,
                                                MakeUnpacker make, std::string name,
                                                UnpackingMeter meter, int64_t max_ratio);

/// The same, but frames that say their sizes are decompressed by up to `threads` threads.
std::unique_ptr<ByteStream> parallel_unpacked_stream(std::unique_ptr<ByteStream> packed,
                                                     Compression how, std::string name,
                                                     int64_t max_ratio, int threads);

/// `begin`, and then what `rest` gives.
std::unique_ptr<ByteStream> resumed_stream(std::string begin, std::unique_ptr<ByteStream> rest);

}  // namespace meg::io
