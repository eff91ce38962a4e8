#pragma once

#include <optional>
#include <string>

#include "libmeg/checkpoint/container/torch_file/torch_file.h"

namespace meg::checkpoint {

/// A plain value of a file as one line of text, which is equal for equal values: numbers, texts,
/// lists ...; tensors of one element by their content, larger ones by their shape.
std::string node_text(const TorchFile& file, PickleId id);

/// A number, or a tensor of one; nullopt for everything else.
std::optional<double> node_number(const TorchFile& file, PickleId id);

}  // namespace meg::checkpoint
