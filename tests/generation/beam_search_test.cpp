#include <c10/core/GradMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <span>

#include "libmeg/generation/generate.h"
#include "libmeg/generation/model_engine.h"
#include "tests/generation/letter_tokenizer.h"
#include "tests/nn/small_model.h"

namespace meg::generation {
namespace {

using test::LetterTokenizer;
using ::testing::HasSubstr;

constexpr int64_t kTokens = 22;

serving::GenerationRequest search_of(std::vector<int32_t> prompt, int64_t tokens,
                                     const serving::BeamSearchOptions& options) {
  serving::GenerationRequest request;
  request.prompt = std::move(prompt);
  request.tokens_to_generate = tokens;
  request.beam = options;
  return request;
}

/// What an engine of its own finds.
Result<std::vector<serving::Beam>> beam_search(nn::GptModel& model,
                                               const serving::GenerationRequest& request) {
  const LetterTokenizer tokenizer = LetterTokenizer::numbers(kTokens);
  MEG_ASSIGN_OR_RETURN(const auto engine, create_generation_engine(model, tokenizer, {}));
  MEG_ASSIGN_OR_RETURN(const std::vector<serving::GeneratedText> texts,
                       generate(*engine, {request}));
  EXPECT_EQ(texts.front().tokens, texts.front().beams.front().tokens);
  return texts.front().beams;
}

/// Whether the last `size` tokens came before.
bool repeats(std::span<const int32_t> tokens, size_t size) {
  const auto last = tokens.last(std::min(size, tokens.size()));
  const auto before = tokens.first(tokens.size() - 1);
  return size > 0 && std::ranges::search(before, last).size() == size;
}

at::Tensor scores_of(nn::GptModel& model, const std::vector<int32_t>& tokens) {
  const c10::NoGradGuard without_gradients;
  const at::Tensor ids = at::tensor(at::ArrayRef<int32_t>(tokens)).to(at::kLong).unsqueeze(0);
  return at::log_softmax((*model.logits({.tokens = ids}))[0][-1].narrow(0, 0, kTokens), 0)
      .to(at::kDouble);
}

/// Every text of up to `length` tokens that ends in the stop token or is that long: the best.
void best_of_all(nn::GptModel& model, std::vector<int32_t>& tokens, double sum,
                 const serving::GenerationRequest& request, serving::Beam& best) {
  const serving::BeamSearchOptions& options = *request.beam;
  const size_t prompt = request.prompt.size();
  const auto made = static_cast<double>(tokens.size() - prompt);
  if (made > 0 && (tokens.back() == options.stop_token ||
                   made == static_cast<double>(request.tokens_to_generate))) {
    const double score = sum / std::pow(made, options.length_penalty);
    if (best.tokens.empty() || score > best.score) best = {tokens, prompt, score};
    return;
  }
  const at::Tensor scores = scores_of(model, tokens);
  for (int32_t token = 0; token < kTokens; ++token) {
    tokens.push_back(token);
    best_of_all(model, tokens, sum + scores[token].item<double>(), request, best);
    tokens.pop_back();
  }
}

/// Megatron's search in its plainest form: whole forward passes, everything sorted.
std::vector<serving::Beam> plain_search(nn::GptModel& model,
                                        const serving::GenerationRequest& request) {
  const std::vector<int32_t>& prompt = request.prompt;
  const serving::BeamSearchOptions& options = *request.beam;

  struct Open {
    std::vector<int32_t> tokens;
    double sum;
  };

  std::vector<Open> open = {{prompt, 0}};
  std::vector<serving::Beam> ended;
  const auto width = static_cast<size_t>(options.beam_width);
  const auto add = [&](const Open& beam, int64_t length) {
    ended.push_back({beam.tokens, prompt.size(),
                     beam.sum / std::pow(static_cast<double>(length), options.length_penalty)});
    std::sort(ended.begin(), ended.end(),
              [](const serving::Beam& a, const serving::Beam& b) { return a.score > b.score; });
    if (ended.size() > width) ended.pop_back();
  };
  for (int64_t length = 1; length <= request.tokens_to_generate; ++length) {
    std::vector<Open> all;
    for (const Open& beam : open) {
      const at::Tensor scores = scores_of(model, beam.tokens);
      for (int32_t token = 0; token < kTokens; ++token) {
        all.push_back({beam.tokens, beam.sum + scores[token].item<double>()});
        all.back().tokens.push_back(token);
        if (repeats(all.back().tokens, static_cast<size_t>(request.no_repeat_ngram_size))) {
          all.pop_back();
        }
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
    if (length < request.tokens_to_generate) continue;
    for (const Open& beam : open) add(beam, length);
  }
  ended.resize(std::min(ended.size(), static_cast<size_t>(options.num_return_gen)));
  return ended;
}

void expect_the_plain_search(nn::GptModel& model, const serving::GenerationRequest& request) {
  const auto found = beam_search(model, request);
  ASSERT_TRUE(found.has_value()) << found.status().message();
  const std::vector<serving::Beam> wanted = plain_search(model, request);
  ASSERT_EQ(found->size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ((*found)[i].tokens, wanted[i].tokens);
    EXPECT_NEAR((*found)[i].score, wanted[i].score, 1e-5);
    EXPECT_EQ((*found)[i].prompt_size, request.prompt.size());
  }
}

TEST(BeamSearchTest, FindsWhatThePlainSearchFinds) {
  for (const model::GptConfig& config : {test::small_config(), test::small_llama_config()}) {
    nn::GptModel model = test::small_model(config);
    model.set_training(false);
    for (const int64_t width : {1, 3, 8}) {
      for (const double penalty : {0.0, 1.0, 2.0}) {
        for (const int32_t stop : {0, 7, 13}) {
          expect_the_plain_search(model, search_of({5, 2, 11}, 8,
                                                   {.beam_width = width,
                                                    .num_return_gen = width,
                                                    .stop_token = stop,
                                                    .length_penalty = penalty}));
        }
      }
    }
  }
}

TEST(BeamSearchTest, NoRunOfTokensComesTwice) {
  nn::GptModel model = test::small_model(test::small_config());
  model.set_training(false);
  for (const int64_t size : {1, 2, 3}) {
    // An id that no token has: no text ends before.
    serving::GenerationRequest request =
        search_of({5, 2, 5}, 9, {.beam_width = 3, .num_return_gen = 3, .stop_token = -1});
    request.no_repeat_ngram_size = size;
    expect_the_plain_search(model, request);
  }
}

TEST(BeamSearchTest, AWideBeamFindsTheBestOfAllTexts) {
  nn::GptModel model = test::small_model(test::small_config());
  model.set_training(false);
  const serving::GenerationRequest request =
      search_of({5, 2}, 3, {.beam_width = 11, .stop_token = 4, .length_penalty = 0});
  std::vector<int32_t> prompt = request.prompt;
  serving::Beam best;
  best_of_all(model, prompt, 0, request, best);
  const auto found = beam_search(model, request);
  ASSERT_TRUE(found.has_value()) << found.status().message();
  ASSERT_EQ(found->size(), 1U);
  EXPECT_EQ(found->front().tokens, best.tokens);
  EXPECT_NEAR(found->front().score, best.score, 1e-5);
}

/// All that an engine makes until it rests, by number.
std::map<int64_t, serving::GeneratedText> run(serving::GenerationEngine& engine) {
  std::map<int64_t, serving::GeneratedText> texts;
  while (engine.active() > 0) {
    auto events = engine.step();
    EXPECT_TRUE(events.has_value()) << events.status().message();
    for (serving::GenerationEvent& event : *events) {
      if (event.finished) texts[event.request] = std::move(**event.finished);
    }
  }
  return texts;
}

TEST(BeamSearchTest, SearchesAndTextsRunTogetherAndDoNotChangeEachOther) {
  nn::GptModel model = test::small_model(test::small_config());
  const LetterTokenizer tokenizer = LetterTokenizer::numbers(kTokens);
  const auto engine = std::move(*create_generation_engine(model, tokenizer, {.max_slots = 4}));
  const serving::GenerationRequest first =
      search_of({5, 2}, 9, {.beam_width = 3, .num_return_gen = 3, .stop_token = -1});
  const serving::GenerationRequest second = search_of({1}, 4, {.beam_width = 2, .stop_token = -1});
  serving::GenerationRequest text{.prompt = {7, 3}, .tokens_to_generate = 9};
  text.stop.on_eod = false;
  const int64_t numbers[] = {*engine->add(text), *engine->add(first)};
  ASSERT_TRUE(engine->step().has_value());
  const int64_t late = *engine->add(second);
  EXPECT_EQ(engine->active(), 3);
  EXPECT_EQ(engine->active_beam_searches(), 2);
  const auto texts = run(*engine);
  EXPECT_EQ(texts.at(numbers[0]).tokens, generate(*engine, {text})->front().tokens);
  EXPECT_EQ(texts.at(numbers[1]).tokens, beam_search(model, first)->front().tokens);
  EXPECT_EQ(texts.at(late).tokens, beam_search(model, second)->front().tokens);
}

TEST(BeamSearchTest, TokensOfAllSearchesAreBounded) {
  nn::GptModel model = test::small_model(test::small_config());
  const LetterTokenizer tokenizer = LetterTokenizer::numbers(kTokens);
  const auto engine = std::move(
      *create_generation_engine(model, tokenizer, {.max_slots = 1, .max_beam_tokens = 60}));
  const serving::GenerationRequest half = search_of({5, 2}, 8, {.beam_width = 3, .stop_token = -1});
  const int64_t first = *engine->add(half);
  ASSERT_TRUE(engine->add(half).has_value());
  EXPECT_FALSE(engine->has_room(half));
  EXPECT_EQ(engine->add(half).status().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(engine->has_room({.prompt = {1}, .tokens_to_generate = 2})) << "texts have their own";
  engine->cancel(first);
  EXPECT_EQ(engine->active(), 1);
  EXPECT_TRUE(engine->has_room(half));
  EXPECT_THAT(
      engine->check(search_of({5, 2}, 8, {.beam_width = 7})).message(),
      HasSubstr("at most 60 tokens in all texts of a beam search, found 7 texts of 2 and 8"));
}

TEST(BeamSearchTest, AModelWhoseLogitsAreNotFiniteEndsTheSearchAlone) {
  nn::GptModel model = test::small_model(test::small_config());
  const LetterTokenizer tokenizer = LetterTokenizer::numbers(kTokens);
  {
    const c10::NoGradGuard without_gradients;
    at::Tensor(model.parameters().back().tensor).fill_(std::numeric_limits<float>::quiet_NaN());
  }
  const auto engine = std::move(*create_generation_engine(model, tokenizer, {}));
  ASSERT_TRUE(engine->add(search_of({5, 2}, 8, {.beam_width = 3})).has_value());
  const auto events = engine->step();
  ASSERT_TRUE(events.has_value()) << events.status().message();
  ASSERT_TRUE(events->front().finished.has_value());
  EXPECT_THAT(events->front().finished->status().message(),
              HasSubstr("token 2: expected finite logits"));
  EXPECT_EQ(engine->active(), 0);
}

TEST(BeamSearchTest, WrongOptionsAreErrorsByName) {
  nn::GptModel model = test::small_model(test::small_config());
  const auto error_of = [&](const serving::BeamSearchOptions& options,
                            std::vector<int32_t> prompt = {1}, int64_t tokens = 4) {
    return beam_search(model, search_of(std::move(prompt), tokens, options)).status().message();
  };
  EXPECT_THAT(error_of({.beam_width = 12}), HasSubstr("beam_width: expected 1 to 11, found 12"));
  EXPECT_THAT(error_of({.beam_width = 2, .num_return_gen = 3}),
              HasSubstr("num_return_gen: expected 1 to beam_width 2"));
  EXPECT_THAT(error_of({}, {}), HasSubstr("prompt"));
  EXPECT_THAT(error_of({}, {22}), HasSubstr("found 22"));
  EXPECT_THAT(error_of({}, {1}, 12), HasSubstr("at most 12"));
  EXPECT_THAT(error_of({}, {1}, 0), HasSubstr("tokens_to_generate"));
  for (const double penalty : {10.5, -10.5, 1e308, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THAT(error_of({.length_penalty = penalty}),
                HasSubstr("length_penalty: expected -10 to"));
  }
  serving::GenerationRequest request = search_of({1}, 4, {});
  request.logprobs = true;
  EXPECT_THAT(beam_search(model, request).status().message(), HasSubstr("logprobs"));
}

}  // namespace
}  // namespace meg::generation
