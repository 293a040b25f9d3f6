// Bytes as text (RFC 4648, with padding): how JSON and web pages hold lists of numbers without losing a bit.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace saccade {

std::string to_base64(std::span<const std::byte> bytes);

/// The bytes that were written. Throws an Error, beginning with `where`, for a text that is none of ours:
/// another letter, a length that is no multiple of four, padding within it or bits that mean nothing.
std::vector<std::byte> from_base64(std::string_view text, std::string_view where);

}  // namespace saccade
