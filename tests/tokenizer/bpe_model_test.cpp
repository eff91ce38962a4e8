#include "libmeg/tokenizer/bpe_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/shared_data.h"

namespace meg {
namespace {

TEST(BpeModel, LoadsGpt2) {
  MEG_REQUIRE_SHARED("data/gpt2/vocab.json");
  const Result<BpeModel> model = BpeModel::load(test::shared_path("data/gpt2/vocab.json"),
                                                test::shared_path("data/gpt2/merges.txt"));
  ASSERT_TRUE(model) << model.error().message();
  EXPECT_EQ(model->vocab_size(), 50257);
  EXPECT_EQ(model->max_id(), 50256);
  EXPECT_EQ(model->eod(), 50256);
  EXPECT_EQ(model->merges().size(), 50000u);
  EXPECT_EQ(model->piece_count(), 50256);
  EXPECT_THAT(model->warnings(), testing::IsEmpty());
}

}  // namespace
}  // namespace meg
