// Every connection has a thread of its own, which costs little and lets slow ones wait for themselves; the
// work is done by one worker.
#include "saccade/serve/server.h"

#include <fmt/format.h>
#include <httplib.h>
#include <sys/socket.h>

#include <random>

#include "saccade/base/error.h"
#include "saccade/base/log.h"
#include "saccade/serve/worker.h"

namespace saccade {
namespace {

// Chromium and others keep some connections open without using them; they must not hold threads for long.
constexpr int kIdleSeconds = 5;

// Nothing but what this server sends is loaded or asked, and no other page may show this one in a frame.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

std::string random_token() {
  std::random_device source;
  std::string token;
  for (int word = 0; word < 4; ++word) token += fmt::format("{:08x}", source());
  return token;
}

// Takes as long for a nearly right token as for a wrong one.
bool same_text(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned different = 0;
  for (size_t index = 0; index < a.size(); ++index) different |= static_cast<unsigned>(a[index] ^ b[index]);
  return different == 0;
}

// How the library asks for threads.
class Connections : public httplib::TaskQueue {
 public:
  explicit Connections(int most) : threads_(static_cast<size_t>(most)) {}
  void enqueue(std::function<void()> task) override { threads_.add(std::move(task)); }
  void shutdown() override { threads_.finish(); }

 private:
  TaskThreads threads_;
};

void refuse(httplib::Response& response, int status, std::string_view why) {
  response.status = status;
  response.set_content(dump({{"error", why}}), "application/json");
}

}  // namespace

struct LocalServer::Inside {
  std::map<std::string, ServedFile> files;
  std::map<std::string, Answer> answers;
  const std::string token = random_token();
  int port = 0;
  httplib::Server server;
  Worker worker;

  // Why a request is refused; empty: it is not. A page from elsewhere can make a browser send requests here,
  // and a name that it owns can be made to mean 127.0.0.1; both show in the headers.
  std::string objection(const httplib::Request& request) const {
    const std::string own = fmt::format("127.0.0.1:{}", port), named = fmt::format("localhost:{}", port);
    const std::string host = request.get_header_value("Host");
    if (host != own && host != named) return "view: the request is for another host";
    const std::string origin = request.get_header_value("Origin");
    if (!origin.empty() && origin != "http://" + own && origin != "http://" + named)
      return "view: the request comes from another page";
    const std::string site = request.get_header_value("Sec-Fetch-Site");
    if (!site.empty() && site != "same-origin" && site != "none")
      return "view: the request comes from another page";
    const std::string_view path = request.path;
    if (path.size() < token.size() + 2 || path[0] != '/' || path[token.size() + 1] != '/' ||
        !same_text(path.substr(1, token.size()), token))
      return "view: the address lacks its token; use the one that `saccade view` has printed";
    return "";
  }

  void answer(const httplib::Request& request, httplib::Response& response, const std::string& name) {
    const auto found = answers.find(name);
    if (found == answers.end()) return refuse(response, 404, fmt::format("view: there is no '{}'", name));
    if (request.get_header_value("Content-Type") != "application/json")
      return refuse(response, 415, "view: the request is no application/json");
    try {
      const Json body = parse_json(request.body, "request");
      require(body.is_object(), "view: the request is no JSON object");
      const Json result = worker.run([&] { return found->second(body); });
      response.set_content(dump(result), "application/json");
    } catch (const Error& error) {
      refuse(response, 400, error.what());
    } catch (const std::exception& error) {
      log::error("view: {}: {}", name, error.what());
      refuse(response, 500, fmt::format("internal error: {}", error.what()));
    }
  }
};

LocalServer::LocalServer(std::map<std::string, ServedFile> files, std::map<std::string, Answer> answers,
                         const ServerOptions& options)
    : inside_(std::make_unique<Inside>()) {
  Inside& inside = *inside_;
  inside.files = std::move(files);
  inside.answers = std::move(answers);
  httplib::Server& server = inside.server;
  server.new_task_queue = [most = options.connections] { return new Connections(most); };
  server.set_payload_max_length(options.largest_body);
  server.set_keep_alive_timeout(kIdleSeconds);
  server.set_read_timeout(kIdleSeconds);
  server.set_write_timeout(kIdleSeconds);
  server.set_default_headers({{"Content-Security-Policy", kPolicy},
                              {"X-Content-Type-Options", "nosniff"},
                              {"Referrer-Policy", "no-referrer"},
                              {"Cross-Origin-Resource-Policy", "same-origin"},
                              {"Cache-Control", "no-store"}});
  server.set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
    const std::string objection = inside_->objection(request);
    if (objection.empty()) return httplib::Server::HandlerResponse::Unhandled;
    refuse(response, 403, objection);
    return httplib::Server::HandlerResponse::Handled;
  });
  // The library compares with regular expressions; names are compared here, after the token.
  const size_t prefix = inside.token.size() + 2;
  server.Get("/.*", [this, prefix](const httplib::Request& request, httplib::Response& response) {
    const auto found = inside_->files.find(request.path.substr(prefix));
    if (found == inside_->files.end()) return refuse(response, 404, "view: there is no such page");
    response.set_content(found->second.content, found->second.type);
  });
  server.Post("/.*", [this, prefix](const httplib::Request& request, httplib::Response& response) {
    inside_->answer(request, response, request.path.substr(prefix));
  });
  server.set_error_handler([](const httplib::Request&, httplib::Response& response) {
    if (response.body.empty())
      refuse(response, response.status, fmt::format("view: the request was refused ({})", response.status));
  });
  // The library would let two programs share a port, and requests go to either.
  server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  });
  if (options.port == 0) {
    inside.port = server.bind_to_any_port("127.0.0.1");
    require(inside.port > 0, "view: no port on 127.0.0.1 could be opened");
  } else {
    require(server.bind_to_port("127.0.0.1", options.port),
            "view: port {} of 127.0.0.1 cannot be opened; "
            "another program may be using it",
            options.port);
    inside.port = options.port;
  }
}

LocalServer::~LocalServer() { stop(); }

std::string LocalServer::address() const {
  return fmt::format("http://127.0.0.1:{}/{}/", inside_->port, inside_->token);
}

void LocalServer::run() { inside_->server.listen_after_bind(); }

void LocalServer::stop() { inside_->server.stop(); }

}  // namespace saccade
