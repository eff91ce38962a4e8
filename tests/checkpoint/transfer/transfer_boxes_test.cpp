// Tensors cut into boxes along all of their axes, and boxes into flat ranges, on both sides:
// against the rule for one element.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "libmeg/checkpoint/transfer/merged_reader.h"
#include "libmeg/checkpoint/transfer/transfer_executor.h"
#include "libmeg/io/crc32.h"

namespace meg::checkpoint {
namespace {

using Random = std::minstd_rand;

int64_t draw(Random* random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>((*random)() % static_cast<uint64_t>(high - low + 1));
}

/// Cuts a box at random places of random axes into disjoint boxes.
void cut(const Box& box, int cuts, Random* random, std::vector<Box>* boxes) {
  const auto axis =
      static_cast<size_t>(draw(random, 0, static_cast<int64_t>(box.sizes.size()) - 1));
  if (cuts == 0 || box.sizes[axis] < 2) {
    boxes->push_back(box);
    return;
  }
  const int64_t at = draw(random, 1, box.sizes[axis] - 1);
  Box low = box;
  Box high = box;
  low.sizes[axis] = at;
  high.offsets[axis] += at;
  high.sizes[axis] -= at;
  cut(low, cuts - 1, random, boxes);
  cut(high, cuts - 1, random, boxes);
}

/// A part of a tensor: elements [first, first + count) of a box.
struct Part {
  Box box;
  int64_t first = 0, count = 0;
};

std::vector<Part> parts_of(const Box& whole, Random* random) {
  std::vector<Box> boxes;
  cut(whole, static_cast<int>(draw(random, 0, 4)), random, &boxes);
  std::vector<Part> parts;
  for (const Box& box : boxes) {
    const int64_t count = box.elements();
    const int64_t ranges = draw(random, 1, 3);
    for (int64_t r = 0; r < ranges; ++r) {
      const int64_t first = count * r / ranges;
      parts.push_back({box, first, count * (r + 1) / ranges - first});
    }
  }
  std::shuffle(parts.begin(), parts.end(), *random);
  return parts;
}

/// The place in a tensor of `axes` of each element of a part.
std::vector<int64_t> places_of(const Part& part, const std::vector<int64_t>& axes) {
  std::vector<int64_t> places;
  for (int64_t i = part.first; i < part.first + part.count; ++i) {
    int64_t left = i;
    int64_t place = 0;
    int64_t stride = 1;
    for (size_t a = axes.size(); a-- > 0;) {
      place += (part.box.offsets[a] + left % part.box.sizes[a]) * stride;
      left /= part.box.sizes[a];
      stride *= axes[a];
    }
    places.push_back(place);
  }
  return places;
}

/// A piece whose every element is its place in the tensor.
Piece piece_of(const Part& part, const std::vector<int64_t>& axes) {
  const auto numbers = std::make_shared<std::vector<float>>();
  for (const int64_t place : places_of(part, axes)) {
    numbers->push_back(static_cast<float>(place));
  }
  const auto source = memory_source(DType::kFloat32, std::as_bytes(std::span(*numbers)), numbers);
  return {source, part.box, part.first};
}

/// Memory that asks for its CRC.
class CheckedSink final : public TensorSink {
 public:
  explicit CheckedSink(size_t elements) : TensorSink(elements * sizeof(float)), numbers(elements) {}

  Status write(uint64_t offset, std::span<const std::byte> bytes) override {
    std::memcpy(std::as_writable_bytes(std::span(numbers)).data() + offset, bytes.data(),
                bytes.size());
    return Status();
  }

  bool wants_crc() const override { return true; }

  void set_crc(uint32_t found) override {
    crc = found;
    ++times;
  }

  std::vector<float> numbers;
  uint32_t crc = 0;
  int times = 0;
};

std::vector<float> numbers_of(const std::vector<int64_t>& places, int64_t held, int64_t last_row) {
  std::vector<float> numbers;
  for (const int64_t place : places) {
    // What nobody holds repeats the last row.
    const int64_t from = place < held ? place : held - last_row + place % last_row;
    numbers.push_back(static_cast<float>(from));
  }
  return numbers;
}

class TransferBoxes : public testing::TestWithParam<int64_t> {};

TEST_P(TransferBoxes, EveryElementFindsItsPlace) {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::vector<int64_t> axes{draw(&random, 1, 30)};
    for (int64_t more = draw(&random, 0, 3); more > 0; --more) {
      axes.push_back(draw(&random, 1, 20));
    }
    std::vector<int64_t> held = axes;
    held[0] = draw(&random, 1, axes[0]);
    TensorTransfer transfer;
    transfer.name = "weight";
    transfer.axes = axes;
    transfer.source_extent = held[0];
    transfer.fill = PaddingFill::kRepeatLastRow;
    for (const Part& part : parts_of(Box::whole(held), &random)) {
      transfer.sources.push_back(piece_of(part, axes));
    }
    // One sink for all parts of the first cover, one each for those of the second.
    std::vector<std::unique_ptr<TensorSink>> sinks;
    std::vector<float> memory(static_cast<size_t>(Box::whole(axes).elements()));
    sinks.push_back(memory_sink(std::as_writable_bytes(std::span(memory))));
    std::vector<int64_t> in_memory;
    for (const Part& part : parts_of(Box::whole(axes), &random)) {
      transfer.targets.push_back({.sink = 0,
                                  .box = part.box,
                                  .range = TransferTarget::FlatRange{part.first, part.count},
                                  .offset = in_memory.size() * sizeof(float)});
      const std::vector<int64_t> places = places_of(part, axes);
      in_memory.insert(in_memory.end(), places.begin(), places.end());
    }
    std::vector<std::vector<int64_t>> in_sinks;
    for (const Part& part : parts_of(Box::whole(axes), &random)) {
      transfer.targets.push_back({.sink = static_cast<int>(sinks.size()),
                                  .box = part.box,
                                  .range = TransferTarget::FlatRange{part.first, part.count}});
      in_sinks.push_back(places_of(part, axes));
      sinks.push_back(std::make_unique<CheckedSink>(in_sinks.back().size()));
    }
    TransferOptions options;
    options.buffer_bytes = GetParam();
    const Status status = run_transfers(std::span(&transfer, 1), sinks, options);
    ASSERT_TRUE(status.ok()) << status.message();
    const int64_t row = Box::whole(axes).elements() / axes[0];
    ASSERT_EQ(memory, numbers_of(in_memory, held[0] * row, row));
    for (size_t i = 0; i < in_sinks.size(); ++i) {
      const auto& sink = dynamic_cast<const CheckedSink&>(*sinks[i + 1]);
      ASSERT_EQ(sink.numbers, numbers_of(in_sinks[i], held[0] * row, row));
      ASSERT_EQ(sink.times, 1);
      ASSERT_EQ(sink.crc, io::crc32(std::as_bytes(std::span(sink.numbers))));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Buffers, TransferBoxes, testing::Values(1, 1 << 20),
                         [](const auto& instance) { return std::to_string(instance.param); });

TEST(MergedReader, ReadsAnyRangeOfAnyPieces) {
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    LogicalParameter parameter;
    parameter.axes.sizes = {draw(&random, 1, 12), draw(&random, 1, 12), draw(&random, 1, 12)};
    const Box whole = Box::whole(parameter.axes.sizes);
    LogicalTensor tensor{.kind = "weight", .dtype = DType::kFloat32, .pieces = {}, .replicas = {}};
    for (const Part& part : parts_of(whole, &random)) {
      tensor.pieces.push_back(piece_of(part, parameter.axes.sizes));
    }
    const int64_t count = draw(&random, 0, whole.elements());
    const int64_t first = draw(&random, 0, whole.elements() - count);
    std::vector<float> found(static_cast<size_t>(count));
    const Status status =
        read_merged(parameter, tensor, first, std::as_writable_bytes(std::span(found)));
    ASSERT_TRUE(status.ok()) << status.message();
    for (int64_t i = 0; i < count; ++i) {
      ASSERT_EQ(found[static_cast<size_t>(i)], static_cast<float>(first + i));
    }
  }
}

}  // namespace
}  // namespace meg::checkpoint
