# cmake -DOUTPUT=<file.cc> -P embed_mechanisms.cmake <file.attn>...
#
# Writes the formulas as arrays of characters. Each byte is written as its own character literal, since a string
# literal would have to escape the content and may not be arbitrarily long.

set(names "")
math(EXPR last "${CMAKE_ARGC} - 1")
set(arrays "")
set(rows "")
foreach(index RANGE 0 ${last})
  set(file "${CMAKE_ARGV${index}}")
  if(NOT file MATCHES "\\.attn$")
    continue()  # cmake's own arguments
  endif()
  get_filename_component(name "${file}" NAME_WE)
  if(NOT file MATCHES "/[a-z][a-z0-9_]*\\.attn$")
    message(FATAL_ERROR "${file}: a mechanism's name is lower-case letters, digits and '_'")
  endif()
  list(APPEND names "${name}")
  set(file_${name} "${file}")
endforeach()
list(SORT names)

foreach(name IN LISTS names)
  file(READ "${file_${name}}" bytes HEX)
  string(LENGTH "${bytes}" digits)
  math(EXPR size "${digits} / 2")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
  string(APPEND arrays "constexpr char text_${name}[] = {${bytes}'\\0'};\n")
  string(APPEND rows "    {\"${name}\", {text_${name}, ${size}}},\n")
endforeach()

list(LENGTH names count)
file(WRITE "${OUTPUT}" "// Written by cmake/embed_mechanisms.cmake from mechanisms/*.attn.
#include \"saccade/formula/mechanisms.h\"

#include <array>

namespace saccade {
namespace {

${arrays}
constexpr std::array<EmbeddedMechanism, ${count}> kMechanisms = {{
${rows}}};

}  // namespace

std::span<const EmbeddedMechanism> embedded_mechanisms() { return kMechanisms; }

}  // namespace saccade
")
