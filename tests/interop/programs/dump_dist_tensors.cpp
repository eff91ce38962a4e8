// dump_dist_tensors FOLDER...: every tensor of torch.distributed.checkpoint folders, put together
// from its chunks, for comparison with torch's own reading. For each folder a line "folder PATH",
// or "refused CODE MESSAGE"; for each tensor a line "tensor BYTES DTYPE SHAPE NAME" and its bytes
// in row-major order; for each object a line "object NAME"; "end".

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "libmeg/checkpoint/container/torch_dist/internal/dist_folder.h"
#include "libmeg/checkpoint/state/assembled_source.h"

namespace {

/// Reads in odd pieces, so that their seams are tried.
meg::Status dump_tensor(const meg::checkpoint::DistFolder& folder,
                        const meg::checkpoint::DistTensor& tensor) {
  MEG_ASSIGN_OR_RETURN(const auto source,
                       folder.box_source(tensor, meg::checkpoint::Box::whole(tensor.shape)));
  MEG_RETURN_IF_ERROR(meg::checkpoint::check_recorded_crcs(*source));
  std::string shape = meg::checkpoint::shape_text(tensor.shape);
  std::erase(shape, ' ');
  fmt::print("tensor {} {} {} {}\n", source->bytes(), meg::dtype_name(tensor.dtype), shape,
             tensor.name);
  const int64_t piece = 1 + source->elements() / 3;
  std::vector<std::byte> bytes(static_cast<size_t>(piece * meg::dtype_size(tensor.dtype)));
  for (int64_t first = 0; first < source->elements(); first += piece) {
    const int64_t count = std::min(piece, source->elements() - first);
    const auto into =
        std::span(bytes).first(static_cast<size_t>(count * meg::dtype_size(tensor.dtype)));
    MEG_RETURN_IF_ERROR(source->read(first, into));
    std::fwrite(into.data(), 1, into.size(), stdout);
  }
  return {};
}

meg::Status dump_folder(const std::string& path) {
  MEG_ASSIGN_OR_RETURN(const meg::checkpoint::DistFolder folder,
                       meg::checkpoint::DistFolder::open(path));
  fmt::print("folder {}\n", path);
  for (const meg::checkpoint::DistTensor& tensor : folder.metadata().tensors) {
    MEG_RETURN_IF_ERROR(dump_tensor(folder, tensor));
  }
  for (const meg::checkpoint::DistObject& object : folder.metadata().objects) {
    MEG_RETURN_IF_ERROR(folder.read_value(object.blob, object.name).status());
    fmt::print("object {}\n", object.name);
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const meg::Status status = dump_folder(argv[i]);
    if (!status.ok()) {
      fmt::print("refused {} {}\n", static_cast<int>(status.code()), status.message());
    }
    fmt::print("end\n");
  }
  return 0;
}
