#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/checkpoint/container/torch_file/torch_file_writer.h"
#include "libmeg/checkpoint/container/torch_file/torch_source.h"
#include "libmeg/checkpoint/transfer/torch_transfer.h"

namespace meg::test {

/// One tensor of a file made for a test: its bytes, or a view of the storage that they fill.
struct MadeTensor {
  DType dtype = DType::kFloat32;
  std::vector<std::byte> storage;
  std::vector<int64_t> shape;
  int64_t offset = 0;
  std::vector<int64_t> strides;  ///< Empty: contiguous.
};

/// Writes tensors, each with a storage of its own, to a torch file and opens it.
inline std::shared_ptr<const checkpoint::TorchFile> make_source(
    const std::string& path, const std::vector<MadeTensor>& tensors) {
  checkpoint::TorchFileContent content;
  std::vector<checkpoint::PickleId> nodes;
  for (const MadeTensor& tensor : tensors) {
    const int storage = content.add_storage(tensor.dtype, tensor.storage.size(), tensor.storage);
    std::vector<int64_t> strides = tensor.strides;
    if (strides.empty()) {
      strides.assign(tensor.shape.size(), 1);
      for (size_t i = strides.size() - 1; i-- > 0;) {
        strides[i] = strides[i + 1] * tensor.shape[i + 1];
      }
    }
    nodes.push_back(content.add_tensor_view(storage, tensor.offset, tensor.shape, strides));
  }
  content.root = content.graph().add_list(nodes);
  auto layout = checkpoint::lay_out(content, "source");
  EXPECT_TRUE(layout.has_value()) << layout.status().message();
  auto writer = checkpoint::TorchFileWriter::create(path, content, std::move(*layout));
  EXPECT_TRUE(writer.has_value()) << writer.status().message();
  const Status finished = writer->finish();
  EXPECT_TRUE(finished.ok()) << finished.message();
  auto file = checkpoint::TorchFile::open(path);
  EXPECT_TRUE(file.has_value()) << file.status().message();
  return std::make_shared<const checkpoint::TorchFile>(std::move(*file));
}

/// The view of the tensor with this number in a file of make_source or make_target.
inline checkpoint::TensorView made_view(const checkpoint::TorchFile& file, size_t index) {
  const checkpoint::TensorView* view = file.tensor(file.graph().node(file.root()).children[index]);
  EXPECT_NE(view, nullptr);
  return view == nullptr ? checkpoint::TensorView{} : *view;
}

/// The piece of a tensor of `axes` that holds [begin, end) of axis `cut`: the tensor with this
/// number in a file of make_source.
inline checkpoint::Piece made_piece(const std::shared_ptr<const checkpoint::TorchFile>& file,
                                    size_t index, const std::vector<int64_t>& axes, size_t cut,
                                    int64_t begin, int64_t end,
                                    std::vector<int> memory_order = {}) {
  checkpoint::Piece piece{checkpoint::torch_source(file, made_view(*file, index)),
                          checkpoint::Box::whole(axes)};
  piece.box.offsets[cut] = begin;
  piece.box.sizes[cut] = end - begin;
  piece.memory_order = std::move(memory_order);
  return piece;
}

/// A target that takes [begin, end) of axis `cut` of a tensor of `axes`.
inline checkpoint::TransferTarget made_target(int sink, const std::vector<int64_t>& axes,
                                              size_t cut, int64_t begin, int64_t end) {
  checkpoint::TransferTarget target{.sink = sink, .box = checkpoint::Box::whole(axes)};
  target.box.offsets[cut] = begin;
  target.box.sizes[cut] = end - begin;
  return target;
}

/// A target file that will hold a list of tensors of these shapes, sinks from first_sink on.
inline checkpoint::TransferTargetFile make_target(const std::string& path, DType dtype,
                                                  const std::vector<std::vector<int64_t>>& shapes,
                                                  int first_sink = 0) {
  checkpoint::TransferTargetFile target;
  target.path = path;
  std::vector<checkpoint::PickleId> nodes;
  for (const auto& shape : shapes) {
    int64_t bytes = dtype_size(dtype);
    for (const int64_t size : shape) bytes *= size;
    const int storage = target.content.add_storage(dtype, static_cast<uint64_t>(bytes));
    nodes.push_back(target.content.add_tensor(storage, shape));
    target.sinks.push_back(first_sink + storage);
  }
  target.content.root = target.content.graph().add_list(nodes);
  auto layout = checkpoint::lay_out(target.content, "model_optim_rng");
  EXPECT_TRUE(layout.has_value()) << layout.status().message();
  target.layout = std::move(*layout);
  return target;
}

/// The bytes of tensor `index` of a file that an execution wrote, whose CRCs are compared as well.
inline std::vector<std::byte> written_tensor(const std::string& path, size_t index) {
  auto file = checkpoint::TorchFile::open(path);
  EXPECT_TRUE(file.has_value()) << file.status().message();
  if (!file.has_value()) return {};
  const Status checked = file->check_crcs();
  EXPECT_TRUE(checked.ok()) << checked.message();
  const checkpoint::TensorView view = made_view(*file, index);
  std::vector<std::byte> bytes(static_cast<size_t>(view.bytes()));
  const Status read = file->read_elements(view, 0, bytes);
  EXPECT_TRUE(read.ok()) << read.message();
  return bytes;
}

/// Inverts a bit of a file, at a byte of an extent of it.
inline void flip_bit(const checkpoint::FileExtent& extent, uint64_t byte) {
  std::FILE* opened = std::fopen(extent.file->path().c_str(), "r+b");
  ASSERT_NE(opened, nullptr);
  const auto offset = static_cast<long>(extent.offset + byte);
  std::fseek(opened, offset, SEEK_SET);
  const int before = std::fgetc(opened);
  std::fseek(opened, offset, SEEK_SET);
  std::fputc(before ^ 0x10, opened);
  std::fclose(opened);
}

/// The same at a byte of one of a torch file's storages.
inline void flip_bit(const checkpoint::TorchFile& file, int storage, uint64_t byte) {
  const checkpoint::TorchStorage& found = file.storages()[static_cast<size_t>(storage)];
  flip_bit(checkpoint::FileExtent{&file.file(), found.file_offset, found.bytes}, byte);
}

}  // namespace meg::test
