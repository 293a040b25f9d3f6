// One thread that does all the work which is asked for, in the order of asking. Models are not made for two
// callers at once, and OpenMP would start threads of its own for each thread that computes.
#pragma once

#include <future>

#include "saccade/serve/task_threads.h"

namespace saccade {

class Worker {
 public:
  // Waits for the result; what the function throws is thrown here.
  template <class Function>
  auto run(Function function) -> decltype(function()) {
    std::packaged_task<decltype(function())()> task(std::move(function));
    auto result = task.get_future();
    thread_.add([&task] { task(); });
    return result.get();
  }

 private:
  TaskThreads thread_{1};
};

}  // namespace saccade
