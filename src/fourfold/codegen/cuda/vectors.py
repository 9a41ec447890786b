"""Vectors, halves and conversions that CUDA C lacks: the text at the start of every program.

A vector of two or four has lanes x, y, z, w; a longer one consists of two halves. Operators work
lane by lane, a true comparison gives -1 as in OpenCL, and floats round to the nearest half. Sizes
equal those of CUDA's types of the same names, so that loads are as wide.
"""

from __future__ import annotations

TYPES = """
typedef signed char schar;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef long long longlong;
#define DEVICE __device__ __forceinline__
#undef INFINITY
#undef NAN
#undef INT_MIN
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fc00000)
#define INT_MIN (-2147483647 - 1)

static DEVICE int local_x() { return threadIdx.x; }
static DEVICE int local_y() { return threadIdx.y; }
static DEVICE int local_z() { return threadIdx.z; }
static DEVICE int global_x() { return blockIdx.x * blockDim.x + threadIdx.x; }
static DEVICE int global_y() { return blockIdx.y * blockDim.y + threadIdx.y; }
static DEVICE int global_z() { return blockIdx.z * blockDim.z + threadIdx.z; }
"""

# Operations on halves that need assembly; to the compiler, halves are 16-bit integers.
HALF_INSTRUCTIONS = """
static DEVICE float half_to_float(ushort bits)
{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}
static DEVICE ushort float_to_half(float value)
{
    ushort bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}
static DEVICE ushort half_plus(ushort a, ushort b)
{
    ushort bits;
    asm("add.rn.f16 %0, %1, %2;" : "=h"(bits) : "h"(a), "h"(b));
    return bits;
}
static DEVICE ushort half_minus(ushort a, ushort b)
{
    ushort bits;
    asm("sub.rn.f16 %0, %1, %2;" : "=h"(bits) : "h"(a), "h"(b));
    return bits;
}
static DEVICE ushort half_times(ushort a, ushort b)
{
    ushort bits;
    asm("mul.rn.f16 %0, %1, %2;" : "=h"(bits) : "h"(a), "h"(b));
    return bits;
}
"""

# Halves are compared as floats, which is exact.
HALVES = """
struct half {
    ushort bits;
    half() = default;
    explicit DEVICE half(float value) : bits(float_to_half(value)) {}
    DEVICE operator float() const { return half_to_float(bits); }
};
static DEVICE half half_of_bits(ushort bits) { half a; a.bits = bits; return a; }
static DEVICE half operator+(half a, half b) { return half_of_bits(half_plus(a.bits, b.bits)); }
static DEVICE half operator-(half a, half b) { return half_of_bits(half_minus(a.bits, b.bits)); }
static DEVICE half operator*(half a, half b) { return half_of_bits(half_times(a.bits, b.bits)); }
static DEVICE half operator/(half a, half b) { return half(float(a) / float(b)); }
static DEVICE half operator-(half a) { return half_of_bits(ushort(a.bits ^ 0x8000)); }
static DEVICE half &operator+=(half &a, half b) { return a = a + b; }
static DEVICE half &operator-=(half &a, half b) { return a = a - b; }
static DEVICE half &operator*=(half &a, half b) { return a = a * b; }
static DEVICE half &operator/=(half &a, half b) { return a = a / b; }
"""

VECTORS = """
template <class T, int N> struct vector;
template <class T> struct alignas(2 * sizeof(T)) vector<T, 2> {
    T x, y;
    vector() = default;
    explicit DEVICE vector(T a) : x(a), y(a) {}
    DEVICE vector(T a, T b) : x(a), y(b) {}
};
template <class T> struct alignas(4 * sizeof(T) > 16 ? 16 : 4 * sizeof(T)) vector<T, 4> {
    T x, y, z, w;
    vector() = default;
    explicit DEVICE vector(T a) : x(a), y(a), z(a), w(a) {}
    DEVICE vector(T a, T b, T c, T d) : x(a), y(b), z(c), w(d) {}
    DEVICE vector(vector<T, 2> a, vector<T, 2> b) : x(a.x), y(a.y), z(b.x), w(b.y) {}
    DEVICE vector<T, 2> lo() const { return vector<T, 2>(x, y); }
    DEVICE vector<T, 2> hi() const { return vector<T, 2>(z, w); }
};
template <class T, int N> struct alignas(N * sizeof(T) > 16 ? 16 : N * sizeof(T)) vector {
    typedef vector<T, N / 2> part;
    typedef vector<T, N / 4> quarter;
    part lo, hi;
    vector() = default;
    explicit DEVICE vector(T a) : lo(a), hi(a) {}
    DEVICE vector(part a, part b) : lo(a), hi(b) {}
    DEVICE vector(quarter a, quarter b, quarter c, quarter d) : lo(a, b), hi(c, d) {}
    DEVICE vector(T a, T b, T c, T d, T e, T f, T g, T h) : lo(a, b, c, d), hi(e, f, g, h) {}
    DEVICE vector(T a, T b, T c, T d, T e, T f, T g, T h, T i, T j, T k, T l, T m, T n, T o, T p)
        : lo(a, b, c, d, e, f, g, h), hi(i, j, k, l, m, n, o, p) {}
};
#define VECTORS_OF(name) \\
    typedef vector<name, 2> name##2; \\
    typedef vector<name, 4> name##4; \\
    typedef vector<name, 8> name##8; \\
    typedef vector<name, 16> name##16;
VECTORS_OF(float)
VECTORS_OF(half)
VECTORS_OF(int)
VECTORS_OF(uint)
VECTORS_OF(schar)
VECTORS_OF(uchar)
VECTORS_OF(short)
VECTORS_OF(ushort)
VECTORS_OF(longlong)

// A function of each lane, of the lanes of two vectors side by side, and of three.
template <class R, class F, class T> DEVICE vector<R, 2> each(F f, vector<T, 2> a)
{
    return vector<R, 2>(f(a.x), f(a.y));
}
template <class R, class F, class T> DEVICE vector<R, 4> each(F f, vector<T, 4> a)
{
    return vector<R, 4>(f(a.x), f(a.y), f(a.z), f(a.w));
}
template <class R, class F, class T, int N> DEVICE vector<R, N> each(F f, vector<T, N> a)
{
    return vector<R, N>(each<R>(f, a.lo), each<R>(f, a.hi));
}
template <class R, class F, class T> DEVICE vector<R, 2> each(F f, vector<T, 2> a, vector<T, 2> b)
{
    return vector<R, 2>(f(a.x, b.x), f(a.y, b.y));
}
template <class R, class F, class T> DEVICE vector<R, 4> each(F f, vector<T, 4> a, vector<T, 4> b)
{
    return vector<R, 4>(f(a.x, b.x), f(a.y, b.y), f(a.z, b.z), f(a.w, b.w));
}
template <class R, class F, class T, int N>
DEVICE vector<R, N> each(F f, vector<T, N> a, vector<T, N> b)
{
    return vector<R, N>(each<R>(f, a.lo, b.lo), each<R>(f, a.hi, b.hi));
}
template <class T> DEVICE vector<T, 2> choose(vector<int, 2> c, vector<T, 2> a, vector<T, 2> b)
{
    return vector<T, 2>(c.x ? a.x : b.x, c.y ? a.y : b.y);
}
template <class T> DEVICE vector<T, 4> choose(vector<int, 4> c, vector<T, 4> a, vector<T, 4> b)
{
    return vector<T, 4>(
        c.x ? a.x : b.x, c.y ? a.y : b.y, c.z ? a.z : b.z, c.w ? a.w : b.w);
}
template <class T, int N>
DEVICE vector<T, N> choose(vector<int, N> c, vector<T, N> a, vector<T, N> b)
{
    return vector<T, N>(choose(c.lo, a.lo, b.lo), choose(c.hi, a.hi, b.hi));
}
"""

OPERATORS = """
// Written out lane by lane: by a function of each lane they would take the compiler longer.
#define ARITHMETIC(op) \\
    template <class T> DEVICE vector<T, 2> operator op(vector<T, 2> a, vector<T, 2> b) \\
    { \\
        return vector<T, 2>(T(a.x op b.x), T(a.y op b.y)); \\
    } \\
    template <class T> DEVICE vector<T, 4> operator op(vector<T, 4> a, vector<T, 4> b) \\
    { \\
        return vector<T, 4>(T(a.x op b.x), T(a.y op b.y), T(a.z op b.z), T(a.w op b.w)); \\
    } \\
    template <class T, int N> DEVICE vector<T, N> operator op(vector<T, N> a, vector<T, N> b) \\
    { \\
        return vector<T, N>(a.lo op b.lo, a.hi op b.hi); \\
    } \\
    template <class T, int N> \\
    DEVICE vector<T, N> &operator op##=(vector<T, N> &a, vector<T, N> b) \\
    { \\
        return a = a op b; \\
    }
ARITHMETIC(+)
ARITHMETIC(-)
ARITHMETIC(*)
ARITHMETIC(/)
ARITHMETIC(%)
ARITHMETIC(&)
ARITHMETIC(|)
ARITHMETIC(^)
ARITHMETIC(<<)
ARITHMETIC(>>)
// Truth in a vector is -1; what is true of a scalar is 1.
#define COMPARISON(op) \\
    template <class T> DEVICE vector<int, 2> operator op(vector<T, 2> a, vector<T, 2> b) \\
    { \\
        return vector<int, 2>(-(a.x op b.x), -(a.y op b.y)); \\
    } \\
    template <class T> DEVICE vector<int, 4> operator op(vector<T, 4> a, vector<T, 4> b) \\
    { \\
        return vector<int, 4>(-(a.x op b.x), -(a.y op b.y), -(a.z op b.z), -(a.w op b.w)); \\
    } \\
    template <class T, int N> DEVICE vector<int, N> operator op(vector<T, N> a, vector<T, N> b) \\
    { \\
        return vector<int, N>(a.lo op b.lo, a.hi op b.hi); \\
    }
COMPARISON(<)
COMPARISON(<=)
COMPARISON(>)
COMPARISON(>=)
COMPARISON(==)
COMPARISON(!=)
COMPARISON(&&)
COMPARISON(||)
template <class T, int N> DEVICE vector<T, N> operator-(vector<T, N> a)
{
    return each<T>([](T x) { return T(-x); }, a);
}
"""

CONVERSIONS = """
// The same number as another type: towards zero where a fraction is lost. A small integer is cut
// out of an int, so that what becomes of a number that it cannot hold is known.
template <class To, class From> struct conversion {
    static DEVICE To of(From a) { return To(a); }
};
template <> struct conversion<uchar, float> {
    static DEVICE uchar of(float a) { return uchar(int(a)); }
};
template <> struct conversion<schar, float> {
    static DEVICE schar of(float a) { return schar(int(a)); }
};
template <> struct conversion<ushort, float> {
    static DEVICE ushort of(float a) { return ushort(int(a)); }
};
template <> struct conversion<short, float> {
    static DEVICE short of(float a) { return short(int(a)); }
};
template <class To> struct conversion<To, half> {
    static DEVICE To of(half a) { return conversion<To, float>::of(float(a)); }
};
template <class From> struct conversion<half, From> {
    static DEVICE half of(From a) { return half(float(a)); }
};
template <> struct conversion<half, half> {
    static DEVICE half of(half a) { return a; }
};
template <class To, class From, int N> struct conversion<vector<To, N>, vector<From, N>> {
    static DEVICE vector<To, N> of(vector<From, N> a)
    {
        return each<To>([](From x) { return conversion<To, From>::of(x); }, a);
    }
};
template <class To, class From> DEVICE To convert(From a) { return conversion<To, From>::of(a); }
template <class To, class From> DEVICE To bits_as(From a)
{
    static_assert(sizeof(To) == sizeof(From), "as many bits");
    To result;
    memcpy(&result, &a, sizeof(To));
    return result;
}
"""

MATHEMATICS = """
#define OF_ONE(name, function) \\
    static DEVICE float name(float a) { return ::function(a); } \\
    static DEVICE half name(half a) { return half(::function(float(a))); } \\
    template <class T, int N> DEVICE vector<T, N> name(vector<T, N> a) \\
    { \\
        return each<T>([](T x) { return name(x); }, a); \\
    }
OF_ONE(exp, expf)
OF_ONE(log, logf)
OF_ONE(sqrt, sqrtf)
OF_ONE(rsqrt, rsqrtf)
OF_ONE(tanh, tanhf)
OF_ONE(sin, sinf)
OF_ONE(cos, cosf)
OF_ONE(erf, erff)
OF_ONE(fabs, fabsf)
OF_ONE(floor, floorf)
OF_ONE(ceil, ceilf)
OF_ONE(rint, rintf)
OF_ONE(round, roundf)
#define OF_TWO(name, function) \\
    static DEVICE float name(float a, float b) { return ::function(a, b); } \\
    static DEVICE half name(half a, half b) { return half(::function(float(a), float(b))); } \\
    template <class T, int N> DEVICE vector<T, N> name(vector<T, N> a, vector<T, N> b) \\
    { \\
        return each<T>([](T x, T y) { return name(x, y); }, a, b); \\
    }
OF_TWO(atan2, atan2f)
OF_TWO(fmod, fmodf)
OF_TWO(pow, powf)
"""

LANGUAGE_TEXT = TYPES + HALF_INSTRUCTIONS + HALVES + VECTORS + OPERATORS + CONVERSIONS + MATHEMATICS
