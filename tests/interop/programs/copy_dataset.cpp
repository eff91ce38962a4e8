// copy_dataset [--multimodal] OUT IN: copies IN to OUT, sequence by sequence.
// copy_dataset [--multimodal] OUT IN IN...: merges with add_index.
// The interop tests use it: the copy of what Megatron wrote must be the same bytes.

#include <cstdio>
#include <string>
#include <vector>

#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/dataset/indexed_dataset_builder.h"

namespace {

meg::Status copy_documents(const meg::dataset::IndexedDataset& from,
                           meg::dataset::IndexedDatasetBuilder& to) {
  for (int64_t document = 0; document < from.document_count(); ++document) {
    MEG_ASSIGN_OR_RETURN(const meg::dataset::SequenceRange range, from.document(document));
    for (int64_t sequence = range.begin; sequence < range.end; ++sequence) {
      MEG_ASSIGN_OR_RETURN(const auto items, from.sequence(sequence));
      const int8_t mode = from.multimodal() ? from.sequence_modes()[sequence] : int8_t{0};
      MEG_RETURN_IF_ERROR(to.add_item(items, mode));
    }
    MEG_RETURN_IF_ERROR(to.end_document());
  }
  return meg::Status();
}

meg::Status run(const std::vector<std::string>& paths, bool multimodal) {
  MEG_ASSIGN_OR_RETURN(const auto first,
                       meg::dataset::IndexedDataset::open(paths[1], {.multimodal = multimodal}));
  MEG_ASSIGN_OR_RETURN(auto builder,
                       meg::dataset::IndexedDatasetBuilder::create(
                           paths[0], {.dtype = first.dtype(), .multimodal = multimodal}));
  if (paths.size() == 2) {
    MEG_RETURN_IF_ERROR(copy_documents(first, builder));
    return builder.finish();
  }
  for (size_t i = 1; i < paths.size(); ++i) MEG_RETURN_IF_ERROR(builder.add_index(paths[i]));
  return builder.finish();
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> paths(argv + 1, argv + argc);
  const bool multimodal = !paths.empty() && paths[0] == "--multimodal";
  if (multimodal) paths.erase(paths.begin());
  if (paths.size() < 2) return 2;
  const meg::Status status = run(paths, multimodal);
  if (!status.ok()) std::fprintf(stderr, "error: %s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
