#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "libmeg/base/version.h"
#include "libmeg/preprocess/sources/internal/arrow/arrow_file.h"
#include "libmeg/preprocess/sources/internal/arrow/arrow_guard.h"
#include "libmeg/preprocess/sources/internal/arrow/column_texts.h"
#include "libmeg/preprocess/sources/internal/column_module.h"
#include "libmeg/preprocess/sources/internal/column_reader.h"
#include "libmeg/preprocess/sources/internal/text_chunk.h"

// Rows of Parquet and Arrow files as documents. Batches are read one at a time and their texts
// copied into a chunk: Arrow's memory is given back or used again batch by batch, and chunks look
// the same for all sources.
//
// A group that its file says to be small is a chunk of its own, which a thread reads whole with a
// reader of its own, so that groups are decoded side by side. Larger groups are read batch by batch
// under the source's lock.

namespace meg::preprocess {
namespace {

/// The fields of structs that `key` leads to, joined by dots; empty where there is none.
std::vector<std::string> find_fields(const arrow::DataType& type, std::string_view key) {
  if (type.id() != arrow::Type::STRUCT) return {};
  const auto& fields = static_cast<const arrow::StructType&>(type);
  if (fields.GetFieldIndex(std::string(key)) >= 0) return {std::string(key)};
  for (size_t dot = key.find('.'); dot != key.npos; dot = key.find('.', dot + 1)) {
    const std::string name(key.substr(0, dot));
    const auto field = fields.GetFieldByName(name);
    if (field == nullptr) continue;
    std::vector<std::string> inner = find_fields(*field->type(), key.substr(dot + 1));
    if (inner.empty()) continue;
    inner.insert(inner.begin(), name);
    return inner;
  }
  return {};
}

/// The names of fields that are no structs, with those of the structs they are in.
void add_names(const std::string& before, const arrow::FieldVector& fields,
               std::vector<std::string>& names) {
  for (const std::shared_ptr<arrow::Field>& field : fields) {
    const std::string name = before + field->name();
    if (field->type()->id() == arrow::Type::STRUCT) {
      add_names(name + ".", field->type()->fields(), names);
    } else {
      names.push_back(name);
    }
  }
}

/// What a key names: a column, else a text inside structs (`meta.text`).
Result<ColumnPath> find_column(const arrow::Schema& schema, const std::string& key) {
  const std::vector<int> found = schema.GetAllFieldIndices(key);
  if (found.size() == 1) return ColumnPath{.column = found[0], .fields = {}};
  if (found.size() > 1) {
    return make_error(StatusCode::kCorruption, "expected one column {}, found {}", key,
                      found.size());
  }
  for (size_t dot = key.find('.'); dot != key.npos; dot = key.find('.', dot + 1)) {
    const int column = schema.GetFieldIndex(key.substr(0, dot));
    if (column < 0) continue;
    std::vector<std::string> fields =
        find_fields(*schema.field(column)->type(), std::string_view(key).substr(dot + 1));
    if (!fields.empty()) return ColumnPath{.column = column, .fields = std::move(fields)};
  }
  std::vector<std::string> names;
  add_names("", schema.fields(), names);
  return make_error(StatusCode::kNotFound, "expected a column {}, found {}", key,
                    fmt::join(names, ", "));
}

const arrow::DataType& type_of(const arrow::Schema& schema, const ColumnPath& path) {
  const arrow::DataType* type = schema.field(path.column)->type().get();
  for (const std::string& name : path.fields) {
    type = static_cast<const arrow::StructType*>(type)->GetFieldByName(name)->type().get();
  }
  return *type;
}

class ArrowColumnReader : public ColumnReader {
 public:
  ArrowColumnReader(std::unique_ptr<ArrowFile> file, const InputFile& input,
                    std::vector<std::string> keys, size_t chunk_bytes)
      : file_(std::move(file)),
        name_(input.name()),
        keys_(std::move(keys)),
        chunk_bytes_(chunk_bytes) {}

  /// Finds the columns of the keys.
  Status init() {
    const arrow::Schema& schema = file_->schema();
    for (const std::string& key : keys_) {
      // Only the columns asked for are read; the others' types do not matter.
      MEG_ASSIGN_OR_RETURN(ColumnPath path, find_column(schema, key));
      const arrow::DataType& type = type_of(schema, path);
      if (!TextColumn::takes(type)) {
        return make_error(StatusCode::kUnsupported,
                          "column {}: expected strings or lists of strings, found {}", key,
                          type.ToString());
      }
      columns_.push_back(std::move(path));
    }
    end_group_ = file_->groups();
    return Status();
  }

  int64_t groups() const override { return file_->groups(); }

  Status select(int64_t begin, int64_t end, int64_t row) override {
    next_group_ = begin;
    end_group_ = end;
    skipped_ = row;
    return Status();
  }

  Status next(TextChunk& chunk) override {
    return arrow_guard([&] { return read(chunk); }).with_prefix(name_);
  }

  Result<std::optional<RowGroup>> take_small_group() override {
    auto found =
        arrow_guard([&]() -> Result<std::optional<RowGroup>> { return find_small_group(); });
    if (!found.has_value()) return found.error().with_prefix(name_);
    return found;
  }

  Status read_group(const RowGroup& group, TextChunk& chunk) override {
    return arrow_guard([&] { return read_whole(group, chunk); }).with_prefix(name_);
  }

 private:
  /// Chunks of text in a small group, by what the file says; dictionaries may expand to more, so
  /// rows are limited too.
  static constexpr int64_t kMaxSmallChunks = 4;
  static constexpr int64_t kMaxSmallRows = 4096;

  std::optional<RowGroup> find_small_group() {
    // Look for none within a group, nor while rows are still to be passed over: these are counted
    // by next_batch() alone.
    if (is_in_group_ || skipped_ > 0 || next_group_ == end_group_) return std::nullopt;
    const auto size = file_->size(next_group_, columns_);
    if (!size.has_value() || size->rows < 1 || size->rows > kMaxSmallRows ||
        size->bytes > static_cast<int64_t>(chunk_bytes_) * kMaxSmallChunks) {
      return std::nullopt;
    }
    const RowGroup group{.number = next_group_++, .rows = size->rows, .offset = offset_};
    offset_ += group.rows;
    return group;
  }

  Status read_whole(const RowGroup& group, TextChunk& chunk) {
    MEG_RETURN_IF_ERROR(open_group(group.number));
    MEG_RETURN_IF_ERROR(begin(chunk));
    size_t bytes = 0;
    while (true) {
      MEG_RETURN_IF_ERROR(take_batch());
      if (!batch_.has_value()) break;
      for (row_ = 0; row_ < batch_->count; ++row_) MEG_RETURN_IF_ERROR(add_row(bytes, chunk));
    }
    // The footer's number of rows decided where the chunks after this one begin.
    if (std::ssize(chunk.records) != group.rows) {
      return make_error(StatusCode::kCorruption, "row group {}: expected {} rows, found {}",
                        group.number, group.rows, chunk.records.size());
    }
    offset_ = group.offset;
    finish(bytes, chunk);
    return Status();
  }

  Status begin(TextChunk& chunk) const {
    chunk.format = RecordFormat::kRows;
    chunk.records.clear();
    chunk.rows.values.clear();
    chunk.rows.texts.clear();
    chunk.rows.group = next_group_ - 1;
    chunk.rows.first = group_row_ + row_;
    return prepare_chunk(chunk, 0, chunk_bytes_);
  }

  Status read(TextChunk& chunk) {
    while (!batch_.has_value() || row_ == batch_->count) {
      MEG_ASSIGN_OR_RETURN(const bool more, next_batch());
      if (!more) break;
    }
    MEG_RETURN_IF_ERROR(begin(chunk));
    size_t bytes = 0;
    // One row more than a chunk has room for, so that a row longer than a chunk makes progress.
    for (; batch_.has_value() && row_ < batch_->count && bytes < chunk_bytes_; ++row_) {
      MEG_RETURN_IF_ERROR(add_row(bytes, chunk));
    }
    finish(bytes, chunk);
    return Status();
  }

  Status take_batch() {
    auto batch = file_->next();
    if (!batch.has_value()) {
      return batch.error().with_prefix(fmt::format("row group {}", next_group_ - 1));
    }
    batch_ = *std::move(batch);
    return Status();
  }

  /// The next batch, of the next group where one has ended; without the rows that are passed over.
  Result<bool> next_batch() {
    row_ = 0;
    while (true) {
      if (is_in_group_) {
        group_row_ += batch_.has_value() ? batch_->count : 0;
        MEG_RETURN_IF_ERROR(take_batch());
        is_in_group_ = batch_.has_value();
        if (!is_in_group_) continue;
        // Begin within a batch: a chunk may have ended in its middle.
        row_ = std::min(skipped_, batch_->count);
        offset_ += row_;
        skipped_ -= row_;
        return true;
      }
      if (next_group_ == end_group_) break;
      const int64_t group = next_group_++;
      // Whole groups in front of the place to continue are not even decoded, where the file says
      // how many rows they have.
      if (const auto size = file_->size(group, columns_); size && size->rows <= skipped_) {
        skipped_ -= size->rows;
        offset_ += size->rows;
        continue;
      }
      MEG_RETURN_IF_ERROR(open_group(group));
      is_in_group_ = true;
    }
    if (skipped_ == 0) return false;
    return make_error(StatusCode::kCorruption, "cannot continue at row {}: expected more rows",
                      offset_ + skipped_);
  }

  Status open_group(int64_t group) {
    next_group_ = group + 1;
    group_row_ = row_ = 0;
    batch_.reset();
    return file_->open_group(group, columns_, static_cast<int64_t>(chunk_bytes_))
        .with_prefix(fmt::format("row group {}", group));
  }

  /// Appends the batch's row to the chunk's records and its texts to the `bytes` of text.
  Status add_row(size_t& bytes, TextChunk& chunk) {
    Record record{.begin = bytes, .size = 0, .line = std::ssize(chunk.records), .column = 0};
    for (const TextColumn& column : batch_->columns) {
      texts_.clear();
      const RowValue::Kind kind = column.append_texts(row_, texts_);
      chunk.rows.values.push_back({kind, chunk.rows.texts.size(), texts_.size()});
      for (const std::string_view text : texts_) {
        MEG_RETURN_IF_ERROR(make_room(bytes + text.size(), chunk));
        if (!text.empty()) std::memcpy(chunk.buffer.get() + bytes, text.data(), text.size());
        chunk.rows.texts.push_back({bytes, text.size()});
        bytes += text.size();
      }
    }
    record.size = bytes - record.begin;
    chunk.records.push_back(record);
    return Status();
  }

  /// Makes room for `bytes` of text in all.
  Status make_room(size_t bytes, TextChunk& chunk) const {
    if (bytes + text::kTextPadding <= chunk.capacity) return Status();
    // Most chunks end with the first text beyond their size; whole groups continue. With more room
    // than this, the buffer would be given back for the next chunk.
    return grow_chunk(chunk, bytes + chunk_bytes_ / 4);
  }

  void finish(size_t bytes, TextChunk& chunk) {
    finish_chunk(chunk, bytes);
    chunk.offset = offset_;
    offset_ += std::ssize(chunk.records);
    chunk.end = offset_;
  }

  std::unique_ptr<ArrowFile> file_;
  std::string name_;
  std::vector<std::string> keys_;
  size_t chunk_bytes_;
  std::vector<ColumnPath> columns_;  // in the file's schema

  int64_t next_group_ = 0;
  int64_t end_group_ = 0;
  int64_t skipped_ = 0;  // rows still to pass over
  int64_t offset_ = 0;   // rows before the next one, of the selected groups
  bool is_in_group_ = false;
  int64_t group_row_ = 0;  // of the batch's first row, in its group
  std::optional<TextRows> batch_;
  int64_t row_ = 0;                      // the next one, in batch_
  std::vector<std::string_view> texts_;  // of a row's column
};

Result<std::unique_ptr<ColumnReader>> open_reader(const InputFile& file, ColumnFormat format,
                                                  const std::vector<std::string>& keys,
                                                  size_t chunk_bytes) {
  const auto open_file = [&]() -> Result<std::unique_ptr<ColumnReader>> {
    MEG_ASSIGN_OR_RETURN(std::unique_ptr<ArrowFile> arrow_file, ArrowFile::open(file, format));
    auto reader =
        std::make_unique<ArrowColumnReader>(std::move(arrow_file), file, keys, chunk_bytes);
    MEG_RETURN_IF_ERROR(reader->init());
    return std::unique_ptr<ColumnReader>(std::move(reader));
  };
  auto opened = arrow_guard(open_file);
  if (!opened.has_value()) return opened.error().with_prefix(file.name());
  return opened;
}

Result<int64_t> groups_of(const InputFile& file, ColumnFormat format) {
  const auto count = [&]() -> Result<int64_t> {
    MEG_ASSIGN_OR_RETURN(const std::unique_ptr<ArrowFile> arrow_file,
                         ArrowFile::open(file, format));
    return arrow_file->groups();
  };
  Result<int64_t> groups = arrow_guard(count);
  if (!groups.has_value()) return groups.error().with_prefix(file.name());
  return groups;
}

}  // namespace

// See ColumnModule: found by name, its version compared with the program's.
extern "C" {
// NOLINTNEXTLINE(readability-identifier-naming): a symbol of the library, not a name of C++.
extern __attribute__((visibility("default"))) const ColumnModule meg_column_module;
const ColumnModule meg_column_module{version(), open_reader, groups_of};
}

}  // namespace meg::preprocess
