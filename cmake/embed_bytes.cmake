# Any file as the body of a constexpr array. Each byte is written as its own character literal, since a string literal
# would have to escape the content and may not be arbitrarily long.

# Sets `out_array` to "constexpr char <name>[] = {...};" and `out_size` to the number of bytes without the final '\0'.
function(saccade_bytes_of file name out_array out_size)
  file(READ "${file}" bytes HEX)
  string(LENGTH "${bytes}" digits)
  math(EXPR size "${digits} / 2")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
  set(${out_array} "constexpr char ${name}[] = {${bytes}'\\0'};\n" PARENT_SCOPE)
  set(${out_size} ${size} PARENT_SCOPE)
endfunction()
