#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "libmeg/hub/internal/byte_range.h"
#include "libmeg/hub/internal/open_checkpoints.h"
#include "libmeg/serving/http/http_message.h"

namespace meg::hub {

/// The files of checkpoints as answers to requests. May be used by several threads.
class Downloads {
 public:
  /// most: downloads of weights at once. transposed_bytes: what all of them may cache of matrices
  /// that are transposed.
  Downloads(size_t most, int64_t transposed_bytes)
      : most_(most), transposed_bytes_(transposed_bytes) {}

  /// A file, or the range of it that the request asks for; 304 where the client has it, 429 where
  /// there are too many downloads. file: of open. The answer must not outlive this object.
  serving::HttpResponse send(const serving::HttpCall& call, const Found& found,
                             const CheckpointPointer& open, const ServedFile& file);

 private:
  std::string write_body(const ServedCheckpoint& open, const ServedFile& file, ByteRange range,
                         serving::HttpBodyWriter& writer);
  void take_share(int64_t* share);
  std::shared_ptr<const void> take_place();

  const size_t most_;
  const int64_t transposed_bytes_;
  std::atomic<size_t> count_ = 0;
};

}  // namespace meg::hub
