#include "libmeg/checkpoint/container/zip/zip_layout.h"

#include <algorithm>
#include <span>
#include <utility>

#include "libmeg/base/bytes.h"
#include "libmeg/checkpoint/container/zip/internal/zip_format.h"

namespace meg::checkpoint {
namespace {

using Record = ZipLayout::Record;

/// torch's alignment of storages, which allows mapping them (kStorageAlignment of the archive's
/// writer).
constexpr uint64_t kAlignment = 64;
/// torch's padding field: this id, a length, that many bytes 'Z'.
constexpr uint16_t kPaddingId = 0x4246;  // "FB"
constexpr size_t kExtraHeaderSize = 4;

/// Appends little-endian fields.
class Fields {
 public:
  template <class T>
  Fields& add(T value) {
    const size_t at = bytes_.size();
    bytes_.resize(at + sizeof(T));
    store_le(&bytes_[at], value);
    return *this;
  }

  Fields& add_text(std::string_view text) { return add_bytes(std::as_bytes(std::span(text))); }

  Fields& add_bytes(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }

  Fields& add_repeated(size_t count, char byte) {
    bytes_.insert(bytes_.end(), count, static_cast<std::byte>(byte));
    return *this;
  }

  size_t size() const { return bytes_.size(); }

  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

bool is_wide(uint64_t value) { return value >= zip::kIn64; }

bool needs_64(const Record& record) {
  return is_wide(record.size) || is_wide(record.header_offset);
}

uint32_t narrow(uint64_t value) {
  return static_cast<uint32_t>(std::min<uint64_t>(value, zip::kIn64));
}

/// The zip64 extra field; empty if nothing needs it. compressed_size: torch's local headers
/// hold 0 there.
std::vector<std::byte> extra_64(const Record& record, uint64_t compressed_size) {
  Fields values;
  if (is_wide(record.size)) values.add(record.size).add(compressed_size);
  if (is_wide(record.header_offset)) values.add(record.header_offset);
  if (values.size() == 0) return {};
  Fields field;
  field.add(zip::kExtra64Id).add(static_cast<uint16_t>(values.size())).add_bytes(values.take());
  return field.take();
}

/// Empty entries have no descriptor.
uint16_t flags_of(const Record& record) {
  return record.size == 0 ? zip::kFlagUtf8 : zip::kFlagUtf8 | zip::kFlagDescriptor;
}

size_t descriptor_size(const Record& record) {
  if (record.size == 0) return 0;
  return needs_64(record) ? zip::kDescriptor64Size : zip::kDescriptorSize;
}

void add_descriptor(const Record& record, Fields* out) {
  if (record.size == 0) return;
  out->add(zip::kDescriptorSignature).add(record.crc);
  if (needs_64(record)) {
    out->add(record.size).add(record.size);
  } else {
    out->add(narrow(record.size)).add(narrow(record.size));
  }
}

void add_local_header(const Record& record, Fields* out) {
  const std::vector<std::byte> extra = extra_64(record, 0);
  const uint64_t used = zip::kLocalHeaderSize + record.name.size() + extra.size();
  const auto padding = static_cast<size_t>(record.data_offset - record.header_offset - used);
  out->add(zip::kLocalHeaderSignature)
      .add(uint16_t{0})
      .add(flags_of(record))
      .add(zip::kMethodStored);
  // CRC and sizes follow in the descriptor, as from torch, which streams; a time of 0 makes equal
  // contents give equal files.
  out->add(uint32_t{0}).add(uint32_t{0}).add(uint32_t{0}).add(uint32_t{0});  // time, CRC, sizes
  out->add(static_cast<uint16_t>(record.name.size()));
  out->add(static_cast<uint16_t>(extra.size() + padding));
  out->add_text(record.name).add_bytes(extra);
  out->add(kPaddingId).add(static_cast<uint16_t>(padding - kExtraHeaderSize));
  out->add_repeated(padding - kExtraHeaderSize, 'Z');
}

void add_directory_header(const Record& record, Fields* out) {
  const std::vector<std::byte> extra = extra_64(record, record.size);
  out->add(zip::kDirectoryHeaderSignature).add(uint16_t{0}).add(uint16_t{0});
  out->add(flags_of(record)).add(zip::kMethodStored).add(uint32_t{0}).add(record.crc);
  out->add(narrow(record.size)).add(narrow(record.size));
  out->add(static_cast<uint16_t>(record.name.size())).add(static_cast<uint16_t>(extra.size()));
  out->add(uint16_t{0}).add(uint16_t{0}).add(uint16_t{0}).add(uint32_t{0});
  out->add(narrow(record.header_offset));
  out->add_text(record.name).add_bytes(extra);
}

}  // namespace

void ZipLayout::add(std::string name, uint64_t size) {
  Record record = {.name = std::move(name), .size = size, .header_offset = directory_offset()};
  const uint64_t least = record.header_offset + zip::kLocalHeaderSize + record.name.size() +
                         extra_64(record, 0).size() + kExtraHeaderSize;
  record.data_offset = (least + kAlignment - 1) / kAlignment * kAlignment;
  records_.push_back(std::move(record));
}

uint64_t ZipLayout::directory_offset() const {
  return records_.empty() ? 0 : records_.back().data_end() + descriptor_size(records_.back());
}

uint64_t ZipLayout::file_size() const {
  uint64_t size = directory_offset() + zip::kEnd64Size + zip::kLocator64Size + zip::kEndSize;
  for (const Record& record : records_) {
    size += zip::kDirectoryHeaderSize + record.name.size() + extra_64(record, record.size).size();
  }
  return size;
}

std::vector<std::byte> ZipLayout::bytes_before(size_t record) const {
  Fields out;
  if (record > 0) add_descriptor(records_[record - 1], &out);
  add_local_header(records_[record], &out);
  return out.take();
}

std::vector<std::byte> ZipLayout::bytes_after_last() const {
  Fields out;
  add_descriptor(records_.back(), &out);
  const size_t before = out.size();
  for (const Record& record : records_) add_directory_header(record, &out);
  const uint64_t size = out.size() - before;
  const uint64_t offset = directory_offset();
  const uint64_t entries = records_.size();
  out.add(zip::kEnd64Signature).add(uint64_t{zip::kEnd64Size - 12});
  // Made by version 3.0 on Unix, read by 4.5 (zip64) and later: torch's numbers. It writes the
  // zip64 records always, needed or not.
  out.add(uint16_t{0x031e}).add(uint16_t{0x2d}).add(uint32_t{0}).add(uint32_t{0});
  out.add(entries).add(entries).add(size).add(offset);
  out.add(zip::kLocator64Signature).add(uint32_t{0}).add(offset + size).add(uint32_t{1});
  const auto short_entries = static_cast<uint16_t>(std::min<uint64_t>(entries, zip::kIn64Short));
  out.add(zip::kEndSignature).add(uint16_t{0}).add(uint16_t{0});
  out.add(short_entries).add(short_entries).add(narrow(size)).add(narrow(offset)).add(uint16_t{0});
  return out.take();
}

}  // namespace meg::checkpoint
