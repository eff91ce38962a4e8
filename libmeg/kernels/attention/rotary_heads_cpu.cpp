#include <vector>

#include "libmeg/kernels/attention/rotary_heads.h"
#include "libmeg/kernels/internal/cpu_runs.h"

namespace meg::kernels {
namespace {

int64_t offset_of(const HeadStrides& strides, int64_t row, int64_t token, int64_t group,
                  int64_t head) {
  return row * strides.row + token * strides.token + group * strides.group + head * strides.head;
}

/// One token's heads, one after another. room: floats for its cosines and sines and for a head as
/// it is read and as it is written.
class Token {
 public:
  static size_t room(const RotaryHeads& call) {
    return static_cast<size_t>(2 * call.turned + 2 * call.channels);
  }

  Token(const RotaryHeads& call, int64_t number, float* room)
      : call_(call),
        runs_(call.type),
        row_(number / call.tokens),
        token_(number % call.tokens),
        cosine_(runs_.read(call.cosine, token_ * call.turned, call.turned, room)),
        sine_(runs_.read(call.sine, token_ * call.turned, call.turned, room + call.turned)),
        from_(room + 2 * call.turned),
        to_(from_ + call.channels) {}

  void copy(const HeadCopy& copy) {
    for (int64_t group = 0; group < call_.groups; ++group) {
      for (int64_t head = 0; head < copy.heads; ++head) copy_head(copy, group, head);
    }
  }

 private:
  void copy_head(const HeadCopy& copy, int64_t group, int64_t head) {
    const int64_t source = offset_of(copy.from_strides, row_, token_, group, head);
    const int64_t target = offset_of(copy.to_strides, row_, token_, group, head);
    const float* const from = runs_.read(copy.from, source, call_.channels, from_);
    float* const to = runs_.place(copy.to, target, to_);
    const int64_t turned = copy.is_turned ? call_.turned : 0;
    if (call_.interleaved) {
      for (int64_t i = 0; i < turned; i += 2) turn(from, i, i + 1, to);
    } else {
      for (int64_t i = 0; i < turned / 2; ++i) turn(from, i, i + turned / 2, to);
    }
    for (int64_t i = turned; i < call_.channels; ++i) to[i] = from[i];
    runs_.write(to, copy.to, target, call_.channels);
  }

  void turn(const float* from, int64_t a, int64_t b, float* to) const {
    const float sine = call_.turns_back ? -sine_[a] : sine_[a];
    to[a] = from[a] * cosine_[a] - from[b] * sine;
    to[b] = from[b] * cosine_[a] + from[a] * sine;
  }

  const RotaryHeads& call_;
  CpuRuns runs_;
  int64_t row_, token_;
  const float* cosine_;
  const float* sine_;
  float* from_;
  float* to_;
};

}  // namespace

void rotary_heads_cpu(const RotaryHeads& call, int64_t begin, int64_t end) {
  std::vector<float> room(Token::room(call));
  for (int64_t number = begin; number < end; ++number) {
    Token token(call, number, room.data());
    for (const HeadCopy& copy : call.copies) {
      if (copy.to != nullptr) token.copy(copy);
    }
  }
}

}  // namespace meg::kernels
