// rewrite_torch_file FROM TO: reads a torch file and writes its value again, all storages whole,
// with the holes that it has.

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <vector>

#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/checkpoint/container/torch_file/torch_file_writer.h"
#include "libmeg/io/crc32.h"

namespace {

/// The same value over storages of the same order.
meg::Result<meg::checkpoint::TorchFileContent> content_of(const meg::checkpoint::TorchFile& file) {
  meg::checkpoint::TorchFileContent content;
  const meg::checkpoint::PickleGraph& graph = file.graph();
  meg::checkpoint::PickleCopier copier(graph, content.graph());
  for (const meg::checkpoint::TorchStorage& storage : file.storages()) {
    content.add_storage(storage.dtype, storage.bytes);
  }
  for (meg::checkpoint::PickleId id = 0; id < graph.size(); ++id) {
    const meg::checkpoint::PickleNode& node = graph.node(id);
    if (node.kind == meg::checkpoint::PickleKind::kGlobal) {
      copier.replace(id, content.global(node.text, node.name));
    }
  }
  for (const meg::checkpoint::PickleId id : file.tensor_nodes()) {
    const meg::checkpoint::TensorView& view = *file.tensor(id);
    copier.replace(id,
                   content.add_tensor_view(view.storage, view.offset, view.shape, view.strides));
  }
  MEG_ASSIGN_OR_RETURN(content.root, copier.copy(file.root()));
  return content;
}

meg::Status copy_storage(const meg::checkpoint::TorchFile& from, int index,
                         meg::checkpoint::TorchFileWriter* to) {
  const meg::checkpoint::TorchStorage& storage = from.storages()[static_cast<size_t>(index)];
  std::vector<std::byte> chunk(size_t{1} << 20);
  MEG_ASSIGN_OR_RETURN(const auto descriptor, from.file().pin());
  uint32_t crc = 0;
  for (uint64_t at = 0; at < storage.bytes;) {
    const auto file_at = static_cast<off_t>(storage.file_offset + at);
    const off_t data = ::lseek(descriptor->get(), file_at, SEEK_DATA);
    const uint64_t hole =
        std::min<uint64_t>(data < 0 ? storage.bytes - at : static_cast<uint64_t>(data - file_at),
                           storage.bytes - at) /
        16 * 16;
    crc = meg::io::crc32_combine(crc, meg::io::crc32_of_zeros(hole), hole);
    at += hole;
    const auto piece = std::span(chunk).first(std::min<uint64_t>(chunk.size(), storage.bytes - at));
    MEG_RETURN_IF_ERROR(from.read_storage(index, at, piece));
    MEG_RETURN_IF_ERROR(to->write(index, at, piece));
    crc = meg::io::crc32(piece, crc);
    at += piece.size();
  }
  to->set_crc(index, crc);
  return {};
}

meg::Status rewrite(const std::string& from, const std::string& to) {
  MEG_ASSIGN_OR_RETURN(const meg::checkpoint::TorchFile file,
                       meg::checkpoint::TorchFile::open(from));
  MEG_ASSIGN_OR_RETURN(const meg::checkpoint::TorchFileContent content, content_of(file));
  MEG_ASSIGN_OR_RETURN(meg::checkpoint::TorchFileLayout layout,
                       meg::checkpoint::lay_out(content, std::filesystem::path(to).stem()));
  MEG_ASSIGN_OR_RETURN(meg::checkpoint::TorchFileWriter writer,
                       meg::checkpoint::TorchFileWriter::create(to, content, std::move(layout)));
  for (size_t i = 0; i < file.storages().size(); ++i) {
    MEG_RETURN_IF_ERROR(copy_storage(file, static_cast<int>(i), &writer));
  }
  return writer.finish();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const meg::Status status = rewrite(argv[1], argv[2]);
  if (!status.ok()) fmt::print(stderr, "{}\n", status.message());
  return status.ok() ? 0 : 1;
}
