// Texts of the papers, and what the frontend makes of a text, as text.
#pragma once

#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "lang/lowering/definition.h"
#include "lang/sema/types.h"

namespace texts {

using tc::ir::Expr;
using tc::ir::Program;
using tc::ir::TensorRole;
using tc::lang::Definition;
using Values = std::map<std::string, int64_t>;

inline std::shared_ptr<const Definition> define(const std::string& text) {
  return tc::lang::parse(text).definitions.back();
}

inline Program infer(const std::string& text, const Values& scalars = {}) {
  return tc::lang::infer_ranges(*define(text), scalars);
}

inline std::string to_text(const Expr& e) {
  std::ostringstream out;
  out << e;
  return out.str();
}

/// "[M, N]" of a tensor.
inline std::string shape(const Program& program, const std::string& tensor) {
  std::string text = "[";
  for (const Expr& size : program.tensor(tensor).sizes) {
    text += (text.size() > 1 ? ", " : "") + to_text(size);
  }
  return text + "]";
}

/// "i in 0 + N" of every iterator, reductions with a star.
inline std::string domain(const Program& program, size_t statement) {
  std::string text;
  for (const auto& iterator : program.statements[statement].domain) {
    text += (text.empty() ? "" : ", ") + iterator.name + (iterator.reduction ? "*" : "") + " in " +
            to_text(iterator.min) + " + " + to_text(iterator.extent);
  }
  return text;
}

inline std::string type_of(const Program& program, const std::string& tensor) {
  return tc::lang::type_name(program.tensor(tensor).type);
}

inline const std::vector<std::string> kAccepted = {
    "def tmm(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,kk) * B(n,kk) }",
    "def tbmm(float(B,N,M) X, float(B,K,M) Y) -> (Z) { Z(b,n,k) +=! X(b,n,m) * Y(b,k,m) }",
    "def gconv(float(N,G,C,H,W) I, float(G,F,C,KH,KW) W1, float(G,F) B) -> (O) {\n"
    "  O(n,g,o,h,w) +=! I(n,g,i,h+kh,w+kw) * W1(g,o,i,kh,kw)\n"
    "  O(n,g,o,h,w) = O(n,g,o,h,w) + B(g,o)\n}",
    "def 1LUT(float(E1,D) LUT1, int32(B,L1) I1) -> (O1) { O1(i,j) +=! LUT1(I1(i,k),j) }",
    "def 2LUT(float(E1,D) LUT1, int(B,L1) I1, float(E2,D) LUT2, int(B,L2) I2) -> (O1,O2) {\n"
    "  O1(i,j) +=! LUT1(I1(i,k),j)\n  O2(i,j) +=! LUT2(I2(i,k),j)\n}",
    "def C3(float(B,WX) I, float(WY,WX) W) -> (C3) { C3(b,wy) +=! I(b,wxx) * W(wy,wxx) }",
    "def MLP1(float(B,M) I, float(O,N) W1, float(O) B1) -> (O1) {\n"
    "O1(b,n) = B1(n)\nO1(b,n) += I(b,m) * W1(n,m)\nO1(b,n) = fmaxf(O1(b,n), 0)\n}",
    "def mv(float(M,K) A, float(K) x) -> (C) {\n  C(i) = 0\n  C(i) += A(i,k) * x(k)\n}",
    "def sgemm(float a, float b, float(N,M) A, float(M,K) B) -> (C) {\n"
    "  C(i,j) = b * C(i,j)\n  C(i,j) += a * A(i,k) * B(k,j)\n}",
    "def fcrelu(float(B,I) in, float(O,I) weight, float(I) bias) -> (out) {\n"
    "  out(i,j) = bias(j)\n  out(b,o) += in(b,i) * weight(o,i)\n"
    "  out(i,j) = fmaxf(out(i,j), 0)\n}",
    "def conv2d(float(B,IP,H,W) in, float(OP,IP,KH,KW) weight) -> (out) {\n"
    "  out(b,op,h,w) +=! in(b,ip,h+kh,w+kw) * weight(op,ip,kh,kw)\n}",
    "def maxpool2x2(float(B,C,H,W) in) -> (out) {\n"
    "  out(b,c,i,j) max=! in(b,c,2*i+kw,2*j+kh) where kw in 0:2, kh in 0:2\n}",
    "def gather(float(N) X, int(A,B) I) -> (Z) { Z(i,j) = X(I(i,j)) }",
    "def outerProductMM(float(P,Q,R) A, float(S,R,T) B) -> (O) {\n"
    "  O(p,s,q,t) +=! A(p,q,r) * B(s,r,t)\n}",
    "def Kronecker3Full(float(D0,N0) W0, float(D1,N1) W1, float(D2,N2) W2, float(M,N0,N1,N2) X)\n"
    "-> (Y, XW2, XW2W1) {\n"
    "  XW2(m,n0,n1,d2) +=! X(m,n0,n1,r_n2) * W2(d2,r_n2)\n"
    "  XW2W1(m,n0,d1,d2) +=! XW2(m,n0,r_n1,d2) * W1(d1,r_n1)\n"
    "  Y(m,d0,d1,d2) +=! XW2W1(m,r_n0,d1,d2) * W0(d0,r_n0)\n}",
    "def group_normalization(float(N,G,D,H,W) I, float(G,D) gamma, float(G,D) beta)\n"
    "-> (O, sum, sumSquares) {\n"
    "  sum(n,g) +=! I(n,g,r_d,r_h,r_w)\n"
    "  sumSquares(n,g) +=! I(n,g,r_d,r_h,r_w) * I(n,g,r_d,r_h,r_w)\n"
    "  O(n,g,d,h,w) = gamma(g,d) * (I(n,g,d,h,w) - sum(n,g) / (D*H*W))\n"
    "    * rsqrt(sumSquares(n,g) / (D*H*W) - sum(n,g) * sum(n,g) / (D*H*W) / (D*H*W) + 1e-5)\n"
    "    + beta(g,d)\n}",
    "def moments2_2D_1D(float(N,K) I) -> (mean, var) {\n"
    "  mean(n) +=! I(n,r_k)\n  var(n) +=! I(n,r_k) * I(n,r_k)\n"
    "  mean(n) = mean(n) / (K)\n  var(n) = var(n) / (K) - mean(n) * mean(n)\n}",
    "def spmv(float(M,K) A, float(K) x) -> (y) { y(i) +=! A(i,j) * x(j) }",
    "def mttkrp(float(I,K,L) B, float(K,J) C, float(L,J) D) -> (A) {\n"
    "  A(i,j) +=! B(i,k,l) * C(k,j) * D(l,j)\n}",
    "def conv(uint8(H,W,C) a, int8(R,S,K,C) b) -> (c) {\n"
    "  c(x,y,k) +=! int32(a(2*x+r,2*y+s,rc)) * int32(b(r,s,k,rc))\n}",
    // Shapes of the language itself.
    "def scalar(float(M) I) -> (O) { O +=! I(i) }",
    "def called(float(M) I) -> (O) { O() +=! I(i) }",
    "def annotated(float(M,N) A) -> (int32(M,N) o) { o(i,j) = int32(A(i,j)) }",
    "def constants(float(36,10) A) -> (O) { O(i) +=! A(i, 0x1 * j) * 2.f * .5 }",
    "def equivalent(float(X,Y) A, float(Y,Z) B) -> (O) {\n"
    "  O(i,j) +=! A(i,k) * B(k,j) <=> matmul(A(i,k), B(k,j))\n}",
    "def after(float(N) A) -> (O) <=> copy(A) { O(i) = A(i) }",
    "def lets(float(N) a) -> (b) { b(i) = 2 * foo where foo = a(i), i in 0:N, exists a(i + 0) }",
    "# a comment\ndef words(float(N) in, float(N) where, float(N) exists) -> (min_idx) {\n"
    "  min_idx(i) = in(i) + where(i) + exists(i) # another\n}",
    "def scattered(float(N,D) A, int64(N) I, float(V) B) -> (float(V,D) O) {\n"
    "  O(I(i), d) +=! A(i, d)\n  O(place, d) max= A(i, d) where place = V - 1 - I(i) % 2\n}",
    "def windows(float(N,K) A) -> (O) { O(v) = 0 where v in 0:2 * N + K\n  O(2 * i + k) += A(i, k) "
    "}",
    "def lazy(float(N) A) -> (O) { O(i) = i > 0 && A(i - 1) > 0.0 ? 1 : i < 3 ? 3 : 2\n"
    "  where i in 0:N }",
};

}  // namespace texts
