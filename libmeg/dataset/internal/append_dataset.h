#pragma once

#include <string>

#include "libmeg/base/result.h"
#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/dataset/indexed_dataset_builder.h"

namespace meg::dataset {

/// What becomes of an .idx whose sequences do not fill .bin one after another.
enum class Views {
  kRefuse,  ///< kCorruption.
  /// It is a view, unless .bin is longer by one item a document: then 6ef5bdc wrote the lengths one
  /// short, and they are refused.
  kTell,
  kTake,  ///< It is a view.
};

struct AppendOptions {
  Views views = Views::kRefuse;
  bool widen = false;               ///< Take every dtype whose values the builder's can hold.
  io::FileDescriptor::Moved moved;  ///< Bytes of .bin; may be empty.
};

/// Whether every value of `from` is one of `to` too.
bool dtype_holds(DType to, DType from);

/// Appends all documents of `set`; of a view, the sequences that its pointers name, in its order.
/// Returns whether it is a view. Errors: kInvalidArgument for another dtype or other modes than the
/// builder's, kCorruption.
Result<bool> append_dataset(IndexedDatasetBuilder& builder, const IndexedDataset& set,
                            const AppendOptions& options);

}  // namespace meg::dataset
