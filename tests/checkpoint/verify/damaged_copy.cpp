#include "tests/checkpoint/verify/damaged_copy.h"

#include <gtest/gtest.h>

#include <array>
#include <fstream>

#include "libmeg/base/float_convert.h"
#include "tests/checkpoint/torch_tree.h"

namespace meg::test {

std::string core_checkpoint(const std::string& name) {
  return MEG_SOURCE_DIR "/testdata/megatron_core/" + name;
}

checkpoint::MegatronCheckpoint open_whole(const std::string& path) {
  const Result<checkpoint::CheckpointFolder> folder = checkpoint::find_checkpoint(path);
  if (!folder.has_value()) throw std::runtime_error(folder.error().message());
  Result<checkpoint::MegatronCheckpoint> opened = checkpoint::MegatronCheckpoint::open(*folder, {});
  if (!opened.has_value()) throw std::runtime_error(opened.error().message());
  return *std::move(opened);
}

DamagedCopy::DamagedCopy(const std::string& name) {
  std::filesystem::copy(core_checkpoint(name), root(), std::filesystem::copy_options::recursive);
}

void DamagedCopy::set_element(const std::string& rank, const std::string& tensor, int64_t element,
                              float value) {
  const Result<checkpoint::TorchFile> opened = checkpoint::TorchFile::open(file(rank));
  ASSERT_TRUE(opened.has_value()) << opened.error().message();
  const TreeNode node = root_of(*opened).at(tensor);
  ASSERT_TRUE(node) << tensor;
  const checkpoint::TensorView* view = opened->tensor(node.id);
  ASSERT_TRUE(view != nullptr && view->is_contiguous()) << tensor;
  ASSERT_LT(element, view->numel());
  const int64_t size = dtype_size(view->dtype);
  std::array<std::byte, 4> bytes;
  const std::span<std::byte> narrow = std::span(bytes).first(static_cast<size_t>(size));
  const Status converted =
      convert_floats(DType::kFloat32, std::as_bytes(std::span(&value, 1)), view->dtype, narrow);
  ASSERT_TRUE(converted.ok()) << converted.message();
  const checkpoint::TorchStorage& storage = opened->storages()[static_cast<size_t>(view->storage)];
  std::fstream out(file(rank), std::ios::in | std::ios::out | std::ios::binary);
  out.seekp(static_cast<std::streamoff>(storage.file_offset) + (view->offset + element) * size);
  out.write(reinterpret_cast<const char*>(narrow.data()), size);
}

}  // namespace meg::test
