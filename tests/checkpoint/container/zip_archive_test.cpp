#include "libmeg/checkpoint/container/zip/zip_archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libmeg/checkpoint/container/zip/zip_layout.h"
#include "tests/checkpoint/container/memory_file.h"
#include "tests/checkpoint/container/zip_bytes.h"

namespace meg::checkpoint {
namespace {

using test::MemoryFile;
using test::ZipBytes;
using ::testing::HasSubstr;

Result<ZipArchive> open_bytes(const std::string& bytes) {
  const MemoryFile memory(bytes);
  MEG_ASSIGN_OR_RETURN(const io::FileDescriptor file,
                       io::FileDescriptor::open_for_reading(memory.path()));
  return ZipArchive::open(file);
}

/// folder/one of 5 bytes and folder/two of 300.
ZipBytes two_entries() {
  ZipBytes zip;
  zip.add("folder/one", "first");
  zip.add("folder/two", std::string(300, 'x'));
  zip.finish();
  return zip;
}

TEST(ZipArchive, FindsEntriesAndTheirBytes) {
  const ZipBytes zip = two_entries();
  const auto archive = open_bytes(zip.bytes);
  ASSERT_TRUE(archive.has_value()) << archive.error().message();
  ASSERT_EQ(archive->entries().size(), 2u);
  const ZipEntry* two = archive->find("folder/two");
  ASSERT_NE(two, nullptr);
  EXPECT_EQ(two->size, 300u);
  EXPECT_EQ(two->crc, zip.entries[1].crc);
  EXPECT_EQ(two->data_offset, zip.entries[1].data);
  EXPECT_EQ(archive->find("folder/three"), nullptr);
}

TEST(ZipArchive, ReadsBehindACommentOfAnyLength) {
  for (const size_t length : {1, 22, 1000, 0xFFFF}) {
    ZipBytes zip = two_entries();
    store_le(&zip.bytes[zip.end + 20], static_cast<uint16_t>(length));
    zip.bytes += std::string(length, 'c');
    EXPECT_TRUE(open_bytes(zip.bytes).has_value()) << length;
  }
}

struct Damage {
  const char* what;

  enum Record { kLocal, kDirectory, kEnd } record;  // of the second entry

  size_t at;  // byte of the record
  int width;
  uint32_t value;
  const char* message;
};

const Damage kDamages[] = {
    {"local signature", Damage::kLocal, 0, 4, 0x05034b50, "bad signature"},
    {"local encrypted", Damage::kLocal, 6, 2, 1, "encrypted"},
    {"local method", Damage::kLocal, 8, 2, 8, "another method"},
    {"local CRC", Damage::kLocal, 14, 4, 77, "differ from the directory's"},
    {"local compressed size", Damage::kLocal, 18, 4, 299, "differ from the directory's"},
    {"local size", Damage::kLocal, 22, 4, 301, "differ from the directory's"},
    {"local size in zip64, none there", Damage::kLocal, 22, 4, 0xFFFFFFFF, "zip64"},
    {"local zeros without descriptor", Damage::kLocal, 14, 4, 0, "differ from the directory's"},
    {"local name length", Damage::kLocal, 26, 2, 9, "bears the name"},
    {"local name length huge", Damage::kLocal, 26, 2, 0xFFFF, "end before the directory"},
    {"local extra length", Damage::kLocal, 28, 2, 1, "end before the directory"},
    {"local name", Damage::kLocal, 30, 1, 'F', "bears the name \"Folder/two\""},
    {"signature", Damage::kDirectory, 0, 4, 0, "bad signature"},
    {"encrypted", Damage::kDirectory, 8, 2, 1, "encrypted"},
    {"method deflated", Damage::kDirectory, 10, 2, 8, "another method"},
    {"method unknown", Damage::kDirectory, 10, 2, 14, "compression method 14"},
    {"CRC", Damage::kDirectory, 16, 4, 77, "differ from the directory's"},
    {"compressed size", Damage::kDirectory, 20, 4, 299, "300 bytes are kept as 299"},
    {"size", Damage::kDirectory, 24, 4, 0x7FFFFFFF, "bytes are kept as"},
    {"sizes in zip64, none there", Damage::kDirectory, 24, 4, 0xFFFFFFFF, "zip64 extra field"},
    {"name length", Damage::kDirectory, 28, 2, 0xFFFF, "entry name"},
    {"name length short", Damage::kDirectory, 28, 2, 9, "bears the name"},
    {"extra length", Damage::kDirectory, 30, 2, 4, "extra fields"},
    {"comment length", Damage::kDirectory, 32, 2, 1, "entry comment"},
    {"offset of the other entry", Damage::kDirectory, 42, 4, 0, "bears the name \"folder/one\""},
    {"offset past the file", Damage::kDirectory, 42, 4, 0x7FFFFFFF, "lies outside the file"},
    {"offset in zip64, none there", Damage::kDirectory, 42, 4, 0xFFFFFFFF, "zip64 extra field"},
    {"name leaves the folder", Damage::kDirectory, 46, 4, 0x612f2e2e, "relative path"},
    {"absolute name", Damage::kDirectory, 46, 1, '/', "relative path"},
    {"NUL in the name", Damage::kDirectory, 48, 1, 0, "relative path"},
    {"backslash in the name", Damage::kDirectory, 48, 1, '\\', "relative path"},
    {"end signature", Damage::kEnd, 0, 4, 0, "end record"},
    {"disk", Damage::kEnd, 4, 2, 1, "several disks"},
    {"disk of the directory", Damage::kEnd, 6, 2, 1, "several disks"},
    {"entries on this disk", Damage::kEnd, 8, 2, 1, "several disks"},
    {"too few entries", Damage::kEnd, 8, 4, 0x00010001, "bytes after them"},
    {"too many entries", Damage::kEnd, 8, 4, 0x00030003, "cannot hold the 3 entries"},
    {"entries in zip64, none there", Damage::kEnd, 8, 4, 0xFFFFFFFF, "zip64"},
    {"directory size", Damage::kEnd, 12, 4, 100, "to end at byte"},
    {"directory size huge", Damage::kEnd, 12, 4, 0xFFFFFFFE, "to end at byte"},
    {"directory offset", Damage::kEnd, 16, 4, 1, "to end at byte"},
    {"directory offset huge", Damage::kEnd, 16, 4, 0xFFFFFFFE, "to end at byte"},
    {"comment length", Damage::kEnd, 20, 2, 1, "end record"},
};

TEST(ZipArchive, RefusesEveryDamagedField) {
  for (const Damage& damage : kDamages) {
    ZipBytes zip = two_entries();
    const size_t record = damage.record == Damage::kLocal       ? zip.entries[1].local
                          : damage.record == Damage::kDirectory ? zip.entries[1].directory
                                                                : zip.end;
    for (int i = 0; i < damage.width; ++i) {
      zip.bytes[record + damage.at + static_cast<size_t>(i)] =
          static_cast<char>(damage.value >> (8 * i));
    }
    const auto archive = open_bytes(zip.bytes);
    ASSERT_FALSE(archive.has_value()) << damage.what;
    EXPECT_THAT(archive.error().message(), HasSubstr(damage.message)) << damage.what;
    EXPECT_EQ(archive.error().message().find('\n'), std::string::npos) << damage.what;
  }
}

TEST(ZipArchive, RefusesTwoEntriesOfOneName) {
  ZipBytes zip;
  zip.add("folder/one", "first");
  zip.add("folder/one", "second");
  zip.finish();
  const auto archive = open_bytes(zip.bytes);
  ASSERT_FALSE(archive.has_value());
  EXPECT_THAT(archive.error().message(), HasSubstr("two entries bear the name"));
}

TEST(ZipArchive, RefusesEntriesThatOverlap) {
  // An entry whose data hold another whole entry: both agree with their own headers.
  ZipBytes inner;
  inner.add("folder/inner", "content");
  ZipBytes zip;
  zip.add("folder/outer", inner.bytes);
  const size_t inner_at = zip.entries[0].data;
  zip.entries.push_back(inner.entries[0]);
  zip.entries[1].local = inner_at;
  zip.finish();
  const auto archive = open_bytes(zip.bytes);
  ASSERT_FALSE(archive.has_value());
  EXPECT_THAT(archive.error().message(), HasSubstr("overlap"));
}

TEST(ZipArchive, RefusesEveryTruncation) {
  const ZipBytes zip = two_entries();
  for (size_t size = 0; size < zip.bytes.size(); ++size) {
    EXPECT_FALSE(open_bytes(zip.bytes.substr(0, size)).has_value()) << size;
  }
}

/// The records of a zip64 archive as torch writes it, without its data.
std::string torch_bytes(ZipLayout* layout) {
  layout->add("folder/one", 0);
  layout->add("folder/two", 0);
  std::string bytes;
  for (size_t i = 0; i < 2; ++i) {
    bytes.resize(layout->records()[i].header_offset);
    const auto before = layout->bytes_before(i);
    bytes.append(reinterpret_cast<const char*>(before.data()), before.size());
  }
  const auto after = layout->bytes_after_last();
  bytes.append(reinterpret_cast<const char*>(after.data()), after.size());
  return bytes;
}

TEST(ZipArchive, RefusesDamagedZip64Records) {
  struct Damage64 {
    const char* what;
    size_t from_end;  // of the file
    uint8_t value;
    const char* message;
  };

  const size_t record = zip::kEndSize + zip::kLocator64Size + zip::kEnd64Size;
  const size_t locator = zip::kEndSize + zip::kLocator64Size;
  const Damage64 damages[] = {
      {"signature", record, 0, "bad signature"},
      {"size", record - 4, 45, "bad size"},
      {"disk", record - 16, 1, "several disks"},
      {"entries on this disk", record - 24, 1, "several disks"},
      {"directory size", record - 40, 1, "contradicts the end record"},
      {"directory offset", record - 48 - 3, 1, "contradicts the end record"},
      {"locator disk", locator - 4, 1, "several disks"},
      {"locator offset", locator - 8 - 7, 0x7F, "expected it before this byte"},
      {"locator offset a little off", locator - 8, 1, "zip64 end record"},
      {"locator disks", locator - 16, 2, "several disks"},
  };
  ZipLayout layout;
  const std::string whole = torch_bytes(&layout);
  ASSERT_EQ(whole.size(), layout.file_size());
  ASSERT_TRUE(open_bytes(whole).has_value());
  for (const Damage64& damage : damages) {
    std::string bytes = whole;
    bytes[bytes.size() - damage.from_end] = static_cast<char>(damage.value);
    const auto archive = open_bytes(bytes);
    ASSERT_FALSE(archive.has_value()) << damage.what;
    EXPECT_THAT(archive.error().message(), HasSubstr(damage.message)) << damage.what;
  }
}

}  // namespace
}  // namespace meg::checkpoint
