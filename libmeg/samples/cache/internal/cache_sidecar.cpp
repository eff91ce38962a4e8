#include "libmeg/samples/cache/internal/cache_sidecar.h"

#include <fmt/format.h>
#include <simdjson.h>

#include "libmeg/io/digest.h"
#include "libmeg/io/file_descriptor.h"

namespace meg::samples {
namespace {

constexpr int64_t kSchema = 1;

/// Bytes; sidecars have less than a tenth of it.
constexpr size_t kLargestSidecar = size_t{1} << 14;

std::string reblended_text(const CacheSidecar& sidecar) {
  if (!sidecar.reblended) return {};
  const auto& [epochs, documents, rows, samples, first_epoch] = *sidecar.reblended;
  return fmt::format(
      "\n  \"reblended\": {{\"epochs\": {}, \"documents\": {}, \"rows\": {}, \"samples\": {}, "
      "\"first_epoch\": {}}},",
      epochs, documents, rows, samples, first_epoch);
}

/// The text up to its own digest.
std::string text_without_digest(const CacheSidecar& sidecar) {
  return fmt::format(
      R"({{
  "schema": {},
  "idx": {{"size": {}, "mtime_ns": {}, "xxh3": "{}"}},
  "sequences": {{"begin": {}, "end": {}, "tokens": {}, "longest": {}, "xxh3": "{}"}},
  "options": {{"extra_token": {}, "drop_last_partial": {}}},
  "indices": {{"document": "{}", "sample": "{}", "shuffle": "{}"}},{}
  "xxh3": ")",
      kSchema, sidecar.idx.size, sidecar.idx.mtime_ns, sidecar.idx.xxh3, sidecar.sequences.begin,
      sidecar.sequences.end, sidecar.lengths.tokens, sidecar.lengths.longest, sidecar.lengths.xxh3,
      sidecar.extra_token, sidecar.drop_last_partial, sidecar.indices.document_index,
      sidecar.indices.sample_index, sidecar.indices.shuffle_index, reblended_text(sidecar));
}

std::string digest_of(std::string_view text) {
  io::Digest digest;
  digest.add(std::as_bytes(std::span(text)));
  return digest.hex();
}

/// Takes fields out of the object; keeps the first one that is missing or of another type.
class FieldReader {
 public:
  explicit FieldReader(const simdjson::dom::element& root) : root_(root) {}

  /// pointer: such as "/idx/size".
  template <class T>
  void read(std::string_view pointer, T* value) {
    if (root_.at_pointer(pointer).get(*value) != simdjson::SUCCESS && missing_.empty()) {
      missing_ = pointer;
    }
  }

  void read(std::string_view pointer, std::string* value) {
    std::string_view text;
    read(pointer, &text);
    *value = text;
  }

  const std::string& missing() const { return missing_; }

 private:
  simdjson::dom::element root_;
  std::string missing_;
};

Status corrupt(const std::string& name, std::string_view found) {
  return make_error(StatusCode::kCorruption, "{}: expected what libmeg writes beside a cache, {}",
                    name, found);
}

}  // namespace

std::string sidecar_text(const CacheSidecar& sidecar) {
  const std::string text = text_without_digest(sidecar);
  return text + digest_of(text) + "\"\n}\n";
}

Result<CacheSidecar> parse_sidecar(std::string_view text, const std::string& name) {
  simdjson::dom::parser parser(kLargestSidecar);
  simdjson::dom::element root;
  const simdjson::error_code error = parser.parse(text.data(), text.size()).get(root);
  if (error != simdjson::SUCCESS) return corrupt(name, simdjson::error_message(error));
  FieldReader fields(root);
  int64_t schema = kSchema;
  fields.read("/schema", &schema);
  // Told apart from damage: a later libmeg may have written it.
  if (schema != kSchema) {
    return make_error(StatusCode::kUnsupported, "{}: schema: expected {}, found {}", name, kSchema,
                      schema);
  }
  CacheSidecar sidecar;
  fields.read("/idx/size", &sidecar.idx.size);
  fields.read("/idx/mtime_ns", &sidecar.idx.mtime_ns);
  fields.read("/idx/xxh3", &sidecar.idx.xxh3);
  fields.read("/sequences/begin", &sidecar.sequences.begin);
  fields.read("/sequences/end", &sidecar.sequences.end);
  fields.read("/sequences/tokens", &sidecar.lengths.tokens);
  fields.read("/sequences/longest", &sidecar.lengths.longest);
  fields.read("/sequences/xxh3", &sidecar.lengths.xxh3);
  fields.read("/options/extra_token", &sidecar.extra_token);
  fields.read("/options/drop_last_partial", &sidecar.drop_last_partial);
  fields.read("/indices/document", &sidecar.indices.document_index);
  fields.read("/indices/sample", &sidecar.indices.sample_index);
  fields.read("/indices/shuffle", &sidecar.indices.shuffle_index);
  if (simdjson::dom::element found; root.at_pointer("/reblended").get(found) == simdjson::SUCCESS) {
    sidecar.reblended.emplace();
    fields.read("/reblended/epochs", &sidecar.reblended->epochs);
    fields.read("/reblended/documents", &sidecar.reblended->documents);
    fields.read("/reblended/rows", &sidecar.reblended->rows);
    fields.read("/reblended/samples", &sidecar.reblended->samples);
    fields.read("/reblended/first_epoch", &sidecar.reblended->first_epoch);
  }
  std::string digest;
  fields.read("/xxh3", &digest);
  if (!fields.missing().empty()) {
    return corrupt(name, fmt::format("found no {}", fields.missing().substr(1)));
  }
  // The digest is of the text that these values give, not of the text found: spaces may differ,
  // values may not.
  if (digest != digest_of(text_without_digest(sidecar))) {
    return corrupt(name, "found other values than its digest has");
  }
  return sidecar;
}

Result<CacheSidecar> read_sidecar(const std::string& path) {
  MEG_ASSIGN_OR_RETURN(const io::FileDescriptor file, io::FileDescriptor::open_regular(path));
  std::string text(kLargestSidecar, '\0');
  MEG_ASSIGN_OR_RETURN(const size_t size, file.read(std::as_writable_bytes(std::span(text))));
  // Anything may stand at this path; no more than the limit is ever read.
  if (size == kLargestSidecar) return corrupt(path, "found a longer file");
  return parse_sidecar(std::string_view(text).substr(0, size), path);
}

}  // namespace meg::samples
