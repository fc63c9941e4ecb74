#include "lang/gradient/sums/prime_field.h"

#include <cctype>
#include <cstdlib>
#include <exception>

namespace tc::lang::field {
namespace {

uint64_t power(uint64_t base, uint64_t exponent) {
  uint64_t result = 1;
  for (; exponent; exponent >>= 1) {
    if (exponent & 1) result = multiply(result, base);
    base = multiply(base, base);
  }
  return result;
}

}  // namespace

uint64_t multiply(uint64_t a, uint64_t b) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(a) * b % kPrime);
}

uint64_t inverse(uint64_t a) { return power(a, kPrime - 2); }

uint64_t complement(uint64_t a) { return (1 + (kPrime - a)) % kPrime; }

uint64_t of_integer(int64_t value) {
  const auto size = static_cast<uint64_t>(value < 0 ? -value : value) % kPrime;
  return value < 0 && size ? kPrime - size : size;
}

std::optional<uint64_t> of_decimal(const std::string& text) {
  uint64_t digits = 0;
  int64_t exponent = 0;
  bool behind_point = false;
  size_t i = 0;
  for (; i < text.size(); ++i) {
    if (text[i] == '.' && !behind_point) {
      behind_point = true;
    } else if (std::isdigit(static_cast<unsigned char>(text[i]))) {
      digits = (multiply(digits, 10) + static_cast<uint64_t>(text[i] - '0')) % kPrime;
      exponent -= behind_point;
    } else {
      break;
    }
  }
  if (i < text.size() && text[i] == 'e') {
    try {
      size_t used = 0;
      exponent += std::stoi(text.substr(i + 1), &used);
      i += 1 + used;
    } catch (const std::exception&) {
      return std::nullopt;
    }
  }
  if (i < text.size() && text[i] != 'f') return std::nullopt;
  const uint64_t scale = power(10, static_cast<uint64_t>(std::abs(exponent)));
  return multiply(digits, exponent < 0 ? inverse(scale) : scale);
}

uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

uint64_t mix(uint64_t seed, uint64_t value) { return mix(seed ^ mix(value)); }

uint64_t mix(uint64_t seed, const std::string& text) {
  for (char c : text) seed = mix(seed, static_cast<unsigned char>(c));
  return seed;
}

}  // namespace tc::lang::field
