// Any bytes as a .npy file: what the header gives lies in the file, and libmeg's own header for the
// same array is read back.

#include <cstddef>
#include <cstdint>
#include <span>

#include "libmeg/numpy/internal/npy_header.h"
#include "libmeg/numpy/npy.h"
#include "tests/fuzz/fuzz_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = std::as_bytes(std::span(data, size));
  const auto header = meg::numpy::read_npy_header(file, "a.npy");
  if (!header.has_value()) {
    MEG_FUZZ_CHECK(header.error().code() == meg::StatusCode::kCorruption ||
                   header.error().code() == meg::StatusCode::kUnsupported);
    MEG_FUZZ_CHECK(header.error().message().find('\n') == std::string::npos);
    return 0;
  }
  const auto element = static_cast<size_t>(meg::dtype_size(header->dtype));
  MEG_FUZZ_CHECK(header->offset + static_cast<size_t>(header->elements) * element == size);
  // Go on only with what is small: the written header has room for every dimension.
  if (header->shape.size() > 8) return 0;
  const auto written = meg::numpy::npy_header(header->dtype, header->shape);
  MEG_FUZZ_CHECK(written.has_value());
  std::string again = *written;
  again.append(reinterpret_cast<const char*>(data) + header->offset, size - header->offset);
  const auto read = meg::numpy::read_npy_header(std::as_bytes(std::span(again)), "b.npy");
  MEG_FUZZ_CHECK(read.has_value());
  MEG_FUZZ_CHECK(read->dtype == header->dtype && read->shape == header->shape);
  return 0;
}
