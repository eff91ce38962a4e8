#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "libmeg/checkpoint/state/tensor_source.h"

namespace meg::checkpoint {

/// A file as a conversion would write it, read without being written: its bytes are made of the
/// checkpoint's when they are asked for. const functions may be called by several threads at once.
class VirtualFile {
 public:
  /// Elements that lie one after the other in the file.
  struct Part {
    uint64_t offset = 0;  ///< Of the first one in the file.
    std::shared_ptr<const TensorSource> source;

    uint64_t end() const { return offset + static_cast<uint64_t>(source->bytes()); }
  };

  /// parts: in any order; they must cover the file from 0 on, each byte once.
  VirtualFile(std::string name, std::vector<Part> parts);

  const std::string& name() const { return name_; }

  uint64_t size() const { return size_; }

  /// By ascending offset, none of them empty.
  std::span<const Part> parts() const { return parts_; }

  /// The parts that have bytes of [offset, offset + bytes).
  std::span<const Part> parts_of(uint64_t offset, uint64_t bytes) const;

  /// Reads bytes [offset, offset + into.size()), which must lie inside. Errors: those of
  /// TensorSource::read().
  Status read(uint64_t offset, std::span<std::byte> into) const;

 private:
  std::string name_;
  std::vector<Part> parts_;
  uint64_t size_ = 0;
};

/// A text's bytes.
std::shared_ptr<const TensorSource> text_source(std::string text);

/// A file that is this text.
VirtualFile text_file(std::string name, std::string text);

/// A file that is a copy of the one at `path`, which stays the one that is opened here; kIoError
/// where it has changed when it is read.
Result<VirtualFile> copied_file(std::string name, const std::string& path);

}  // namespace meg::checkpoint
