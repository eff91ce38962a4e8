#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace meg::logging {

/// CRC-32C (Castagnoli): polynomial 0x82F63B78 reflected.
uint32_t crc32c(std::string_view bytes);

/// Appends a TFRecord: the length in 8 bytes, its masked CRC, the bytes, their masked CRC; all
/// little endian. The mask turns the CRC right by 15 bits and adds 0xA282EAD8.
/// https://www.tensorflow.org/tutorials/load_data/tfrecord
void append_tf_record(std::string& file, std::string_view bytes);

}  // namespace meg::logging
