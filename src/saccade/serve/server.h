// A web server for the person at this machine and nobody else: it listens on 127.0.0.1, everything lies below
// a random token, and requests that another page might have made are refused. It serves what it is given,
// never a file.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "saccade/base/json.h"

namespace saccade {

struct ServedFile {
  std::string type;  // "text/html"
  std::string content;
};

struct ServerOptions {
  int port = 0;  // 0: one that is free
  size_t largest_body = size_t{1} << 20;
  int connections = 512;  // at once; more have to wait
};

// What the page asks for: a JSON object in, a JSON value out. An Error becomes an answer that says what is
// wrong. Calls come one at a time, all from the same thread.
using Answer = std::function<Json(const Json& request)>;

class LocalServer {
 public:
  // `files` by name; the one named "" is the page itself. Throws Error when the port is taken.
  LocalServer(std::map<std::string, ServedFile> files, std::map<std::string, Answer> answers,
              const ServerOptions& options = {});
  ~LocalServer();
  LocalServer(const LocalServer&) = delete;
  LocalServer& operator=(const LocalServer&) = delete;

  // Where the page is, with the token.
  std::string address() const;
  // Serves until stop() is called, from any thread or a signal's.
  void run();
  void stop();

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace saccade
