#include "libmeg/serving/internal/server_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace meg::serving {
namespace {

void write_head(std::string_view name, std::string_view type, std::string_view help,
                std::string* text) {
  *text += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type);
}

void write_value(std::string_view name, std::string_view type, std::string_view help, int64_t value,
                 std::string* text) {
  write_head(name, type, help, text);
  *text += fmt::format("{} {}\n", name, value);
}

}  // namespace

void ServerMetrics::Histogram::add(double value) {
  const auto bound = std::ranges::lower_bound(kSeconds, value);
  ++counts[static_cast<size_t>(bound - kSeconds.begin())];
  sum += value;
}

void ServerMetrics::Histogram::write(const std::string& name, const std::string& help,
                                     std::string* text) const {
  write_head(name, "histogram", help, text);
  int64_t count = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    count += counts[i];
    const std::string bound = i < kSeconds.size() ? fmt::format("{}", kSeconds[i]) : "+Inf";
    *text += fmt::format("{}_bucket{{le=\"{}\"}} {}\n", name, bound, count);
  }
  *text += fmt::format("{0}_sum {1}\n{0}_count {2}\n", name, sum, count);
}

void ServerMetrics::count(const RequestLog& request) {
  const bool is_known = std::ranges::find(paths_, request.path) != paths_.end();
  const std::lock_guard lock(mutex_);
  ++requests_[{is_known ? request.path : "other", request.status}];
  prompt_tokens_ += request.prompt_tokens;
  new_tokens_ += request.new_tokens;
  // Other requests take no time of the model, and would hide those that do.
  if (request.prompts > 0) seconds_.add(request.seconds);
  if (request.first_token_seconds > 0) first_token_seconds_.add(request.first_token_seconds);
}

std::string ServerMetrics::text(const GenerationQueue::Load& load) const {
  std::string text;
  const auto counter = [&](std::string_view name, std::string_view help, int64_t value) {
    write_value(name, "counter", help, value, &text);
  };
  const auto gauge = [&](std::string_view name, std::string_view help, int64_t value) {
    write_value(name, "gauge", help, value, &text);
  };
  const std::lock_guard lock(mutex_);
  write_head("meg_requests_total", "counter", "Requests by path and HTTP status.", &text);
  for (const auto& [key, count] : requests_) {
    text += fmt::format("meg_requests_total{{path=\"{}\",status=\"{}\"}} {}\n", key.first,
                        key.second, count);
  }
  counter("meg_request_prompt_tokens_total", "Tokens of prompts of all requests.", prompt_tokens_);
  counter("meg_request_generated_tokens_total", "Tokens in the answers to all requests.",
          new_tokens_);
  seconds_.write("meg_request_seconds", "Time to answer a request that has prompts.", &text);
  first_token_seconds_.write("meg_first_token_seconds", "Time to the first token of a stream.",
                             &text);
  counter("meg_engine_steps_total", "Steps of the model.", load.engine.steps);
  counter("meg_engine_prompt_tokens_total", "Tokens of prompts that the model has read.",
          load.engine.prompt_tokens);
  counter("meg_engine_reused_tokens_total", "Tokens of prompts that were in the cache.",
          load.engine.reused_tokens);
  counter("meg_engine_generated_tokens_total", "Tokens that the model has generated.",
          load.engine.generated_tokens);
  gauge("meg_queue_requests", "Requests of which some text waits.", load.waiting);
  gauge("meg_queue_texts", "Texts that wait.", load.waiting_texts);
  gauge("meg_active_texts", "Texts and beam searches that are being generated.", load.active);
  gauge("meg_step_texts", "Texts that the last step continued.", load.engine.step_texts);
  gauge("meg_step_tokens", "Tokens that the model read in the last step.", load.engine.step_tokens);
  gauge("meg_cache_tokens", "Tokens for which active texts have space in the cache.",
        load.engine.held_tokens);
  gauge("meg_cache_capacity_tokens", "Tokens that the cache has space for.",
        load.engine.max_held_tokens);
  gauge("meg_model_ok", "1 unless the model failed at the last request.",
        load.failure.ok() && load.lost.ok() ? 1 : 0);
  return text;
}

}  // namespace meg::serving
