#include "libmeg/inference/generation/beam_search.h"

#include <c10/core/GradMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/inference/letter_tokenizer.h"
#include "tests/nn/small_model.h"

namespace meg::inference {
namespace {

using test::LetterTokenizer;
using ::testing::HasSubstr;

constexpr int64_t kTokens = 22;

at::Tensor scores_of(nn::GptModel& model, const std::vector<int32_t>& tokens) {
  const c10::NoGradGuard without_gradients;
  const at::Tensor ids = at::tensor(at::ArrayRef<int32_t>(tokens)).to(at::kLong).unsqueeze(0);
  return at::log_softmax((*model.logits({.tokens = ids}))[0][-1].narrow(0, 0, kTokens), 0)
      .to(at::kDouble);
}

/// Every text of up to `length` tokens that ends in the stop token or is that long: the best.
void best_of_all(nn::GptModel& model, std::vector<int32_t>& tokens, size_t prompt, double sum,
                 const BeamSearchOptions& options, Beam& best) {
  const auto made = static_cast<double>(tokens.size() - prompt);
  if (made > 0 && (tokens.back() == options.stop_token ||
                   made == static_cast<double>(options.tokens_to_generate))) {
    const double score = sum / std::pow(made, options.length_penalty);
    if (best.tokens.empty() || score > best.score) best = {tokens, prompt, score};
    return;
  }
  const at::Tensor scores = scores_of(model, tokens);
  for (int32_t token = 0; token < kTokens; ++token) {
    tokens.push_back(token);
    best_of_all(model, tokens, prompt, sum + scores[token].item<double>(), options, best);
    tokens.pop_back();
  }
}

/// Megatron's search in its plainest form: whole forward passes, everything sorted.
std::vector<Beam> plain_search(nn::GptModel& model, const std::vector<int32_t>& prompt,
                               const BeamSearchOptions& options) {
  struct Open {
    std::vector<int32_t> tokens;
    double sum;
  };

  std::vector<Open> open = {{prompt, 0}};
  std::vector<Beam> ended;
  const auto width = static_cast<size_t>(options.beam_width);
  const auto add = [&](const Open& beam, int64_t length) {
    ended.push_back({beam.tokens, prompt.size(),
                     beam.sum / std::pow(static_cast<double>(length), options.length_penalty)});
    std::sort(ended.begin(), ended.end(),
              [](const Beam& a, const Beam& b) { return a.score > b.score; });
    if (ended.size() > width) ended.pop_back();
  };
  for (int64_t length = 1; length <= options.tokens_to_generate; ++length) {
    std::vector<Open> all;
    for (const Open& beam : open) {
      const at::Tensor scores = scores_of(model, beam.tokens);
      for (int32_t token = 0; token < kTokens; ++token) {
        all.push_back({beam.tokens, beam.sum + scores[token].item<double>()});
        all.back().tokens.push_back(token);
      }
    }
    std::sort(all.begin(), all.end(), [](const Open& a, const Open& b) { return a.sum > b.sum; });
    open.clear();
    for (size_t rank = 0; rank < 2 * width && open.size() < width; ++rank) {
      if (all[rank].tokens.back() != options.stop_token) {
        open.push_back(all[rank]);
      } else if (rank < width) {
        add(all[rank], length);
      }
    }
    const double best = all[0].sum / std::pow(static_cast<double>(length), options.length_penalty);
    if (ended.size() == width && ended.back().score >= best) break;
    if (length < options.tokens_to_generate) continue;
    for (const Open& beam : open) add(beam, length);
  }
  ended.resize(std::min(ended.size(), static_cast<size_t>(options.num_return_gen)));
  return ended;
}

TEST(BeamSearchTest, FindsWhatThePlainSearchFinds) {
  const LetterTokenizer tokenizer = LetterTokenizer::numbers(kTokens);
  for (const GptConfig& config : {test::small_config(), test::small_llama_config()}) {
    nn::GptModel model = test::small_model(config);
    model.set_training(false);
    for (const int64_t width : {1, 3, 8}) {
      for (const double penalty : {0.0, 1.0, 2.0}) {
        for (const int32_t stop : {0, 7, 13}) {
          const BeamSearchOptions options{.beam_width = width,
                                          .tokens_to_generate = 8,
                                          .stop_token = stop,
                                          .length_penalty = penalty,
                                          .num_return_gen = width};
          const std::vector<int32_t> prompt = {5, 2, 11};
          const auto found = beam_search(model, tokenizer, prompt, options);
          ASSERT_TRUE(found.has_value()) << found.status().message();
          const std::vector<Beam> wanted = plain_search(model, prompt, options);
          ASSERT_EQ(found->size(), wanted.size());
          for (size_t i = 0; i < wanted.size(); ++i) {
            EXPECT_EQ((*found)[i].tokens, wanted[i].tokens);
            EXPECT_NEAR((*found)[i].score, wanted[i].score, 1e-5);
            EXPECT_EQ((*found)[i].prompt_size, prompt.size());
          }
        }
      }
    }
  }
}

TEST(BeamSearchTest, AWideBeamFindsTheBestOfAllTexts) {
  const LetterTokenizer tokenizer = LetterTokenizer::numbers(kTokens);
  nn::GptModel model = test::small_model(test::small_config());
  model.set_training(false);
  const BeamSearchOptions options{
      .beam_width = 11, .tokens_to_generate = 3, .stop_token = 4, .length_penalty = 0};
  std::vector<int32_t> prompt = {5, 2};
  Beam best;
  best_of_all(model, prompt, prompt.size(), 0, options, best);
  const auto found = beam_search(model, tokenizer, prompt, options);
  ASSERT_TRUE(found.has_value()) << found.status().message();
  ASSERT_EQ(found->size(), 1U);
  EXPECT_EQ(found->front().tokens, best.tokens);
  EXPECT_NEAR(found->front().score, best.score, 1e-5);
}

TEST(BeamSearchTest, WrongOptionsAreErrorsByName) {
  const LetterTokenizer tokenizer = LetterTokenizer::numbers(kTokens);
  nn::GptModel model = test::small_model(test::small_config());
  const auto error_of = [&](const BeamSearchOptions& options,
                            const std::vector<int32_t>& prompt = {1}) {
    return beam_search(model, tokenizer, prompt, options).status().message();
  };
  BeamSearchOptions options{.tokens_to_generate = 4};
  options.beam_width = 12;
  EXPECT_THAT(error_of(options), HasSubstr("beam_width: expected 1 to 11, found 12"));
  options.beam_width = 2;
  options.num_return_gen = 3;
  EXPECT_THAT(error_of(options), HasSubstr("num_return_gen: expected 1 to beam_width 2"));
  options.num_return_gen = 1;
  EXPECT_THAT(error_of(options, {}), HasSubstr("prompt"));
  EXPECT_THAT(error_of(options, {22}), HasSubstr("found 22"));
  options.tokens_to_generate = 12;
  EXPECT_THAT(error_of(options), HasSubstr("at most 12"));
  options.tokens_to_generate = 0;
  EXPECT_THAT(error_of(options), HasSubstr("tokens_to_generate"));
}

}  // namespace
}  // namespace meg::inference
