// Any bytes as a pickle: what is read can be described, copied and written; the copy is written
// alike, and what was written is read and written the same again.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "libmeg/checkpoint/container/pickle/pickle_reader.h"
#include "libmeg/checkpoint/container/pickle/pickle_writer.h"
#include "tests/fuzz/fuzz_check.h"

namespace {

/// Looks at every node as other code does.
void look_into(const meg::checkpoint::PickleGraph& graph) {
  for (meg::checkpoint::PickleId id = 0; id < graph.size() && id < 1000; ++id) {
    (void)graph.class_name(id);
    (void)graph.find(id, "a");
    (void)graph.attribute(id, "a");
    (void)graph.as_bytes(id);
    (void)graph.as_number(id);
    MEG_FUZZ_CHECK(graph.describe(id, 30).size() <= 33);
  }
}

/// Protocol 2 nests bytes and sets deeper, so a pickle at the limit may not be read again.
void read_again(std::span<const std::byte> bytes) {
  meg::checkpoint::PickleGraph graph;
  const auto stream = meg::checkpoint::read_pickle(bytes, "again", &graph);
  if (!stream) {
    MEG_FUZZ_CHECK(stream.error().code() == meg::StatusCode::kResourceExhausted);
    return;
  }
  MEG_FUZZ_CHECK(stream->size == bytes.size());
  const auto written = meg::checkpoint::write_pickle(graph, stream->root);
  MEG_FUZZ_CHECK(written.has_value());
  MEG_FUZZ_CHECK(std::ranges::equal(*written, bytes));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  meg::checkpoint::PickleGraph graph;
  const auto stream =
      meg::checkpoint::read_pickle(std::as_bytes(std::span(data, size)), "pickle", &graph);
  look_into(graph);
  if (!stream) return 0;
  MEG_FUZZ_CHECK(stream->size <= size);
  (void)graph.describe(stream->root, 100000);

  meg::checkpoint::PickleGraph other;
  meg::checkpoint::PickleCopier copier(graph, other);
  const auto copy = copier.copy(stream->root);
  MEG_FUZZ_CHECK(copy.has_value());
  const auto written = meg::checkpoint::write_pickle(graph, stream->root);
  const auto written_copy = meg::checkpoint::write_pickle(other, *copy);
  MEG_FUZZ_CHECK(written.has_value() == written_copy.has_value());
  if (!written) return 0;
  MEG_FUZZ_CHECK(*written == *written_copy);
  read_again(*written);
  return 0;
}
