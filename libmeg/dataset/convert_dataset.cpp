#include "libmeg/dataset/convert_dataset.h"

#include <fmt/format.h>

#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "libmeg/base/bytes.h"
#include "libmeg/dataset/dataset_tokenizer.h"
#include "libmeg/dataset/indexed_dataset_builder.h"
#include "libmeg/dataset/internal/item_types.h"
#include "libmeg/dataset/internal/merge_provenance.h"
#include "libmeg/dataset/internal/view_files.h"

namespace meg::dataset {
namespace {

/// Documents between two calls of progress.
constexpr int64_t kReported = 1 << 14;

template <class To, class From>
bool holds_value(From value) {
  if constexpr (std::is_integral_v<To>) {
    return std::in_range<To>(value);
  } else {
    return value != value || static_cast<From>(static_cast<To>(value)) == value;
  }
}

/// Number of the first item that does not fit; -1: none.
template <class From, class To>
int64_t convert_items(std::span<const std::byte> items, std::vector<std::byte>& converted) {
  const size_t count = items.size() / sizeof(From);
  converted.resize(count * sizeof(To));
  for (size_t i = 0; i < count; ++i) {
    const From value = load_le<From>(&items[i * sizeof(From)]);
    if (!holds_value<To>(value)) return static_cast<int64_t>(i);
    store_le(&converted[i * sizeof(To)], static_cast<To>(value));
  }
  return -1;
}

using ConvertItems = int64_t (*)(std::span<const std::byte>, std::vector<std::byte>&);

/// nullptr where one type is of integers and the other of floats.
ConvertItems conversion(DType from, DType to) {
  return with_item_type(from, [to]<class From>(From) {
    return with_item_type(to, []<class To>(To) -> ConvertItems {
      if constexpr (std::is_integral_v<From> != std::is_integral_v<To>) {
        return nullptr;
      } else {
        return convert_items<From, To>;
      }
    });
  });
}

std::string item_text(DType type, std::span<const std::byte> items, int64_t item) {
  return with_item_type(type, [&]<class Item>(Item) {
    return fmt::format("{}", load_le<Item>(&items[static_cast<size_t>(item) * sizeof(Item)]));
  });
}

Status copy_documents(const IndexedDataset& source, IndexedDatasetBuilder& builder,
                      ConvertItems convert, const ProgressCallback& progress) {
  const auto modes = source.sequence_modes();
  std::vector<std::byte> converted;
  for (int64_t document = 0; document < source.document_count(); ++document) {
    MEG_ASSIGN_OR_RETURN(const SequenceRange range, source.document(document));
    for (int64_t at = range.begin; at < range.end; ++at) {
      MEG_ASSIGN_OR_RETURN(const auto items, source.sequence(at));
      const int64_t misfit = convert == nullptr ? -1 : convert(items, converted);
      if (misfit >= 0) {
        return make_error(StatusCode::kOutOfRange,
                          "{}: sequence {}, item {}: expected a value of {}, found {}",
                          source.bin().path(), at, misfit, dtype_name(builder.options().dtype),
                          item_text(source.dtype(), items, misfit));
      }
      const std::span<const std::byte> written = convert == nullptr ? items : converted;
      MEG_RETURN_IF_ERROR(builder.add_item(written, modes.empty() ? int8_t{0} : modes[at]));
      source.bin().release(items);
    }
    MEG_RETURN_IF_ERROR(builder.end_document());
    if (!progress || document % kReported != 0) continue;
    if (!progress({.documents = document, .tokens = builder.item_count()})) {
      return {StatusCode::kCancelled, builder.bin_path() + ": cancelled"};
    }
  }
  return {};
}

}  // namespace

Result<ConvertSummary> convert_dataset(const IndexedDataset& source, const std::string& output,
                                       const ConvertOptions& options) {
  const std::string prefix = dataset_prefix(output);
  MEG_RETURN_IF_ERROR(check_output(source.prefix(), prefix, OutputBin::kOwn));
  IndexedDatasetBuilder::Options made{.format = options.format.value_or(source.format()),
                                      .dtype = options.dtype.value_or(source.dtype()),
                                      .multimodal = source.multimodal()};
  if (source.flattened() && made.format == IndexFormat::kTntidx) {
    return make_error(StatusCode::kUnsupported,
                      "{}: items of several dimensions become one-dimensional in MMIDIDX; expected "
                      "that as the format, found TNTIDX",
                      source.prefix());
  }
  const bool same = made.dtype == source.dtype();
  const ConvertItems convert = same ? nullptr : conversion(source.dtype(), made.dtype);
  if (!same && convert == nullptr) {
    return make_error(StatusCode::kInvalidArgument, "{}: {} items cannot become {}",
                      source.prefix(), dtype_name(source.dtype()), dtype_name(made.dtype));
  }
  MEG_ASSIGN_OR_RETURN(made.tokenizer, read_dataset_tokenizer(source.prefix()));
  MEG_ASSIGN_OR_RETURN(IndexedDatasetBuilder builder, IndexedDatasetBuilder::create(prefix, made));
  std::vector<std::string> notes;  // that a single source has no provenance is none
  MEG_ASSIGN_OR_RETURN(auto provenance, merged_provenance({source.prefix()}, prefix, notes));
  MEG_RETURN_IF_ERROR(copy_documents(source, builder, convert, options.progress));
  const ConvertSummary summary{made.format, made.dtype, builder.document_count(),
                               builder.sequence_count(), builder.item_count()};
  MEG_RETURN_IF_ERROR(builder.finish());
  if (provenance) MEG_RETURN_IF_ERROR(provenance->publish());
  return summary;
}

}  // namespace meg::dataset
