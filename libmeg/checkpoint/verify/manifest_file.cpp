#include "libmeg/checkpoint/verify/manifest_file.h"

#include <fmt/format.h>
#include <simdjson.h>

#include "libmeg/checkpoint/container/json/internal/json_string.h"
#include "libmeg/io/atomic_file.h"
#include "libmeg/io/mapped_file.h"

// One JSON object, a line for each tensor, so that two manifests can be compared by diff.

namespace meg::checkpoint {
namespace {

constexpr std::string_view kDigestName = "XXH3-128";
constexpr int64_t kSchema = 1;
/// A line for every logical tensor: 1 GiB would be millions of them.
constexpr size_t kLargestManifest = size_t{1} << 30;

std::string optional_json(const std::optional<int64_t>& value) {
  return value.has_value() ? std::to_string(*value) : "null";
}

std::string tensor_json(const ManifestTensor& tensor) {
  std::string digests;
  for (const std::string& digest : tensor.digests) {
    digests += fmt::format("{}{}", digests.empty() ? "" : ",", json_string(digest));
  }
  return fmt::format(
      R"({{"name":{},"kind":{},"dtype":{},"shape":[{}],"block_rows":{},"digests":[{}]}})",
      json_string(tensor.name), json_string(tensor.kind), json_string(dtype_name(tensor.dtype)),
      fmt::join(tensor.shape, ","), tensor.block_rows, digests);
}

/// Reads the fields of one JSON object after another; the first error stays.
class ManifestParser {
 public:
  explicit ManifestParser(const std::string& path) : path_(path) {}

  Result<Manifest> parse(std::string_view text);

 private:
  template <class... Args>
  Status corrupt(fmt::format_string<Args...> format, Args&&... args) const {
    return Status(StatusCode::kCorruption,
                  path_ + ": " + fmt::vformat(format, fmt::make_format_args(args...)));
  }

  Status read_head(const simdjson::dom::object& root, Manifest* manifest) const;
  Result<ManifestTensor> read_tensor(const simdjson::dom::element& value) const;

  const std::string& path_;
};

Result<Manifest> ManifestParser::parse(std::string_view text) {
  simdjson::dom::parser parser(kLargestManifest);
  simdjson::dom::object root;
  const simdjson::error_code error = parser.parse(text.data(), text.size()).get(root);
  if (error != simdjson::SUCCESS) {
    return corrupt("expected a manifest of verify manifest --write, found {}",
                   simdjson::error_message(error));
  }
  Manifest manifest;
  MEG_RETURN_IF_ERROR(read_head(root, &manifest));
  simdjson::dom::array tensors;
  // Parsed whole: lines may have been reordered or reformatted by other tools.
  if (root["tensors"].get(tensors) != simdjson::SUCCESS) {
    return corrupt("tensors: expected a list, found none");
  }
  for (const simdjson::dom::element value : tensors) {
    MEG_ASSIGN_OR_RETURN(ManifestTensor tensor, read_tensor(value));
    manifest.tensors.push_back(std::move(tensor));
  }
  return manifest;
}

Status ManifestParser::read_head(const simdjson::dom::object& root, Manifest* manifest) const {
  int64_t schema = 0;
  std::string_view digest;
  if (root["schema"].get(schema) != simdjson::SUCCESS || schema < 1) {
    return corrupt("schema: expected 1, found none");
  }
  // Digests of another hash would all seem changed; a later schema may mean something else by the
  // same fields.
  if (schema > kSchema || root["digest"].get(digest) != simdjson::SUCCESS ||
      digest != kDigestName) {
    return make_error(StatusCode::kUnsupported,
                      "{}: expected schema {} with digest {}, found schema {} of a newer libmeg",
                      path_, kSchema, kDigestName, schema);
  }
  int64_t number = 0;
  if (root["iteration"].get(number) == simdjson::SUCCESS) manifest->iteration = number;
  if (root["vocab_size"].get(number) == simdjson::SUCCESS) manifest->vocab_size = number;
  return Status();
}

Result<ManifestTensor> ManifestParser::read_tensor(const simdjson::dom::element& value) const {
  ManifestTensor tensor;
  std::string_view name, kind, dtype;
  simdjson::dom::array shape, digests;
  const bool is_whole = value["name"].get(name) == simdjson::SUCCESS &&
                        value["kind"].get(kind) == simdjson::SUCCESS &&
                        value["dtype"].get(dtype) == simdjson::SUCCESS &&
                        value["shape"].get(shape) == simdjson::SUCCESS &&
                        value["digests"].get(digests) == simdjson::SUCCESS &&
                        value["block_rows"].get(tensor.block_rows) == simdjson::SUCCESS;
  const std::optional<DType> known = dtype_from_name(dtype);
  if (!is_whole || !known.has_value() || tensor.block_rows < 0) {
    return corrupt("tensors: expected name, kind, dtype, shape, block_rows and digests, found {}",
                   name.empty() ? "another value" : name);
  }
  tensor.name = name;
  tensor.kind = kind;
  tensor.dtype = *known;
  for (const simdjson::dom::element size : shape) {
    int64_t rows = 0;
    if (size.get(rows) != simdjson::SUCCESS || rows < 0) {
      return corrupt("tensors: {}: shape: expected sizes", name);
    }
    tensor.shape.push_back(rows);
  }
  for (const simdjson::dom::element digest : digests) {
    std::string_view text;
    if (digest.get(text) != simdjson::SUCCESS) {
      return corrupt("tensors: {}: digests: expected text", name);
    }
    tensor.digests.emplace_back(text);
  }
  return tensor;
}

}  // namespace

Status write_manifest(const std::string& path, const Manifest& manifest) {
  std::string text =
      fmt::format("{{\"schema\":{},\"digest\":{},\"iteration\":{},\"vocab_size\":{},\"tensors\":[",
                  kSchema, json_string(kDigestName), optional_json(manifest.iteration),
                  optional_json(manifest.vocab_size));
  for (size_t i = 0; i < manifest.tensors.size(); ++i) {
    text += (i == 0 ? "\n" : ",\n") + tensor_json(manifest.tensors[i]);
  }
  text += "\n]}\n";
  MEG_ASSIGN_OR_RETURN(io::AtomicFile file, io::AtomicFile::create(path));
  MEG_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(text))));
  return file.commit();
}

Result<Manifest> read_manifest(const std::string& path) {
  MEG_ASSIGN_OR_RETURN(const io::MappedFile file, io::MappedFile::open(path));
  return ManifestParser(path).parse(file.text());
}

}  // namespace meg::checkpoint
