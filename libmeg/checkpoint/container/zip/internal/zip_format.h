#pragma once

#include <cstddef>
#include <cstdint>

namespace meg::checkpoint::zip {

// Signatures and sizes of the records of a zip file (PKWARE's APPNOTE), without their variable
// parts.
inline constexpr uint32_t kLocalHeaderSignature = 0x04034b50;
inline constexpr size_t kLocalHeaderSize = 30;
inline constexpr uint32_t kDescriptorSignature = 0x08074b50;
inline constexpr size_t kDescriptorSize = 16;
inline constexpr size_t kDescriptor64Size = 24;
inline constexpr uint32_t kDirectoryHeaderSignature = 0x02014b50;
inline constexpr size_t kDirectoryHeaderSize = 46;
inline constexpr uint32_t kEnd64Signature = 0x06064b50;
inline constexpr size_t kEnd64Size = 56;
inline constexpr uint32_t kLocator64Signature = 0x07064b50;
inline constexpr size_t kLocator64Size = 20;
inline constexpr uint32_t kEndSignature = 0x06054b50;
inline constexpr size_t kEndSize = 22;

inline constexpr uint16_t kExtra64Id = 0x0001;
inline constexpr uint16_t kFlagEncrypted = 0x0001;
inline constexpr uint16_t kFlagDescriptor = 0x0008;
inline constexpr uint16_t kFlagUtf8 = 0x0800;
inline constexpr uint16_t kMethodStored = 0;
inline constexpr uint16_t kMethodDeflated = 8;

/// In a 16- or 32-bit field these say that the value stands in a zip64 record.
inline constexpr uint16_t kIn64Short = 0xFFFF;
inline constexpr uint32_t kIn64 = 0xFFFFFFFF;

}  // namespace meg::checkpoint::zip
