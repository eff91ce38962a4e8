#pragma once

#include <cstddef>

#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace meg::emulation {

/// A function with a stack of its own, which runs until it hands over to another fiber. All fibers
/// of a process run on one thread.
class Fiber {
 public:
  /// Stands for the thread itself, which runs already.
  Fiber() = default;

  /// Runs body() when it is handed to for the first time; body() must never return.
  explicit Fiber(void (*body)());

  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber();

  /// Called on the fiber that runs: continues with `next`, and returns when somebody hands back.
  void hand_over_to(Fiber& next);

 private:
  static void begin();
  void arrive();

  void (*body_)() = nullptr;
  void* mapping_ = nullptr;      // the stack with its guard page below; none for the thread itself
  const void* stack_ = nullptr;  // what the address sanitizer is told
  size_t stack_size_ = 0;
  void* hidden_stack_ = nullptr;  // the address sanitizer's, while another fiber runs
#ifdef __x86_64__
  void* stack_pointer_ = nullptr;  // while another fiber runs
#else
  ucontext_t context_ = {};
#endif
};

}  // namespace meg::emulation
