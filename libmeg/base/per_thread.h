#pragma once

#include <pthread.h>

#include <memory>
#include <new>

namespace meg {

/// A value of T for each thread: made when the thread first asks for it, destroyed when the thread
/// ends. A `thread_local` of a type with a destructor registers that with glibc, which ends the
/// process where no memory is left; this throws std::bad_alloc. Meant for objects that live as long
/// as the process.
template <class T>
class PerThread {
 public:
  PerThread() {
    if (pthread_key_create(&key_, [](void* value) { delete static_cast<T*>(value); }) != 0) {
      throw std::bad_alloc();
    }
  }

  PerThread(const PerThread&) = delete;
  PerThread& operator=(const PerThread&) = delete;

  T& get() {
    if (void* const value = pthread_getspecific(key_)) return *static_cast<T*>(value);
    auto value = std::make_unique<T>();
    if (pthread_setspecific(key_, value.get()) != 0) throw std::bad_alloc();
    return *value.release();
  }

 private:
  pthread_key_t key_;
};

}  // namespace meg
