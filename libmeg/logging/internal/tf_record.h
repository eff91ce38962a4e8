#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "libmeg/base/result.h"

namespace meg::logging {

/// CRC-32C (Castagnoli): polynomial 0x82F63B78 reflected.
uint32_t crc32c(std::string_view bytes);

/// Appends a TFRecord: the length in 8 bytes, its masked CRC, the bytes, their masked CRC; all
/// little endian. The mask turns the CRC right by 15 bits and adds 0xA282EAD8.
/// https://www.tensorflow.org/tutorials/load_data/tfrecord
void append_tf_record(std::string& file, std::string_view bytes);

/// Takes the first record off the rest of a file, and returns its bytes, of which both CRCs fit;
/// nullopt, and takes nothing, if the rest ends within the record, or before it. kCorruption names
/// the byte; offset: of the rest in the file.
Result<std::optional<std::string_view>> take_tf_record(std::string_view& rest, size_t offset);

}  // namespace meg::logging
