// One thread that does all the work which is asked for, in the order of asking. Models are not made for two
// callers at once, and OpenMP would start threads of its own for each thread that computes.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

namespace saccade {

class Worker {
 public:
  Worker() : thread_([this] { work(); }) {}
  ~Worker() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Waits for the result; what the function throws is thrown here.
  template <class Function>
  auto run(Function function) -> decltype(function()) {
    std::packaged_task<decltype(function())()> task(std::move(function));
    auto result = task.get_future();
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back([&task] { task(); });
    }
    changed_.notify_one();
    return result.get();
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return closed_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool closed_ = false;
  std::thread thread_;
};

}  // namespace saccade
