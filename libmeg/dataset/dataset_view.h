#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libmeg/base/progress.h"
#include "libmeg/base/result.h"
#include "libmeg/dataset/indexed_dataset.h"

namespace meg::dataset {

/// What PREFIX.libmeg says of a view.
struct ViewOf {
  std::string bin;          ///< The file that PREFIX.bin links to, as the link names it.
  int64_t bytes = 0;        ///< Its size when the view was made.
  std::string blocks = {};  ///< A digest of some blocks of it then; empty: not known.
};

/// nullopt for a dataset that write_dataset_view() did not write. kCorruption if the file is not
/// such a file. prefix: may end in ".bin" or ".idx".
Result<std::optional<ViewOf>> read_view_of(const std::string& prefix);

/// Documents of a dataset in the order that they are to have, each any number of times: calls
/// `take(begin, end)` for ranges of documents [begin, end), and returns the first error that it
/// gives. Called several times, always with the same result.
using DocumentOrder =
    std::function<Status(const std::function<Status(int64_t begin, int64_t end)>& take)>;

/// Documents that a view is made of.
struct ViewPart {
  const IndexedDataset* source = nullptr;
  DocumentOrder order;
};

struct ViewOptions {
  /// Copies the tokens into a .bin of the view's own, instead of pointing into the source's.
  bool copy = false;
  ProgressCallback progress = {};  ///< Documents and tokens; may be empty.
};

struct ViewSummary {
  int64_t documents = 0;
  int64_t sequences = 0;
  int64_t items = 0;           ///< tokens
  std::optional<ViewOf> view;  ///< nullopt for a copy.
  /// Which parts have no provenance where others do, or another tokenizer.
  std::vector<std::string> notes = {};
};

/// Writes documents of datasets, part after part, as another one: PREFIX.idx, which points into the
/// sources' .bin, and PREFIX.bin, a symbolic link to it. Megatron's readers follow both. Tokenizer
/// and provenance come along. Memory does not grow with the dataset.
///
/// parts: at least one, of MMIDIDX in files, all of one type of items and with modes or all
/// without; views of one .bin or that dataset itself, and with `copy` any. Errors: kInvalidArgument
/// for parts that differ in these, where PREFIX.bin is there and no link, which could be the data
/// of other views, or where the output is a source; kOutOfRange for documents that there are not;
/// kCorruption for a document that is not inside .bin; kUnsupported for TNTIDX, kCancelled.
Result<ViewSummary> write_dataset_view(std::span<const ViewPart> parts,
                                       const std::string& output_prefix,
                                       const ViewOptions& options);

/// Of one part.
Result<ViewSummary> write_dataset_view(const IndexedDataset& source, const DocumentOrder& order,
                                       const std::string& output_prefix,
                                       const ViewOptions& options);

/// Whether the datasets have the tokens of one .bin, so that a view may be made of all. prefixes:
/// at least one; each may end in ".bin" or ".idx".
bool share_bin(std::span<const std::string> prefixes);

}  // namespace meg::dataset
