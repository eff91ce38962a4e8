#include "libmeg/checkpoint/training/internal/rng_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libmeg/checkpoint/inspect/internal/numpy_array.h"
#include "libmeg/checkpoint/training/seeded_generators.h"
#include "tests/checkpoint/torch_tree.h"
#include "tests/temp_folder.h"

namespace meg::checkpoint {
namespace {

using ::testing::HasSubstr;

/// A file whose value is {"rng_state": what `add` gives}.
template <class Add>
TorchFile file_with(const test::TempFolder& folder, const Add& add) {
  TrainingTree tree;
  tree.content().root = tree.dict({{"rng_state", add(&tree)}});
  auto layout = lay_out(tree.content(), "state");
  EXPECT_TRUE(layout.has_value()) << layout.status().message();
  const std::string path = folder.path("state" + std::to_string(folder.file_count()) + ".pt");
  auto writer = TorchFileWriter::create(path, tree.content(), std::move(*layout));
  EXPECT_TRUE(writer.has_value()) << writer.status().message();
  EXPECT_TRUE(writer->finish().ok());
  auto file = TorchFile::open(path);
  EXPECT_TRUE(file.has_value()) << file.status().message();
  return std::move(*file);
}

RngState seeded() { return seeded_rng_state(7, 0, 0, model::NameFamily::kMcoreLocal); }

TEST(RngTree, KeepsPendingNormalNumbersAndGeneratorsOfTheCpu) {
  test::TempFolder folder;
  RngState state = seeded();
  state.python_random.position = 17;
  state.python_random.next_gauss = 0.25;
  state.numpy_random.position = 3;
  state.numpy_random.next_gauss = -1.5;
  state.cpu_tracker = {{"model-parallel-rng", seeded_torch_state(9)}};
  const TorchFile file =
      file_with(folder, [&](TrainingTree* tree) { return add_rng_state(state, tree); });
  const auto read = read_rng_state(file);
  ASSERT_TRUE(read.has_value()) << read.status().message();
  EXPECT_EQ(read->python_random.words, state.python_random.words);
  EXPECT_EQ(read->python_random.position, 17);
  EXPECT_EQ(read->python_random.next_gauss, 0.25);
  EXPECT_EQ(read->numpy_random.words, state.numpy_random.words);
  EXPECT_EQ(read->numpy_random.position, 3);
  EXPECT_EQ(read->numpy_random.next_gauss, -1.5);
  EXPECT_EQ(read->torch, state.torch);
  EXPECT_EQ(read->cuda, state.cuda);
  EXPECT_EQ(read->tracker, state.tracker);
  EXPECT_EQ(read->cpu_tracker, state.cpu_tracker);
}

TEST(RngTree, ShowsNumpysWordsAsAnArray) {
  test::TempFolder folder;
  const TorchFile file =
      file_with(folder, [&](TrainingTree* tree) { return add_rng_state(seeded(), tree); });
  const auto array =
      numpy_array(file.graph(), test::root_of(file).at("rng_state/0/np_rng_state/1").id);
  ASSERT_TRUE(array.has_value());
  EXPECT_EQ(array->dtype, "uint32");
  EXPECT_EQ(array->shape, std::vector<int64_t>{624});
  EXPECT_EQ(array->bytes, 2496);
}

TEST(RngTree, SaysWhatIsNotAGeneratorsState) {
  test::TempFolder folder;
  const auto error_of = [&](const auto& add) {
    return read_rng_state(file_with(folder, add)).status().message();
  };
  const auto with = [&](std::string_view key, const auto& spoil) {
    return error_of([&](TrainingTree* tree) {
      const PickleId list = add_rng_state(seeded(), tree);
      PickleGraph& graph = tree->graph();
      const PickleId dict = graph.node(list).children[0];
      const PickleId replacement = spoil(tree);
      std::vector<PickleId>& pairs = graph.mutable_node(dict).children;
      for (size_t i = 0; i < pairs.size(); i += 2) {
        if (graph.as_string(pairs[i]) == key) pairs[i + 1] = replacement;
      }
      return list;
    });
  };
  const auto a_number = [](TrainingTree* tree) { return tree->graph().add_int(5); };
  const auto a_class = [](TrainingTree* tree) {
    return tree->graph().add_tuple(
        {tree->text("MT19937"), tree->content().global("numpy", "ndarray"),
         tree->graph().add_int(0), tree->graph().add_int(0), tree->graph().add_float(0.0)});
  };
  EXPECT_THAT(error_of(a_number), HasSubstr("expected the generators of data-parallel rank 0"));
  EXPECT_THAT(error_of([](TrainingTree* tree) { return tree->graph().add_list({tree->dict({})}); }),
              HasSubstr("rng_state: expected random_rng_state, found none"));
  EXPECT_THAT(with("random_rng_state", a_number),
              HasSubstr("random_rng_state: expected random.getstate() of version 3, found 5"));
  EXPECT_THAT(with("np_rng_state", a_number), HasSubstr("expected numpy's state of an MT19937"));
  EXPECT_THAT(with("np_rng_state", a_class), HasSubstr("expected an array of 624 words"));
  EXPECT_THAT(with("torch_rng_state", a_number),
              HasSubstr("torch_rng_state: expected a small tensor of bytes, found 5"));
}

}  // namespace
}  // namespace meg::checkpoint
