// A -> B -> A over every training checkpoint of the oracle: model, optimizer and everything else
// that layouts do not change come back as they were.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "libmeg/base/float_convert.h"
#include "tests/checkpoint/convert/reshard_cases.h"

namespace meg::checkpoint {
namespace {

using ::testing::IsEmpty;

struct Trip {
  const char* name;
  int64_t tensor, pipeline, virtual_stages;          ///< B
  int64_t home_tensor, home_pipeline, home_virtual;  ///< A
};

std::ostream& operator<<(std::ostream& out, const Trip& trip) {
  return out << fmt::format("{} through TP{} PP{} VPP{}", trip.name, trip.tensor, trip.pipeline,
                            trip.virtual_stages);
}

class RoundTrip : public ::testing::TestWithParam<Trip> {};

TEST_P(RoundTrip, GivesTheSameModelOptimizerAndArgs) {
  const Trip& trip = GetParam();
  MEG_REQUIRE_SHARED(std::string("oracle/checkpoints/") + trip.name);
  const test::TempFolder folder;
  test::reshard(test::oracle(trip.name), folder.path("b"),
                test::to_layout(trip.tensor, trip.pipeline, trip.virtual_stages));
  test::reshard(folder.path("b"), folder.path("a"),
                test::to_layout(trip.home_tensor, trip.home_pipeline, trip.home_virtual));
  const test::Ranks before = test::open_ranks(test::oracle(trip.name));
  const test::Ranks after = test::open_ranks(folder.path("a"));
  ASSERT_EQ(before.size(), after.size());
  for (const auto& [name, file] : before) {
    SCOPED_TRACE(name);
    const test::TreeNode want = test::root_of(*file);
    const test::TreeNode found = test::root_of(*after.at(name));
    ASSERT_EQ(found.keys(), want.keys());
    for (const std::string& key : want.keys()) {
      if (key == "args" || key == "rng_state") continue;
      EXPECT_THAT(test::differences(found.at(key), want.at(key)), IsEmpty()) << key;
    }
    const PickleGraph& graph = want.graph();
    const auto fields = graph.pairs(*graph.attributes(want.at("args").id));
    for (size_t i = 0; i + 1 < fields.size(); i += 2) {
      const std::string field(*graph.as_string(fields[i]));
      if (field == "rank" || field == "local_rank") continue;
      EXPECT_THAT(test::differences(found.at("args").attribute(field), {want.file, fields[i + 1]}),
                  IsEmpty())
          << field;
    }
    const test::TreeNode generators = want.at("rng_state/0");
    EXPECT_EQ(test::cuda_state(found.at("rng_state/0/cuda_rng_state")),
              test::cuda_state(generators.at("cuda_rng_state")));
    for (const std::string& tracker : generators.at("rng_tracker_states").keys()) {
      const std::string path = "rng_state/0/rng_tracker_states/" + tracker;
      EXPECT_EQ(test::cuda_state(found.at(path)), test::cuda_state(want.at(path))) << tracker;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Oracle, RoundTrip,
                         ::testing::Values(Trip{"gpt_tp2pp2_fp16", 1, 1, 1, 2, 2, 1},
                                           Trip{"gpt_tp2pp2_fp16", 4, 1, 1, 2, 2, 1},
                                           Trip{"gpt_tp2pp2_fp16", 1, 4, 1, 2, 2, 1},
                                           Trip{"gpt_tp2pp2_fp16", 4, 2, 2, 2, 2, 1},
                                           Trip{"gpt_tp1pp3_vpp2_fp16", 1, 1, 1, 1, 3, 2},
                                           Trip{"gpt_tp1pp3_vpp2_fp16", 2, 2, 3, 1, 3, 2},
                                           Trip{"gpt_tp1pp1_fp32", 2, 2, 1, 1, 1, 1},
                                           Trip{"gpt_tp1pp1_fp32", 4, 4, 1, 1, 1, 1},
                                           Trip{"gpt_tp2pp2_bf16_untied", 1, 1, 1, 2, 2, 1},
                                           Trip{"gpt_tp2pp2_bf16_untied", 4, 4, 1, 2, 2, 1},
                                           Trip{"gpt_tp2pp1_llamaish_bf16", 4, 2, 2, 2, 1, 1},
                                           Trip{"gpt_tp2pp1_llamaish_bf16", 1, 1, 1, 2, 1, 1},
                                           Trip{"v050_legacy_llama_tp2pp1_bf16", 1, 4, 1, 2, 1, 1},
                                           Trip{"mcore_gpt_tp1pp1_fp32", 2, 2, 1, 1, 1, 1},
                                           Trip{"mcore_gpt_tp2pp2_bf16", 1, 1, 1, 2, 2, 1},
                                           Trip{"mcore_gpt_tp2pp2_bf16", 4, 4, 1, 2, 2, 1},
                                           Trip{"mcore_gpt_tp2pp2_bf16", 1, 2, 2, 2, 2, 1},
                                           Trip{"mcore_llama_tp1pp1_bf16", 2, 4, 1, 1, 1, 1},
                                           Trip{"mcore_llama_tp2pp1_fp32", 1, 2, 2, 2, 1, 1}));

/// A stage's parameters as Megatron's optimizer meets them: model by model, key by key.
struct NamedParameter {
  std::string name;
  test::TreeNode tensor;
};

void add_parameters(test::TreeNode dict, const std::string& prefix,
                    std::vector<NamedParameter>* found) {
  const auto pairs = dict.graph().pairs(dict.id);
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    const std::string name = prefix + std::string(*dict.graph().as_string(pairs[i]));
    const test::TreeNode value{dict.file, pairs[i + 1]};
    if (dict.file->tensor(value.id) != nullptr) {
      if (!name.ends_with("_extra_state")) found->push_back({name, value});
    } else {
      add_parameters(value, name + ".", found);
    }
  }
}

std::vector<NamedParameter> parameters_of(test::TreeNode root) {
  std::vector<NamedParameter> found;
  for (const std::string& key : root.keys()) {
    if (key.starts_with("model")) add_parameters(root.at(key), "", &found);
  }
  return found;
}

/// Sorts in the order of core 0.12: groups as the stage's parameters first need them; before that
/// the group with weight decay first.
std::vector<NamedParameter> in_group_order(const std::vector<NamedParameter>& parameters,
                                           bool by_first_appearance,
                                           std::vector<size_t>* group_sizes) {
  const auto decays = [](const NamedParameter& parameter) {
    const TensorView& view = *parameter.tensor.file->tensor(parameter.tensor.id);
    return view.shape.size() > 1 && !parameter.name.ends_with(".bias");
  };
  const bool decay_first = !by_first_appearance || decays(parameters.at(0));
  std::vector<NamedParameter> ordered;
  for (const bool decay : {decay_first, !decay_first}) {
    const size_t before = ordered.size();
    for (const NamedParameter& parameter : parameters) {
      if (decays(parameter) == decay) ordered.push_back(parameter);
    }
    group_sizes->push_back(ordered.size() - before);
  }
  return ordered;
}

/// Every 16-bit weight is its master rounded to nearest even, whatever the layout: so every master
/// stands where the optimizer will look for it.
void check_masters(test::TreeNode root, bool by_first_appearance) {
  std::vector<size_t> sizes;
  const std::vector<NamedParameter> ordered =
      in_group_order(parameters_of(root), by_first_appearance, &sizes);
  int64_t id = 0;
  for (size_t group = 0; group < sizes.size(); ++group) {
    const test::TreeNode ids =
        root.at(fmt::format("optimizer/optimizer/param_groups/{}/params", group));
    ASSERT_EQ(ids.graph().node(ids.id).children.size(), sizes[group]);
    for (size_t i = 0; i < sizes[group]; ++i, ++id) {
      const NamedParameter& parameter = ordered[static_cast<size_t>(id)];
      SCOPED_TRACE(parameter.name);
      EXPECT_EQ(ids.graph().as_int(ids.graph().node(ids.id).children[i]), id);
      const std::vector<std::byte> weight = parameter.tensor.bytes();
      const test::TreeNode master =
          root.at(fmt::format("optimizer/fp32_from_fp16_params/{}/{}", group, i));
      std::vector<std::byte> rounded(weight.size());
      const DType dtype = parameter.tensor.file->tensor(parameter.tensor.id)->dtype;
      ASSERT_TRUE(convert_floats(DType::kFloat32, master.bytes(), dtype, rounded).ok());
      EXPECT_EQ(rounded, weight);
      for (const char* moment : {"exp_avg", "exp_avg_sq"}) {
        const test::TreeNode state =
            root.at(fmt::format("optimizer/optimizer/state/{}/{}", id, moment));
        ASSERT_TRUE(state) << moment;
        EXPECT_EQ(state.file->tensor(state.id)->shape,
                  parameter.tensor.file->tensor(parameter.tensor.id)->shape);
      }
    }
  }
}

TEST(ReshardOptimizer, MastersRoundToTheWeightsInEveryLayout) {
  MEG_REQUIRE_SHARED("oracle/checkpoints/gpt_tp2pp2_fp16");
  for (const auto& [name, by_first_appearance] :
       {std::pair{"gpt_tp2pp2_fp16", false}, std::pair{"mcore_gpt_tp2pp2_bf16", true},
        std::pair{"gpt_tp2pp2_bf16_untied", false}}) {
    for (const auto& [tensor, pipeline, chunks] :
         {std::tuple{1, 1, 1}, std::tuple{4, 1, 1}, std::tuple{1, 4, 1}, std::tuple{2, 2, 2}}) {
      SCOPED_TRACE(fmt::format("{} to TP{} PP{} VPP{}", name, tensor, pipeline, chunks));
      const test::TempFolder folder;
      ReshardOptions options = test::to_layout(tensor, pipeline, chunks);
      options.true_vocab_size = 290;
      test::reshard(test::oracle(name), folder.path("saved"), options);
      for (const auto& [rank, file] : test::open_ranks(folder.path("saved"))) {
        SCOPED_TRACE(rank);
        check_masters(test::root_of(*file), by_first_appearance);
      }
    }
  }
}

}  // namespace
}  // namespace meg::checkpoint
