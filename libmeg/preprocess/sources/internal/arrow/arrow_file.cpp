#include "libmeg/preprocess/sources/internal/arrow/arrow_file.h"

#include <arrow/ipc/reader.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>

#include <algorithm>
#include <utility>

#include "libmeg/preprocess/sources/internal/arrow/arrow_guard.h"
#include "libmeg/preprocess/sources/internal/arrow/arrow_input.h"

// Three formats behind one interface. Arrow's own threads and read-ahead are off: the workers
// around us are as many as the run was given, and reading ahead would hold more batches in memory.

namespace meg::preprocess {
namespace {

/// Rows of a batch of Parquet, which says only how many bytes a group's columns have before their
/// values are looked up in dictionaries.
constexpr int64_t kMaxBatchRows = 1024;

/// Read of a column at a time.
int64_t read_bytes(const InputFile& file) { return int64_t{file.is_remote() ? 8 : 1} << 20; }

class ParquetFile : public ArrowFile {
 public:
  Status init(const InputFile& file) {
    MEG_ASSIGN_OR_RETURN(auto readable, arrow_input(file));
    parquet::ReaderProperties properties(limited_memory());
    // Otherwise a column chunk is read whole, which may be gigabytes.
    properties.enable_buffered_stream();
    properties.set_buffer_size(read_bytes(file));
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

  std::optional<GroupSize> size(int64_t group, const std::vector<int>& columns) const override {
    const auto metadata = reader_->parquet_reader()->metadata()->RowGroup(static_cast<int>(group));
    GroupSize size{.rows = metadata->num_rows(), .bytes = 0};
    for (const int leaf : leaves_of(columns)) {
      size.bytes += metadata->ColumnChunk(leaf)->total_uncompressed_size();
    }
    return size;
  }

  Status open_group(int64_t group, const std::vector<int>& columns, int64_t batch_bytes) override {
    batches_.reset();
    const GroupSize of = *size(group, columns);
    // The footer gives bytes and rows of the group, and so about how many rows make a batch.
    const int64_t row_bytes = std::max<int64_t>(of.bytes / std::max<int64_t>(of.rows, 1), 1);
    reader_->set_batch_size(std::clamp<int64_t>(batch_bytes / row_bytes, 1, kMaxBatchRows));
    MEG_ARROW_ASSIGN(batches_,
                     reader_->GetRecordBatchReader({static_cast<int>(group)}, leaves_of(columns)));
    return Status();
  }

  Result<std::shared_ptr<arrow::RecordBatch>> next() override {
    MEG_ARROW_ASSIGN(auto batch, batches_->Next());
    return batch;
  }

 private:
  std::vector<int> leaves_of(const std::vector<int>& columns) const {
    std::vector<int> leaves;
    for (const int column : columns) {
      add_leaves(reader_->manifest().schema_fields[static_cast<size_t>(column)], leaves);
    }
    return leaves;
  }

  static void add_leaves(const parquet::arrow::SchemaField& field, std::vector<int>& leaves) {
    if (field.is_leaf()) leaves.push_back(field.column_index);
    for (const parquet::arrow::SchemaField& child : field.children) add_leaves(child, leaves);
  }

  std::unique_ptr<parquet::arrow::FileReader> reader_;
  std::shared_ptr<arrow::Schema> schema_;
  std::unique_ptr<arrow::RecordBatchReader> batches_;
};

arrow::ipc::IpcReadOptions ipc_options() {
  arrow::ipc::IpcReadOptions options = arrow::ipc::IpcReadOptions::Defaults();
  options.memory_pool = limited_memory();
  options.use_threads = false;
  return options;
}

// Those of a batch's columns that are asked for, their offsets and indices checked: Arrow takes
// them from the file as they are, and GetView() would read wherever they point.
Result<std::shared_ptr<arrow::RecordBatch>> checked(
    const std::shared_ptr<arrow::RecordBatch>& batch, const std::vector<int>& columns) {
  MEG_ARROW_ASSIGN(auto selected, batch->SelectColumns(columns));
  const arrow::Status status = selected->ValidateFull();
  if (!status.ok()) return status_of(status);
  return selected;
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

  std::optional<GroupSize> size(int64_t, const std::vector<int>&) const override { return {}; }

  Status open_group(int64_t group, const std::vector<int>& columns, int64_t) override {
    MEG_ARROW_ASSIGN(auto batch, reader_->ReadRecordBatch(static_cast<int>(group)));
    MEG_ASSIGN_OR_RETURN(batch_, checked(batch, columns));
    return Status();
  }

  Result<std::shared_ptr<arrow::RecordBatch>> next() override {
    return std::exchange(batch_, nullptr);
  }

 private:
  std::shared_ptr<arrow::ipc::RecordBatchFileReader> reader_;
  std::shared_ptr<arrow::Schema> schema_;
  std::shared_ptr<arrow::RecordBatch> batch_;
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

  std::optional<GroupSize> size(int64_t, const std::vector<int>&) const override { return {}; }

  Status open_group(int64_t, const std::vector<int>& columns, int64_t) override {
    columns_ = columns;
    return Status();
  }

  Result<std::shared_ptr<arrow::RecordBatch>> next() override {
    MEG_ARROW_ASSIGN(auto batch, reader_->Next());
    if (batch == nullptr) return batch;
    return checked(batch, columns_);
  }

 private:
  std::shared_ptr<arrow::ipc::RecordBatchStreamReader> reader_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<int> columns_;
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
