#include "libmeg/parallel/internal/nccl_backend.h"

#ifdef USE_C10D_NCCL
#include <dlfcn.h>

#include <cstdlib>
#include <new>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "libmeg/parallel/internal/without_end.h"
#endif

// Makes c10d's NCCL group without linking LibTorch's CUDA half: docs/decisions/14-ranks-on-gpus.md
// says why. If a later LibTorch names these constructors differently, check_nccl() says so before a
// run starts.

namespace meg::parallel {

#ifdef USE_C10D_NCCL
namespace {

using Group = c10d::ProcessGroupNCCL;

// Their places in libtorch_cuda.so, which programs are not linked to: it is loaded where there is a
// GPU. By the C++ ABI a constructor is a function whose first argument is the memory.
using ConstructOptions = void (*)(Group::Options* memory, bool high_priority);
using ConstructGroup = void (*)(Group* memory, c10::intrusive_ptr<c10d::Store> store, int rank,
                                int size, c10::intrusive_ptr<Group::Options> options);
constexpr const char* kConstructOptions = "_ZN4c10d16ProcessGroupNCCL7OptionsC1Eb";
constexpr const char* kConstructGroup =
    "_ZN4c10d16ProcessGroupNCCLC1EN3c1013intrusive_ptrINS_5StoreENS1_6detail34"
    "intrusive_target_default_null_typeIS3_EEEEiiNS2_INS0_7OptionsENS5_IS8_EEEE";

/// A T made by this constructor of the loaded library, which destroys it by its virtual functions.
template <class T, class Constructor, class... Arguments>
c10::intrusive_ptr<T> construct(const char* name, Arguments... arguments) {
  const auto constructor = reinterpret_cast<Constructor>(::dlsym(RTLD_DEFAULT, name));
  TORCH_CHECK(constructor != nullptr, "no ", name);
  void* const memory = ::operator new(sizeof(T));
  try {
    constructor(static_cast<T*>(memory), std::move(arguments)...);
  } catch (...) {
    ::operator delete(memory);
    throw;
  }
  // Do what make_intrusive does with what `new T` returns. That cannot be written here, as the
  // constructor is not linked.
  return c10::intrusive_ptr<T>::unsafe_steal_from_new(static_cast<T*>(memory));
}

/// RankWatch watches all groups of a rank: no further thread for each, nor files that describe what
/// it was doing. Whoever sets a variable has it as in Python.
void leave_watching_to_us() {
  for (const char* name : {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_ENABLE_MONITORING",
                           "TORCH_NCCL_DUMP_ON_TIMEOUT", "TORCH_FR_BUFFER_SIZE"}) {
    ::setenv(name, "0", /*overwrite=*/0);
  }
}

}  // namespace

Status check_nccl() {
  for (const char* const name : {kConstructOptions, kConstructGroup}) {
    if (::dlsym(RTLD_DEFAULT, name) != nullptr) continue;
    return make_error(StatusCode::kUnsupported,
                      "several ranks on GPUs: LibTorch's CUDA library has no {}", name);
  }
  return {};
}

c10::intrusive_ptr<c10d::Backend> nccl_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                               const std::string& name, int rank, int size) {
  leave_watching_to_us();
  auto options = construct<Group::Options, ConstructOptions>(kConstructOptions, false);
  // RankWatch has the time-outs; with one of NCCL's own the process would be aborted from a thread
  // of torch.
  options->timeout = kWithoutEnd;
  options->group_name = name;
  return construct<Group, ConstructGroup>(kConstructGroup, store, rank, size, std::move(options));
}

#else

Status check_nccl() {
  return Status(StatusCode::kUnsupported, "several ranks on GPUs: libmeg was built without NCCL");
}

c10::intrusive_ptr<c10d::Backend> nccl_backend(const c10::intrusive_ptr<c10d::Store>& /*store*/,
                                               const std::string& /*name*/, int /*rank*/,
                                               int /*size*/) {
  return {};
}

#endif

}  // namespace meg::parallel
