#pragma once

#include <chrono>
#include <cstdint>
#include <thread>

#include "libmeg/samples/sample_dataset.h"

namespace meg::test {

/// Texts that name their sample: token i of sample s is 1000 s + i.
class MadeUpDataset : public samples::SampleDataset {
 public:
  MadeUpDataset(int64_t size, int64_t text_length) : size_(size), text_length_(text_length) {}

  /// Every reading of `sample` fails.
  void fail_at(int64_t sample) { failing_ = sample; }

  /// Samples take unequal times.
  void be_slow() { slow_ = true; }

  int64_t size() const override { return size_; }

  int64_t text_length() const override { return text_length_; }

  Status text(int64_t sample, int64_t /*pad*/, std::span<int64_t> out) const override {
    if (slow_) std::this_thread::sleep_for(std::chrono::microseconds(37 * (sample % 7)));
    if (sample < 0 || sample >= size_) return Status(StatusCode::kOutOfRange, "no such sample");
    if (sample == failing_) return Status(StatusCode::kCorruption, "data.bin: broken");
    for (int64_t i = 0; i < text_length_; ++i) out[static_cast<size_t>(i)] = 1000 * sample + i;
    return Status();
  }

  Result<samples::SampleSource> source(int64_t sample) const override {
    return samples::SampleSource{
        .parts = {{.sequence = sample, .offset = 0, .length = text_length_}}};
  }

  std::vector<std::string> prefixes() const override { return {"made-up"}; }

 private:
  int64_t size_;
  int64_t text_length_;
  int64_t failing_ = -1;
  bool slow_ = false;
};

}  // namespace meg::test
