// Integers modulo a prime, and random ones.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tc::lang::field {

/// The modulus, a Mersenne prime, so that products fit into 128 bits. Elements are 0 to kPrime - 1.
constexpr uint64_t kPrime = (uint64_t{1} << 61) - 1;

uint64_t multiply(uint64_t a, uint64_t b);
/// The element that times `a`, which is not 0, makes 1.
uint64_t inverse(uint64_t a);
/// 1 - a.
uint64_t complement(uint64_t a);
uint64_t of_integer(int64_t value);
/// The number that digits with a point and an exponent say; nothing for other spellings.
std::optional<uint64_t> of_decimal(const std::string& text);

/// The next random number of 64 bits (Steele and others, Fast splittable pseudorandom number
/// generators, 2014). The others are of a seed and what it is mixed with.
uint64_t mix(uint64_t x);
uint64_t mix(uint64_t seed, uint64_t value);
uint64_t mix(uint64_t seed, const std::string& text);

}  // namespace tc::lang::field
