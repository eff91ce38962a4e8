#include "libmeg/schedule/grad_scaler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace meg::schedule {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<GradScaler> dynamic(const DynamicGradScaler::Options& options) {
  return std::move(*DynamicGradScaler::create(options));
}

TEST(GradScaler, ManyOverflowsGiveTheScalesOfTheTutorials) {
  // Ten overflows give 8388608 = 2^32 / 2^9, for the first one only uses up hysteresis.
  const auto scaler = dynamic({});
  for (int i = 0; i < 10; ++i) scaler->update(true);
  EXPECT_EQ(scaler->scale(), 8388608.0F);
  for (int i = 0; i < 6; ++i) scaler->update(true);
  EXPECT_EQ(scaler->scale(), 131072.0F);
  for (int i = 0; i < 5; ++i) scaler->update(true);
  EXPECT_EQ(scaler->scale(), 4096.0F);
}

TEST(GradScaler, StepsWithoutOverflowGiveNoHysteresisBackBeforeGrowth) {
  const auto scaler = dynamic({.initial_scale = 1024, .growth_interval = 3, .hysteresis = 2});
  scaler->update(true);
  scaler->update(false);
  scaler->update(false);
  EXPECT_EQ(scaler->scale(), 1024.0F);
  scaler->update(true);
  EXPECT_EQ(scaler->scale(), 512.0F);
}

TEST(GradScaler, NeverFallsBelowTheLeastScale) {
  const auto scaler = dynamic({.initial_scale = 3, .min_scale = 2, .hysteresis = 1});
  for (int i = 0; i < 5; ++i) scaler->update(true);
  EXPECT_EQ(scaler->scale(), 2.0F);
}

TEST(GradScaler, AWindowWithAFractionNeverGrows) {
  const auto scaler = dynamic({.initial_scale = 2, .growth_interval = 2.5});
  for (int i = 0; i < 10; ++i) scaler->update(false);
  EXPECT_EQ(scaler->scale(), 2.0F);
}

TEST(GradScaler, AStateContinuesWhereItWas) {
  const DynamicGradScaler::Options options{.initial_scale = 1024, .growth_interval = 4};
  const auto first = dynamic(options);
  for (const bool found_inf : {true, true, true, false, false}) first->update(found_inf);
  const auto second = dynamic(options);
  ASSERT_TRUE(second->load_state_dict(*first->state_dict()).ok());
  for (const bool found_inf : {false, true, false, false, false, false, false, true}) {
    first->update(found_inf);
    second->update(found_inf);
    EXPECT_EQ(*first->state_dict(), *second->state_dict());
  }
}

TEST(GradScaler, RefusesAStateWithoutScale) {
  const auto scaler = dynamic({});
  const Status status = scaler->load_state_dict({.scale = 0});
  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_THAT(status.message(), HasSubstr("scale above 0"));
}

TEST(GradScaler, AConstantScaleStaysAndLeavesNoState) {
  const auto scaler = get_grad_scaler(true, false, 4096.0, {});
  ASSERT_TRUE(scaler.has_value());
  (*scaler)->update(true);
  EXPECT_EQ((*scaler)->scale(), 4096.0F);
  EXPECT_EQ((*scaler)->inv_scale(), 1.0F / 4096.0F);
  EXPECT_FALSE((*scaler)->state_dict().has_value());
}

TEST(GradScaler, OnlyFp16IsScaledWithoutBeingAsked) {
  EXPECT_EQ(*get_grad_scaler(false, false, std::nullopt, {}), nullptr);
  EXPECT_EQ(*get_grad_scaler(false, true, std::nullopt, {}), nullptr);
  EXPECT_EQ(*get_grad_scaler(false, false, 128.0, {}), nullptr);
  EXPECT_EQ((*get_grad_scaler(false, true, 128.0, {}))->scale(), 128.0F);
  EXPECT_EQ((*get_grad_scaler(true, false, 0.0, {}))->scale(), 4294967296.0F);
}

TEST(GradScaler, RefusesWhatMegatronRefuses) {
  const auto message = [](const DynamicGradScaler::Options& options) {
    const auto scaler = DynamicGradScaler::create(options);
    return scaler.has_value() ? std::string("taken") : scaler.error().message();
  };
  EXPECT_EQ(message({.initial_scale = 0}), "`initial_loss_scale`: expected more than 0, found 0");
  EXPECT_EQ(message({.initial_scale = 2, .min_scale = 4}),
            "`min_loss_scale`: expected more than 0 and at most `initial_loss_scale` (2), found 4");
  EXPECT_EQ(message({.growth_interval = 0}), "`loss_scale_window`: expected more than 0, found 0");
  EXPECT_EQ(message({.hysteresis = 0}), "`hysteresis`: expected more than 0, found 0");
  EXPECT_FALSE(ConstantGradScaler::create(-1).has_value());
}

}  // namespace
}  // namespace meg::schedule
