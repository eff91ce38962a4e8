#include "libmeg/evaluation/lambada.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "libmeg/io/mapped_file.h"
#include "libmeg/text/json/python_json.h"
#include "libmeg/text/line_ends.h"
#include "libmeg/text/python_text.h"
#include "libmeg/tokenizer/interface/encode_text.h"

namespace meg::evaluation {
namespace {

Result<LambadaExample> tokenize(std::string_view text, LambadaTarget target,
                                tokenizer::TokenEncoder& encoder) {
  LambadaExample example;
  if (target == LambadaTarget::kLastToken) {
    MEG_ASSIGN_OR_RETURN(example.tokens, tokenizer::encode_text(encoder, text));
    example.targets = example.tokens.empty() ? 0 : 1;
    return example;
  }
  // Megatron's --strict-lambada: the word is tokenized apart from its context, with one space in
  // front of it, whatever stands there in the text.
  const std::string_view word = text::last_word(text);
  if (word.empty()) return example;
  const auto before = static_cast<size_t>(word.data() - text.data());
  MEG_ASSIGN_OR_RETURN(example.tokens,
                       tokenizer::encode_text(encoder, text::python_strip(text.substr(0, before))));
  MEG_ASSIGN_OR_RETURN(const std::vector<int32_t> last,
                       tokenizer::encode_text(encoder, fmt::format(" {}", word)));
  example.tokens.insert(example.tokens.end(), last.begin(), last.end());
  example.targets = static_cast<int64_t>(last.size());
  return example;
}

Status wrong_example(const std::string& path, size_t line, std::string_view expected,
                     std::string_view found) {
  return make_error(StatusCode::kInvalidArgument, "{}: line {}: expected {}, found {}", path,
                    line + 1, expected, found);
}

/// What is to be scored: for each text, the definitions' token sequences without repetition.
class SharedSequences {
 public:
  /// The place of this text's sequence among sequences(). It asks about at least as many targets.
  size_t add(size_t text, const LambadaExample& example) {
    if (text >= of_text_.size()) of_text_.resize(text + 1);
    for (const size_t place : of_text_[text]) {
      ScoringSequence& known = sequences_[place];
      // Where the word is one token, both definitions score the same tokens: the model computes
      // them once.
      if (!std::equal(known.tokens.begin(), known.tokens.end(), example.tokens.begin(),
                      example.tokens.end())) {
        continue;
      }
      known.targets = std::max(known.targets, example.targets);
      return place;
    }
    of_text_[text].push_back(sequences_.size());
    sequences_.push_back({.tokens = example.tokens,
                          .targets = example.targets,
                          .text = static_cast<int64_t>(text),
                          .first_token = example.cut});
    return of_text_[text].back();
  }

  std::span<const ScoringSequence> sequences() const { return sequences_; }

 private:
  std::vector<ScoringSequence> sequences_;
  std::vector<std::vector<size_t>> of_text_;  ///< Places of each text's sequences.
};

SequenceScore last_targets(const SequenceScore& score, int64_t targets) {
  return {.predicted = {score.predicted.end() - targets, score.predicted.end()},
          .logprobs = {score.logprobs.end() - targets, score.logprobs.end()}};
}

}  // namespace

Result<std::vector<std::string>> read_lambada_texts(const std::string& path) {
  MEG_ASSIGN_OR_RETURN(const io::MappedFile file,
                       io::MappedFile::open(path, io::MappedFile::Access::kSequential));
  std::string_view rest = file.text();
  // Megatron reads these lines by json.loads, so the strict reader does here; there are a few
  // thousand.
  text::PythonJsonReader reader({"text"});
  std::vector<std::string> texts;
  while (!rest.empty()) {
    const size_t size = std::min(text::first_line_end(rest, true), rest.size());
    const Status status = reader.read(rest.substr(0, size));
    if (!status.ok()) {
      return status.with_prefix(path + ": line " + std::to_string(texts.size() + 1));
    }
    if (reader.texts(0).size() != 1) {
      return make_error(StatusCode::kCorruption, "{}: line {}: expected one text, found {}", path,
                        texts.size() + 1, reader.texts(0).size());
    }
    texts.emplace_back(reader.texts(0).front());
    rest.remove_prefix(size);
  }
  if (!texts.empty()) return texts;
  return make_error(StatusCode::kInvalidArgument,
                    "{}: expected lines such as {{\"text\": \"...\"}}, found an empty file", path);
}

Result<std::vector<LambadaExample>> lambada_examples(std::span<const std::string> texts,
                                                     LambadaTarget target,
                                                     const tokenizer::Tokenizer& tokenizer,
                                                     int64_t sequence_length,
                                                     const std::string& path) {
  const auto encoder = tokenizer.new_encoder(DType::kInt32);
  std::vector<LambadaExample> examples;
  examples.reserve(texts.size());
  for (size_t line = 0; line < texts.size(); ++line) {
    Result<LambadaExample> tokenized = tokenize(texts[line], target, *encoder);
    if (!tokenized)
      return tokenized.error().with_prefix(fmt::format("{}: line {}", path, line + 1));
    LambadaExample& example = *tokenized;
    if (example.targets == 0) return wrong_example(path, line, "a word to predict", "none");
    if (example.context() == 0) {
      return wrong_example(path, line, "text before what is to be predicted", "none");
    }
    // One token more than the model takes: the last one is asked about and never goes in.
    const int64_t room = sequence_length + 1 - example.targets;
    if (room < 1) {
      return wrong_example(path, line, fmt::format("a word of up to {} tokens", sequence_length),
                           std::to_string(example.targets));
    }
    example.cut = std::max(example.context() - room, int64_t{0});
    example.tokens.erase(example.tokens.begin(), example.tokens.begin() + example.cut);
    examples.push_back(std::move(example));
  }
  return examples;
}

Result<std::vector<std::vector<SequenceScore>>> score_lambada(
    nn::GptModel& model, std::span<const std::vector<LambadaExample>> definitions,
    const ScoringOptions& options, const parallel::ParallelState& ranks) {
  SharedSequences shared;
  std::vector<std::vector<size_t>> places;
  for (const std::vector<LambadaExample>& examples : definitions) {
    std::vector<size_t>& of_examples = places.emplace_back();
    for (size_t i = 0; i < examples.size(); ++i) of_examples.push_back(shared.add(i, examples[i]));
  }
  MEG_ASSIGN_OR_RETURN(const std::vector<SequenceScore> scores,
                       score_sequences(model, shared.sequences(), options, ranks));
  std::vector<std::vector<SequenceScore>> answers;
  for (size_t d = 0; d < definitions.size(); ++d) {
    std::vector<SequenceScore>& of_examples = answers.emplace_back();
    for (size_t i = 0; i < definitions[d].size(); ++i) {
      of_examples.push_back(last_targets(scores[places[d][i]], definitions[d][i].targets));
    }
  }
  return answers;
}

bool is_correct(const LambadaExample& example, const SequenceScore& score) {
  return std::equal(score.predicted.begin(), score.predicted.end(),
                    example.tokens.end() - example.targets, example.tokens.end());
}

LambadaSummary summarize_lambada(std::span<const LambadaExample> examples,
                                 std::span<const SequenceScore> scores) {
  LambadaSummary summary;
  summary.examples = static_cast<int64_t>(examples.size());
  double sum = 0;
  for (size_t i = 0; i < examples.size(); ++i) {
    summary.correct += is_correct(examples[i], scores[i]) ? 1 : 0;
    sum += scores[i].logprob();
  }
  const auto count = static_cast<double>(summary.examples);
  summary.accuracy = static_cast<double>(summary.correct) / count;
  summary.perplexity = std::exp(-sum / count);
  return summary;
}

}  // namespace meg::evaluation
