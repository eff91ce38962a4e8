// dump_torch_tensors FILE...: every tensor of torch files, for comparison with torch's own reading.
// Prints for each file a line "file PATH", or "refused CODE MESSAGE"; for each tensor a line
// "tensor BYTES DTYPE SHAPE NAME" and its bytes in row-major order; "end".

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "libmeg/checkpoint/container/torch_file/torch_file.h"

namespace {

/// Names as the oracle has them: nested keys and indices joined by '/'.
class Dumper {
 public:
  explicit Dumper(const meg::checkpoint::TorchFile& file) : file_(file) {}

  meg::Status dump(meg::checkpoint::PickleId id, const std::string& name, int depth) {
    const meg::checkpoint::PickleGraph& graph = file_.graph();
    // Shared parts can be nested to more paths than there are stars.
    if (depth > 50 || ++visited_ > 100'000) return {};
    if (const meg::checkpoint::TensorView* view = file_.tensor(id)) return dump_tensor(*view, name);
    const meg::checkpoint::PickleNode& node = graph.node(id);
    const auto child_name = [&](const std::string& key) {
      return name.empty() ? key : name + "/" + key;
    };
    if (node.kind == meg::checkpoint::PickleKind::kList ||
        node.kind == meg::checkpoint::PickleKind::kTuple) {
      for (size_t i = 0; i < node.children.size(); ++i) {
        MEG_RETURN_IF_ERROR(dump(node.children[i], child_name(std::to_string(i)), depth + 1));
      }
    }
    const auto pairs = graph.pairs(id);
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      const auto text = graph.as_string(pairs[i]);
      const std::string key = text ? std::string(*text) : graph.describe(pairs[i]);
      MEG_RETURN_IF_ERROR(dump(pairs[i + 1], child_name(key), depth + 1));
    }
    if (const auto attributes = graph.attributes(id)) return dump(*attributes, name, depth + 1);
    return {};
  }

 private:
  /// Reads in odd pieces, so that their seams are tried.
  meg::Status dump_tensor(const meg::checkpoint::TensorView& view, const std::string& name) {
    std::string shape = meg::checkpoint::shape_text(view.shape);
    std::erase(shape, ' ');
    fmt::print("tensor {} {} {} {}\n", view.bytes(), meg::dtype_name(view.dtype), shape, name);
    const int64_t piece = 1 + view.numel() / 3;
    const int64_t item = meg::dtype_size(view.dtype);
    std::vector<std::byte> bytes(static_cast<size_t>(piece * item));
    for (int64_t first = 0; first < view.numel(); first += piece) {
      const int64_t count = std::min(piece, view.numel() - first);
      const auto into = std::span(bytes).first(static_cast<size_t>(count * item));
      MEG_RETURN_IF_ERROR(file_.read_elements(view, first, into));
      std::fwrite(into.data(), 1, into.size(), stdout);
    }
    return {};
  }

  const meg::checkpoint::TorchFile& file_;
  int visited_ = 0;
};

meg::Status dump_file(const std::string& path) {
  MEG_ASSIGN_OR_RETURN(const meg::checkpoint::TorchFile file,
                       meg::checkpoint::TorchFile::open(path));
  MEG_RETURN_IF_ERROR(file.check_crcs());
  fmt::print("file {}\n", path);
  return Dumper(file).dump(file.root(), "", 0);
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const meg::Status status = dump_file(argv[i]);
    if (!status.ok()) {
      fmt::print("refused {} {}\n", static_cast<int>(status.code()), status.message());
    }
    fmt::print("end\n");
  }
  return 0;
}
