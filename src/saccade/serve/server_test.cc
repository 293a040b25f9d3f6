#include "saccade/serve/server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <httplib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "saccade/base/error.h"
#include "saccade/base/testing.h"

namespace saccade {
namespace {

using ::testing::HasSubstr;

// A server on a thread of its own, with a page and two answers.
class Server : public ::testing::Test {
 protected:
  Server()
      : server({{"", {"text/html", "<p>page</p>"}}, {"a.js", {"text/javascript", "1"}}},
               {{"twice", [](const Json& request) { return Json(2 * request.at("x").get<int>()); }},
                {"fails", [](const Json&) -> Json { fail("fails: it does"); }},
                {"breaks", [](const Json&) -> Json { throw std::logic_error("broken"); }}},
               {.largest_body = 1000}),
        thread([this] { server.run(); }) {
    const std::string address = server.address();
    const size_t colon = address.rfind(':'), slash = address.find('/', colon);
    port = std::stoi(address.substr(colon + 1, slash - colon - 1));
    base = address.substr(slash);
    // run() is on its way; a connection waits until it accepts.
  }
  ~Server() override {
    // A server that is stopped before it runs would run for ever.
    httplib::Client("127.0.0.1", port).Get(base);
    server.stop();
    thread.join();
  }

  httplib::Result get(const std::string& path, const httplib::Headers& headers = {}) {
    return httplib::Client("127.0.0.1", port).Get(path, headers);
  }
  httplib::Result post(const std::string& name, const std::string& body,
                       const char* type = "application/json", const httplib::Headers& headers = {}) {
    return httplib::Client("127.0.0.1", port).Post(base + name, headers, body, type);
  }
  int open_connection() const {
    const int connection = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    return connection;
  }

  LocalServer server;
  std::thread thread;
  int port = 0;
  std::string base;
};

TEST_F(Server, ServesItsPageBelowTheToken) {
  EXPECT_THAT(server.address(), ::testing::MatchesRegex("http://127.0.0.1:[0-9]+/[0-9a-f]+/"));
  EXPECT_GE(base.size(), 34u);
  const auto page = get(base);
  ASSERT_TRUE(page);
  EXPECT_EQ(page->status, 200);
  EXPECT_EQ(page->body, "<p>page</p>");
  EXPECT_EQ(page->get_header_value("Content-Type"), "text/html");
  EXPECT_THAT(page->get_header_value("Content-Security-Policy"), HasSubstr("default-src 'none'"));
  EXPECT_EQ(get(base + "a.js")->body, "1");
}

TEST_F(Server, AnswersQuestions) {
  const auto answer = post("twice", R"({"x": 21})");
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->body, "42");
}

TEST_F(Server, SaysWhatIsWrong) {
  EXPECT_EQ(post("fails", "{}")->status, 400);
  EXPECT_EQ(post("fails", "{}")->body, R"({"error":"fails: it does"})");
  EXPECT_EQ(post("breaks", "{}")->status, 500);
  EXPECT_EQ(post("unknown", "{}")->status, 404);
  EXPECT_EQ(post("twice", "{\"x\": ")->status, 400);
  EXPECT_THAT(post("twice", "{\"x\": ")->body, HasSubstr("request:1:"));
  EXPECT_EQ(post("twice", "[]")->status, 400);
  EXPECT_EQ(post("twice", std::string(400, '[') + std::string(400, ']'))->status, 400);
  EXPECT_EQ(post("twice", "{}", "text/plain")->status, 415);
  // It is still there.
  EXPECT_EQ(post("twice", R"({"x": 1})")->body, "2");
}

TEST_F(Server, RefusesWhatIsTooLarge) {
  const auto answer = post("twice", std::string(5000, ' '));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 413);
}

TEST_F(Server, RefusesRequestsWithoutTheToken) {
  EXPECT_EQ(get("/")->status, 403);
  EXPECT_EQ(get("/a.js")->status, 403);
  std::string wrong = base;
  wrong[3] = wrong[3] == '0' ? '1' : '0';
  EXPECT_EQ(get(wrong)->status, 403);
  EXPECT_EQ(get(base.substr(0, base.size() - 1))->status, 403);
  EXPECT_EQ(httplib::Client("127.0.0.1", port).Post("/twice", R"({"x":1})", "application/json")->status, 403);
}

TEST_F(Server, RefusesOtherPagesAndNames) {
  EXPECT_EQ(get(base, {{"Origin", "http://example.com"}})->status, 403);
  EXPECT_EQ(get(base, {{"Origin", "null"}})->status, 403);
  EXPECT_EQ(get(base, {{"Sec-Fetch-Site", "cross-site"}})->status, 403);
  EXPECT_EQ(get(base, {{"Host", "example.com"}})->status, 403);
  EXPECT_EQ(get(base, {{"Host", "127.0.0.1.example.com:" + std::to_string(port)}})->status, 403);
  EXPECT_EQ(post("twice", R"({"x":1})", "application/json", {{"Origin", "https://127.0.0.1"}})->status, 403);
  const std::string own = "http://127.0.0.1:" + std::to_string(port);
  EXPECT_EQ(post("twice", R"({"x":1})", "application/json", {{"Origin", own}})->status, 200);
  EXPECT_EQ(get(base, {{"Host", "localhost:" + std::to_string(port)}})->status, 200);
}

TEST_F(Server, ServesNoFiles) {
  for (const char* path : {"../../../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "a.js/../../etc/passwd",
                           "/etc/passwd", "a.js%00.html"})
    EXPECT_EQ(get(base + path)->status, 404) << path;
}

TEST_F(Server, OtherMethodsAreRefused) {
  httplib::Client client("127.0.0.1", port);
  EXPECT_EQ(client.Put(base + "twice", R"({"x":1})", "application/json")->status, 404);
  EXPECT_EQ(client.Delete(base)->status, 404);
}

TEST_F(Server, SlowClientsDoNotBlockOthers) {
  std::vector<int> slow;
  for (int index = 0; index < 150; ++index) {
    slow.push_back(open_connection());
    // A request that has begun and does not go on.
    ASSERT_GT(::send(slow.back(), "POST / HTTP/1.1\r\nHo", 19, MSG_NOSIGNAL), 0);
  }
  EXPECT_EQ(get(base)->status, 200);
  EXPECT_EQ(post("twice", R"({"x": 4})")->body, "8");
  for (const int connection : slow) ::close(connection);
}

TEST_F(Server, NonsenseIsNoProblem) {
  for (const std::string& text :
       {std::string("\0\0\0\0", 4), std::string("GET\r\n\r\n"), std::string(20000, 'a'),
        std::string("GET / HTTP/9.9\r\n\r\n"), std::string("\r\n\r\n")}) {
    const int connection = open_connection();
    ::send(connection, text.data(), text.size(), MSG_NOSIGNAL);
    ::close(connection);
  }
  EXPECT_EQ(get(base)->status, 200);
}

TEST(ServerPort, SaysThatAPortIsTaken) {
  LocalServer first({}, {});
  const std::string address = first.address();
  const size_t colon = address.rfind(':');
  const int port = std::stoi(address.substr(colon + 1));
  EXPECT_THAT(message_of([&] { LocalServer second({}, {}, {.port = port}); }), HasSubstr("cannot be opened"));
}

}  // namespace
}  // namespace saccade
