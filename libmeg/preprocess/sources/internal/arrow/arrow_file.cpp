#include "libmeg/preprocess/sources/internal/arrow/arrow_file.h"

#include <arrow/ipc/reader.h>
#include <arrow/record_batch.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>

#include <algorithm>
#include <utility>

#include "libmeg/preprocess/sources/internal/arrow/arrow_guard.h"
#include "libmeg/preprocess/sources/internal/arrow/arrow_input.h"
#include "libmeg/preprocess/sources/internal/arrow/page_texts.h"

// Three formats behind one interface. Arrow's own threads and read-ahead are off: the workers
// around us are as many as the run was given, and reading ahead would hold more batches in memory.

namespace meg::preprocess {
namespace {

/// Rows of a batch of Parquet, which says only how many bytes a group's columns have before their
/// values are looked up in dictionaries.
constexpr int64_t kMaxBatchRows = 1024;

/// Read of a column at a time.
int64_t read_bytes(const InputFile& file) { return int64_t{file.is_remote() ? 8 : 1} << 20; }

/// What a path names in a batch, whose structs have only those of their fields that are read. Where
/// a struct is null, so are its fields.
Result<std::shared_ptr<arrow::Array>> find_array(const arrow::RecordBatch& batch,
                                                 const arrow::Schema& schema,
                                                 const ColumnPath& path) {
  const std::shared_ptr<arrow::Array> no_array;
  std::shared_ptr<arrow::Array> found = batch.GetColumnByName(schema.field(path.column)->name());
  for (const std::string& field : path.fields) {
    if (found == nullptr || found->type_id() != arrow::Type::STRUCT) return no_array;
    const auto& structs = static_cast<const arrow::StructArray&>(*found);
    const int index = structs.struct_type()->GetFieldIndex(field);
    if (index < 0) return no_array;
    MEG_ARROW_ASSIGN(found, structs.GetFlattenedField(index, limited_memory()));
  }
  return found;
}

/// These columns of a batch, found by their names in the file's schema.
Result<std::optional<TextRows>> rows_of(const arrow::RecordBatch& batch,
                                        const arrow::Schema& schema,
                                        const std::vector<ColumnPath>& columns) {
  TextRows rows{.count = batch.num_rows(), .columns = {}};
  for (const ColumnPath& path : columns) {
    MEG_ASSIGN_OR_RETURN(std::shared_ptr<arrow::Array> found, find_array(batch, schema, path));
    if (found == nullptr || !TextColumn::takes(*found->type())) {
      return make_error(StatusCode::kCorruption, "expected a column {} of text",
                        schema.field(path.column)->name());
    }
    rows.columns.emplace_back(std::move(found));
  }
  return std::optional(std::move(rows));
}

class ParquetFile : public ArrowFile {
 public:
  Status init(const InputFile& file) {
    MEG_ASSIGN_OR_RETURN(auto readable, arrow_input(file));
    parquet::ReaderProperties properties(limited_memory());
    // Otherwise a column chunk is read whole, which may be gigabytes.
    properties.enable_buffered_stream();
    properties.set_buffer_size(read_bytes(file));
    // Pages may have a checksum, as parquet-java writes them; a damaged text may still be UTF-8.
    properties.set_page_checksum_verification(true);
    parquet::arrow::FileReaderBuilder builder;
    arrow::Status status = builder.Open(std::move(readable), properties);
    if (!status.ok()) return status_of(status);
    parquet::ArrowReaderProperties arrow_properties;
    arrow_properties.set_use_threads(false);
    arrow_properties.set_pre_buffer(false);
    builder.memory_pool(limited_memory())->properties(arrow_properties);
    status = builder.Build(&reader_);
    if (!status.ok()) return status_of(status);
    status = reader_->GetSchema(&schema_);
    return status.ok() ? Status() : status_of(status);
  }

  const arrow::Schema& schema() const override { return *schema_; }

  int64_t groups() const override { return reader_->num_row_groups(); }

  std::optional<GroupSize> size(int64_t group,
                                const std::vector<ColumnPath>& columns) const override {
    const auto metadata = reader_->parquet_reader()->metadata()->RowGroup(static_cast<int>(group));
    GroupSize size{.rows = metadata->num_rows(), .bytes = 0};
    for (const int leaf : leaves_of(columns)) {
      size.bytes += metadata->ColumnChunk(leaf)->total_uncompressed_size();
    }
    return size;
  }

  Status open_group(int64_t group, const std::vector<ColumnPath>& columns,
                    int64_t batch_bytes) override {
    batches_.reset();
    pages_.reset();
    columns_ = columns;
    const GroupSize of = *size(group, columns);
    // The footer gives bytes and rows of the group, and so about how many rows make a batch.
    const int64_t row_bytes = std::max<int64_t>(of.bytes / std::max<int64_t>(of.rows, 1), 1);
    batch_rows_ = std::clamp<int64_t>(batch_bytes / row_bytes, 1, kMaxBatchRows);
    rows_left_ = of.rows;
    const std::vector<int> leaves = leaves_of(columns);
    if (is_one_plain_column(leaves)) {
      pages_.emplace(
          reader_->parquet_reader()->RowGroup(static_cast<int>(group))->Column(leaves[0]));
      return Status();
    }
    reader_->set_batch_size(batch_rows_);
    MEG_ARROW_ASSIGN(batches_, reader_->GetRecordBatchReader({static_cast<int>(group)}, leaves));
    return Status();
  }

  Result<std::optional<TextRows>> next() override {
    if (pages_.has_value()) return next_of_pages();
    MEG_ARROW_ASSIGN(const auto batch, batches_->Next());
    if (batch == nullptr) return std::optional<TextRows>();
    return rows_of(*batch, *schema_, columns_);
  }

 private:
  /// Several columns have pages of different rows, so that those of one are gone before all of the
  /// other's have come.
  bool is_one_plain_column(const std::vector<int>& leaves) const {
    if (leaves.size() != 1) return false;
    const auto& column = *reader_->parquet_reader()->metadata()->schema()->Column(leaves[0]);
    return column.physical_type() == parquet::Type::BYTE_ARRAY &&
           column.max_repetition_level() == 0 && column.max_definition_level() <= 1;
  }

  Result<std::optional<TextRows>> next_of_pages() {
    // A page may hold more values than its group has rows.
    auto rows = pages_->next(std::min(batch_rows_, rows_left_));
    rows_left_ -= rows.has_value() ? rows->count : 0;
    if (rows.has_value() || rows_left_ == 0) return rows;
    return make_error(StatusCode::kCorruption, "expected {} more rows, found the end", rows_left_);
  }

  std::vector<int> leaves_of(const std::vector<ColumnPath>& columns) const {
    std::vector<int> leaves;
    for (const ColumnPath& path : columns) {
      const auto* field = &reader_->manifest().schema_fields[static_cast<size_t>(path.column)];
      for (const std::string& name : path.fields) {
        field = &*std::find_if(field->children.begin(), field->children.end(),
                               [&](const auto& child) { return child.field->name() == name; });
      }
      add_leaves(*field, leaves);
    }
    return leaves;
  }

  static void add_leaves(const parquet::arrow::SchemaField& field, std::vector<int>& leaves) {
    if (field.is_leaf()) leaves.push_back(field.column_index);
    for (const parquet::arrow::SchemaField& child : field.children) add_leaves(child, leaves);
  }

  std::unique_ptr<parquet::arrow::FileReader> reader_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<ColumnPath> columns_;  // of the group, as what follows
  int64_t batch_rows_ = 0;
  int64_t rows_left_ = 0;
  std::optional<PageTexts> pages_;
  std::unique_ptr<arrow::RecordBatchReader> batches_;  // where pages_ is empty
};

arrow::ipc::IpcReadOptions ipc_options() {
  arrow::ipc::IpcReadOptions options = arrow::ipc::IpcReadOptions::Defaults();
  options.memory_pool = limited_memory();
  options.use_threads = false;
  return options;
}

/// Those of a batch's columns that are requested. Their offsets and indices are checked: Arrow
/// takes them from the file as they are, and GetView() would read wherever they point.
Result<std::optional<TextRows>> checked_rows_of(const arrow::RecordBatch& batch,
                                                const arrow::Schema& schema,
                                                const std::vector<ColumnPath>& columns) {
  // Two texts may be in structs of one column.
  std::vector<int> indices;
  for (const ColumnPath& path : columns) indices.push_back(path.column);
  std::sort(indices.begin(), indices.end());
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
  MEG_ARROW_ASSIGN(const auto selected, batch.SelectColumns(indices));
  const arrow::Status status = selected->ValidateFull();
  if (!status.ok()) return status_of(status);
  return rows_of(*selected, schema, columns);
}

class IpcFile : public ArrowFile {
 public:
  Status init(const InputFile& file) {
    MEG_ASSIGN_OR_RETURN(auto readable, arrow_input(file));
    MEG_ARROW_ASSIGN(reader_,
                     arrow::ipc::RecordBatchFileReader::Open(std::move(readable), ipc_options()));
    schema_ = reader_->schema();
    return Status();
  }

  const arrow::Schema& schema() const override { return *schema_; }

  int64_t groups() const override { return reader_->num_record_batches(); }

  std::optional<GroupSize> size(int64_t, const std::vector<ColumnPath>&) const override {
    return {};
  }

  Status open_group(int64_t group, const std::vector<ColumnPath>& columns, int64_t) override {
    MEG_ARROW_ASSIGN(const auto batch, reader_->ReadRecordBatch(static_cast<int>(group)));
    MEG_ASSIGN_OR_RETURN(rows_, checked_rows_of(*batch, *schema_, columns));
    return Status();
  }

  Result<std::optional<TextRows>> next() override { return std::exchange(rows_, std::nullopt); }

 private:
  std::shared_ptr<arrow::ipc::RecordBatchFileReader> reader_;
  std::shared_ptr<arrow::Schema> schema_;
  std::optional<TextRows> rows_;  // of the group
};

/// A stream of record batches is one group.
class IpcStream : public ArrowFile {
 public:
  Status init(const InputFile& file) {
    MEG_ASSIGN_OR_RETURN(auto readable, arrow_input(file));
    MEG_ARROW_ASSIGN(
        reader_, arrow::ipc::RecordBatchStreamReader::Open(
                     std::shared_ptr<arrow::io::InputStream>(std::move(readable)), ipc_options()));
    schema_ = reader_->schema();
    return Status();
  }

  const arrow::Schema& schema() const override { return *schema_; }

  int64_t groups() const override { return 1; }

  std::optional<GroupSize> size(int64_t, const std::vector<ColumnPath>&) const override {
    return {};
  }

  Status open_group(int64_t, const std::vector<ColumnPath>& columns, int64_t) override {
    columns_ = columns;
    return Status();
  }

  Result<std::optional<TextRows>> next() override {
    MEG_ARROW_ASSIGN(const auto batch, reader_->Next());
    if (batch == nullptr) return std::optional<TextRows>();
    return checked_rows_of(*batch, *schema_, columns_);
  }

 private:
  std::shared_ptr<arrow::ipc::RecordBatchStreamReader> reader_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<ColumnPath> columns_;
};

template <class File>
Result<std::unique_ptr<ArrowFile>> open_as(const InputFile& file) {
  auto opened_file = std::make_unique<File>();
  MEG_RETURN_IF_ERROR(opened_file->init(file));
  return std::unique_ptr<ArrowFile>(std::move(opened_file));
}

}  // namespace

Result<std::unique_ptr<ArrowFile>> ArrowFile::open(const InputFile& file, ColumnFormat format) {
  if (format == ColumnFormat::kParquet) return open_as<ParquetFile>(file);
  if (format == ColumnFormat::kArrowFile) return open_as<IpcFile>(file);
  return open_as<IpcStream>(file);
}

}  // namespace meg::preprocess
