#include "tests/emulation/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#ifdef __x86_64__
// swapcontext() would ask the kernel for the signal mask each time: 300 ns instead of 3.
// Saves the registers that a call keeps and the stack pointer, and continues where `to` was left.
extern "C" void meg_swap_stacks(void** from, void* to);
asm(R"(
.text
.type meg_swap_stacks, @function
meg_swap_stacks:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size meg_swap_stacks, . - meg_swap_stacks
)");
#endif

namespace meg::emulation {
namespace {

constexpr size_t kGuardSize = 4096;
constexpr size_t kStackSize = 64 * 1024;

Fiber* left = nullptr;     // who handed over last,
Fiber* entered = nullptr;  // and to whom

}  // namespace

Fiber::Fiber(void (*body)()) : body_(body), stack_size_(kStackSize) {
  mapping_ = mmap(nullptr, kGuardSize + kStackSize, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
  if (mapping_ == MAP_FAILED || mprotect(mapping_, kGuardSize, PROT_NONE) != 0) std::abort();
  auto* const bottom = static_cast<std::byte*>(mapping_) + kGuardSize;
  stack_ = bottom;
#ifdef __x86_64__
  // What meg_swap_stacks() pops: six registers, then the address that it returns to.
  auto** const top = reinterpret_cast<void**>(bottom + kStackSize);
  top[-2] = reinterpret_cast<void*>(&Fiber::begin);
  stack_pointer_ = top - 8;
#else
  getcontext(&context_);
  context_.uc_stack.ss_sp = bottom;
  context_.uc_stack.ss_size = kStackSize;
  makecontext(&context_, &Fiber::begin, 0);
#endif
}

Fiber::~Fiber() {
  if (mapping_ == nullptr) return;
#ifdef __SANITIZE_ADDRESS__
  __asan_unpoison_memory_region(stack_, stack_size_);  // frames that were never left
#endif
  munmap(mapping_, kGuardSize + kStackSize);
}

void Fiber::hand_over_to(Fiber& next) {
  left = this;
  entered = &next;
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(&hidden_stack_, next.stack_, next.stack_size_);
#endif
#ifdef __x86_64__
  meg_swap_stacks(&stack_pointer_, next.stack_pointer_);
#else
  swapcontext(&context_, &next.context_);
#endif
  arrive();
}

void Fiber::arrive() {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(hidden_stack_, &left->stack_, &left->stack_size_);
#endif
}

void Fiber::begin() {
  entered->arrive();
  entered->body_();
}

}  // namespace meg::emulation
