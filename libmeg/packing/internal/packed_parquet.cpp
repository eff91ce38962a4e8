#include "libmeg/packing/internal/packed_parquet.h"

#include <array>
#include <bit>
#include <cstring>
#include <string_view>
#include <utility>

namespace meg::packing {
namespace {

// Rows of a group, which a reader holds in memory at once: Megatron-Bridge's row_group_size.
constexpr size_t kRowsOfGroup = 500;
/// And its tokens, so that a page has fewer than 2^31 bytes.
constexpr size_t kTokensOfGroup = size_t{1} << 24;

constexpr std::string_view kMagic = "PAR1";

struct ColumnKind {
  std::string_view name;
  bool is_int8;
};

constexpr std::array<ColumnKind, 3> kColumns = {
    {{"input_ids", false}, {"loss_mask", true}, {"seq_start_id", false}}};

// Of parquet.thrift.
enum PhysicalType { kInt32Type = 1 };

enum Encoding { kPlain = 0, kRle = 3 };

enum ConvertedType { kList = 3, kInt8 = 15 };

enum Repetition { kRequired = 0, kOptional = 1, kRepeated = 2 };

/// Seven bits a byte, the lowest first; all but the last have the eighth.
void append_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7F) | 0x80);
  out += static_cast<char>(value);
}

/// Thrift's compact protocol, as far as Parquet's metadata needs it.
class ThriftWriter {
 public:
  void integer(int field, int64_t value, bool is_long = false) {
    header(field, is_long ? 6 : 5);
    varint(zigzag(value));
  }

  void text(int field, std::string_view value) {
    header(field, 8);
    string(value);
  }

  void list(int field, size_t size, int element_type) {
    header(field, 9);
    begin_list(size, element_type);
  }

  void begin_struct(int field) {
    header(field, 12);
    open();
  }

  /// As an element of a list, and the outermost.
  void open() { last_fields_.push_back(0); }

  void end() {
    out_ += '\0';
    last_fields_.pop_back();
  }

  void string(std::string_view value) {
    varint(value.size());
    out_ += value;
  }

  void element(int64_t value) { varint(zigzag(value)); }

  const std::string& bytes() const { return out_; }

 private:
  static uint64_t zigzag(int64_t value) {
    return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
  }

  void varint(uint64_t value) { append_varint(out_, value); }

  void begin_list(size_t size, int element_type) {
    if (size < 15) {
      out_ += static_cast<char>(size << 4 | static_cast<size_t>(element_type));
    } else {
      out_ += static_cast<char>(0xF0 | element_type);
      varint(size);
    }
  }

  /// Fields ascend by at most 15, so each is told by its distance to the one before.
  void header(int field, int type) {
    out_ += static_cast<char>((field - last_fields_.back()) << 4 | type);
    last_fields_.back() = field;
  }

  std::string out_;
  std::vector<int> last_fields_;
};

constexpr int kIntegerElement = 5;
constexpr int kStringElement = 8;
constexpr int kStructElement = 12;

void append_u32(std::string& out, uint32_t value) {
  for (int i = 0; i < 4; ++i) out += static_cast<char>(value >> (8 * i));
}

/// Levels of at most 1, as one bit each in Parquet's hybrid of runs and packed bits: runs, because
/// lists are long.
class LevelWriter {
 public:
  void add(int level, size_t count) {
    if (count == 0) return;
    if (level == level_) {
      count_ += count;
      return;
    }
    end_run();
    level_ = level;
    count_ = count;
  }

  /// With the size in front.
  std::string finish() {
    end_run();
    std::string sized;
    append_u32(sized, static_cast<uint32_t>(runs_.size()));
    return sized + runs_;
  }

 private:
  void end_run() {
    if (count_ == 0) return;
    append_varint(runs_, static_cast<uint64_t>(count_) << 1);
    runs_ += static_cast<char>(level_);
    count_ = 0;
  }

  std::string runs_;
  int level_ = -1;
  size_t count_ = 0;
};

std::string page_header(size_t bytes, size_t values) {
  ThriftWriter header;
  header.open();
  header.integer(1, 0);  // DATA_PAGE
  header.integer(2, static_cast<int64_t>(bytes));
  header.integer(3, static_cast<int64_t>(bytes));
  header.begin_struct(5);
  header.integer(1, static_cast<int64_t>(values));
  header.integer(2, kPlain);
  header.integer(3, kRle);
  header.integer(4, kRle);
  header.end();
  header.end();
  return header.bytes();
}

/// The schema: a root, and for each column a list of required elements that is required itself.
void write_schema(ThriftWriter& out) {
  out.list(2, 1 + 3 * kColumns.size(), kStructElement);
  out.open();
  out.text(4, "schema");
  out.integer(5, kColumns.size());
  out.end();
  for (const ColumnKind& column : kColumns) {
    out.open();
    out.integer(3, kRequired);
    out.text(4, column.name);
    out.integer(5, 1);
    out.integer(6, kList);
    out.end();
    out.open();
    out.integer(3, kRepeated);
    out.text(4, "list");
    out.integer(5, 1);
    out.end();
    out.open();
    out.integer(1, kInt32Type);
    out.integer(3, kRequired);
    out.text(4, "element");
    if (column.is_int8) out.integer(6, kInt8);
    out.end();
  }
}

}  // namespace

Result<PackedParquetWriter> PackedParquetWriter::create(const std::string& path, DType dtype) {
  MEG_ASSIGN_OR_RETURN(io::AtomicFile file, io::AtomicFile::create(path));
  PackedParquetWriter writer(std::move(file), dtype);
  writer.columns_.resize(kColumns.size());
  for (Column& column : writer.columns_) column.lengths.push_back(0);
  MEG_RETURN_IF_ERROR(writer.write(std::string(kMagic)));
  return writer;
}

void PackedParquetWriter::add_sequence(std::span<const std::byte> tokens,
                                       std::span<const std::byte> mask) {
  Column& ids = columns_[0];
  Column& losses = columns_[1];
  Column& starts = columns_[2];
  starts.values.push_back(static_cast<int32_t>(ids.lengths.back()));
  ++starts.lengths.back();
  const size_t before = ids.values.size();
  const size_t count = mask.size();
  ids.values.resize(before + count);
  if (dtype_ == DType::kUint16) {
    for (size_t i = 0; i < count; ++i) {
      uint16_t id = 0;
      std::memcpy(&id, tokens.data() + i * sizeof(id), sizeof(id));
      ids.values[before + i] = id;
    }
  } else {
    std::memcpy(ids.values.data() + before, tokens.data(), tokens.size());
  }
  // The loss of a position is that of the token after it.
  for (size_t i = 1; i < count; ++i) losses.values.push_back(static_cast<int32_t>(mask[i]));
  losses.values.push_back(0);
  ids.lengths.back() += count;
  losses.lengths.back() += count;
}

Status PackedParquetWriter::end_row() {
  const bool is_full =
      columns_[0].lengths.size() == kRowsOfGroup || columns_[0].values.size() >= kTokensOfGroup;
  if (is_full) return write_row_group();
  for (Column& column : columns_) column.lengths.push_back(0);
  return Status();
}

Status PackedParquetWriter::write_row_group() {
  RowGroup group;
  group.rows = std::ssize(columns_[0].lengths);
  for (Column& column : columns_) {
    LevelWriter repetitions;
    LevelWriter definitions;
    for (const size_t length : column.lengths) {
      repetitions.add(0, 1);
      repetitions.add(1, length - 1);
    }
    definitions.add(1, column.values.size());
    std::string page = repetitions.finish() + definitions.finish();
    static_assert(std::endian::native == std::endian::little);
    page.append(reinterpret_cast<const char*>(column.values.data()),
                column.values.size() * sizeof(int32_t));
    const std::string header = page_header(page.size(), column.values.size());
    group.chunks.push_back({.offset = written_,
                            .bytes = static_cast<int64_t>(header.size() + page.size()),
                            .values = std::ssize(column.values)});
    MEG_RETURN_IF_ERROR(write(header));
    MEG_RETURN_IF_ERROR(write(page));
    column.values.clear();
    column.lengths.assign(1, 0);
  }
  groups_.push_back(std::move(group));
  return Status();
}

std::string PackedParquetWriter::footer() const {
  int64_t rows = 0;
  for (const RowGroup& group : groups_) rows += group.rows;
  ThriftWriter out;
  out.open();
  out.integer(1, 1);
  write_schema(out);
  out.integer(3, rows, /*is_long=*/true);
  out.list(4, groups_.size(), kStructElement);
  for (const RowGroup& group : groups_) {
    int64_t bytes = 0;
    out.open();
    out.list(1, group.chunks.size(), kStructElement);
    for (size_t i = 0; i < group.chunks.size(); ++i) {
      const Chunk& chunk = group.chunks[i];
      bytes += chunk.bytes;
      out.open();
      out.integer(2, chunk.offset, true);
      out.begin_struct(3);
      out.integer(1, kInt32Type);
      out.list(2, 2, kIntegerElement);
      out.element(kPlain);
      out.element(kRle);
      out.list(3, 3, kStringElement);
      out.string(kColumns[i].name);
      out.string("list");
      out.string("element");
      out.integer(4, 0);  // UNCOMPRESSED
      out.integer(5, chunk.values, true);
      out.integer(6, chunk.bytes, true);
      out.integer(7, chunk.bytes, true);
      out.integer(9, chunk.offset, true);
      out.end();
      out.end();
    }
    out.integer(2, bytes, true);
    out.integer(3, group.rows, true);
    out.end();
  }
  out.text(6, "libmeg");
  out.end();
  return out.bytes();
}

Status PackedParquetWriter::finish() {
  // The row that end_row() began is none.
  for (Column& column : columns_) column.lengths.pop_back();
  if (!columns_[0].lengths.empty()) MEG_RETURN_IF_ERROR(write_row_group());
  std::string end = footer();
  append_u32(end, static_cast<uint32_t>(end.size()));
  end += kMagic;
  return write(end);
}

Status PackedParquetWriter::write(const std::string& bytes) {
  written_ += std::ssize(bytes);
  return file_.write(std::as_bytes(std::span(bytes)));
}

}  // namespace meg::packing
