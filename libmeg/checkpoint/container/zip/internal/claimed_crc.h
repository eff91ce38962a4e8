#pragma once

#include <cstdint>
#include <optional>

#include "libmeg/checkpoint/container/torch_file/torch_file.h"

namespace meg::checkpoint {

/// The CRC-32 that the archive records for a tensor's bytes; known if the tensor consists of all
/// bytes of its storage, in the order and form that they have in the file.
inline std::optional<uint32_t> claimed_crc(const TorchFile& file, const TensorView& view) {
  const TorchStorage& storage = file.storages()[static_cast<size_t>(view.storage)];
  const bool is_whole = !file.is_byte_swapped() && view.offset == 0 && view.is_contiguous() &&
                        static_cast<uint64_t>(view.bytes()) == storage.bytes;
  return is_whole ? storage.crc : std::nullopt;
}

}  // namespace meg::checkpoint
