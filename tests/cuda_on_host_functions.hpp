// What kernels say by NVIDIA's assembly, said in C++: each block takes the place of the function of
// the same name. A warp's work-items leave words for each other, and wait.

//: half_instructions
static inline float half_to_float(ushort bits)
{
    _Float16 value;
    memcpy(&value, &bits, sizeof(value));
    return float(value);
}
static inline ushort half_bits(_Float16 value)
{
    ushort bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}
static inline ushort float_to_half(float value) { return half_bits(_Float16(value)); }
static inline ushort half_plus(ushort a, ushort b)
{
    return float_to_half(half_to_float(a) + half_to_float(b));
}
static inline ushort half_minus(ushort a, ushort b)
{
    return float_to_half(half_to_float(a) - half_to_float(b));
}
static inline ushort half_times(ushort a, ushort b)
{
    return float_to_half(half_to_float(a) * half_to_float(b));
}

//: add_few_dots
static inline int add_dot(int sum, int bytes, int weights)
{
    for (int n = 0; n < 32; n += 8) sum += int(uchar(bytes >> n)) * int(schar(weights >> n));
    return sum;
}
static inline void add_few_dots(int4 *sum, int4 bytes, int4 weights)
{
    sum->x = add_dot(sum->x, bytes.x, weights.x);
    sum->y = add_dot(sum->y, bytes.y, weights.y);
    sum->z = add_dot(sum->z, bytes.z, weights.z);
    sum->w = add_dot(sum->w, bytes.w, weights.w);
}

//: pack_halves
static inline uint2 pack_halves(float4 a)
{
    return uint2(float_to_half(a.x) | uint(float_to_half(a.y)) << 16,
        float_to_half(a.z) | uint(float_to_half(a.w)) << 16);
}

//: unpack_halves
static inline float4 unpack_halves(uint2 a)
{
    return float4(half_to_float(ushort(a.x)), half_to_float(ushort(a.x >> 16)),
        half_to_float(ushort(a.y)), half_to_float(ushort(a.y >> 16)));
}

//: load_if
static inline uint2 load_if(const uint2 *from, int inside) { return inside ? *from : uint2(0u); }

//: load_two_if
static inline uint4 load_two_if(const half *from, int inside)
{
    return inside ? *(const uint4 *)from : uint4(0u);
}

//: copy_ahead
static inline void copy_ahead(uint2 *to, const uint2 *from, int inside)
{
    *to = inside ? *from : uint2(0u);
}
static inline void copy_ahead(uint4 *to, const uint4 *from, int inside)
{
    *to = inside ? *from : uint4(0u);
}

//: end_copies
#define end_copies()

//: await_copies
#define await_copies(newest)

//: show_copies
#define show_copies()

//: begin_products
#define begin_products()

//: end_products
#define end_products()

//: await_products
#define await_products(newest)

//: matrix_at
static inline float piece_product(uint4 a, uint4 b)
{
    const uint left[4] = {a.x, a.y, a.z, a.w}, right[4] = {b.x, b.y, b.z, b.w};
    float sum = 0.0f;
    for (int n = 0; n < 4; n++) {
        sum += half_to_float(ushort(left[n])) * half_to_float(ushort(right[n]))
            + half_to_float(ushort(left[n] >> 16)) * half_to_float(ushort(right[n] >> 16));
    }
    return sum;
}
static inline void multiply_in_memory(float4 *const *sums, int blocks,
    const uint4 *rows, int row_pitch, const uint4 *columns, int column_pitch)
{
    const int item = host::item(), lane = item % host::WARP;
    const uint4 *upper = rows + item / host::WARP % 4 * 16 + lane / 4, *lower = upper + 8;
    for (int block = 0; block < blocks; block++) {
        const uint4 *even = columns + block * 8 + lane % 4 * 2, *odd = even + 1;
        for (int half = 0; half < 2; half++) {
            const uint4 a = upper[half * row_pitch], b = lower[half * row_pitch];
            const uint4 c = even[half * column_pitch], d = odd[half * column_pitch];
            sums[block]->x += piece_product(a, c);
            sums[block]->y += piece_product(a, d);
            sums[block]->z += piece_product(b, c);
            sums[block]->w += piece_product(b, d);
        }
    }
}

//: warpgroup_multiply_64
static inline void warpgroup_multiply_64(float4 *s0, float4 *s1, float4 *s2, float4 *s3, float4 *s4, float4 *s5, float4 *s6, float4
    *s7,
    const uint4 *rows, int row_pitch, const uint4 *columns, int column_pitch)
{
    float4 *const sums[] = {s0, s1, s2, s3, s4, s5, s6, s7};
    multiply_in_memory(sums, 8, rows, row_pitch, columns, column_pitch);
}

//: warpgroup_multiply_128
static inline void warpgroup_multiply_128(float4 *s0, float4 *s1, float4 *s2, float4 *s3, float4 *s4, float4 *s5, float4 *s6, float4
    *s7, float4 *s8, float4 *s9, float4 *s10, float4 *s11, float4 *s12, float4 *s13, float4
    *s14, float4 *s15,
    const uint4 *rows, int row_pitch, const uint4 *columns, int column_pitch)
{
    float4 *const sums[] = {s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, s13, s14, s15};
    multiply_in_memory(sums, 16, rows, row_pitch, columns, column_pitch);
}

//: load_streamed
static inline uint2 load_streamed(const half *from) { return *(const uint2 *)from; }

//: exchange
static inline float exchange(float value, int apart)
{
    static float left[host::MOST_ITEMS];
    const int item = host::item();
    left[item] = value;
    host::meet_warp();
    const float other = left[item ^ apart];
    host::meet_warp();
    return other;
}

//: from_last
static inline uint2 from_last(uint2 words)
{
    static uint2 left[host::MOST_ITEMS];
    const int item = host::item(), lane = item % host::WARP - 4;
    left[item] = words;
    host::meet_warp();
    const uint2 theirs = lane >= 0 ? left[item - 4] : words;
    host::meet_warp();
    return theirs;
}

//: from_next
static inline uint2 from_next(uint2 words)
{
    static uint2 left[host::MOST_ITEMS];
    const int item = host::item(), lane = item % host::WARP + 4;
    left[item] = words;
    host::meet_warp();
    const uint2 theirs = lane < host::WARP ? left[item + 4] : words;
    host::meet_warp();
    return theirs;
}

//: matrix_multiply
static inline float product_of_words(uint a, uint b)
{
    return half_to_float(ushort(a)) * half_to_float(ushort(b))
        + half_to_float(ushort(a >> 16)) * half_to_float(ushort(b >> 16));
}
static inline void multiply_fragments(float4 *d, uint4 rows, uint2 columns)
{
    static uint4 left_rows[host::MOST_ITEMS];
    static uint2 left_columns[host::MOST_ITEMS];
    const int item = host::item(), lane = item % host::WARP, first = item - lane;
    left_rows[item] = rows;
    left_columns[item] = columns;
    host::meet_warp();
    for (int quarter = 0; quarter < 4; quarter++) {
        const uint4 a = left_rows[first + lane / 4 * 4 + quarter];
        const uint2 even = left_columns[first + 8 * (lane % 4) + quarter];
        const uint2 odd = left_columns[first + 8 * (lane % 4) + 4 + quarter];
        d->x += product_of_words(a.x, even.x) + product_of_words(a.y, even.y);
        d->y += product_of_words(a.x, odd.x) + product_of_words(a.y, odd.y);
        d->z += product_of_words(a.z, even.x) + product_of_words(a.w, even.y);
        d->w += product_of_words(a.z, odd.x) + product_of_words(a.w, odd.y);
    }
    host::meet_warp();
}
static inline void matrix_multiply(float4 *d, uint2 upper, uint2 lower, uint2 b)
{
    multiply_fragments(d, uint4(upper, lower), b);
}

//: filter_multiply
static inline float product_of_filter(uint a, uint b)
{
    return half_to_float(ushort(a)) * half_to_float(ushort(b))
        + half_to_float(ushort(a >> 16)) * half_to_float(ushort(b >> 16));
}
static inline uint picked(int weights, int pick)
{
    uint b = 0;
    for (int place = 0; place < 4; place++) {
        const int from = pick >> (4 * place) & 15;
        b |= from < 4 ? (uint(weights) >> (8 * from) & 255) << (8 * place) : 0;
    }
    return b;
}
static inline void filter_multiply(
    float4 *d, uint upper_a, uint lower_a, uint upper_b, uint lower_b, int a, int b, int pick)
{
    static uint4 left_rows[host::MOST_ITEMS];
    static uint2 left_columns[host::MOST_ITEMS];
    const int item = host::item(), lane = item % host::WARP, first = item - lane;
    left_rows[item] = uint4(upper_a, upper_b, lower_a, lower_b);
    left_columns[item] = uint2(picked(a, pick), picked(b, pick));
    host::meet_warp();
    for (int quarter = 0; quarter < 4; quarter++) {
        const uint4 rows = left_rows[first + lane / 4 * 4 + quarter];
        const uint2 even = left_columns[first + 8 * (lane % 4) + quarter];
        const uint2 odd = left_columns[first + 8 * (lane % 4) + 4 + quarter];
        d->x += product_of_filter(rows.x, even.x) + product_of_filter(rows.y, even.y);
        d->y += product_of_filter(rows.x, odd.x) + product_of_filter(rows.y, odd.y);
        d->z += product_of_filter(rows.z, even.x) + product_of_filter(rows.w, even.y);
        d->w += product_of_filter(rows.z, odd.x) + product_of_filter(rows.w, odd.y);
    }
    host::meet_warp();
}

//: grid_barrier
typedef struct {
    int *state;
    uint *host;
    int due;
} waiting;

static inline void meet_beside(int seat, int items)
{
    host::meet(host::seat_meetings[seat], seat * items, items);
}
static inline waiting begin(int *state, uint *host) { return waiting{state, host, 0}; }
static inline void arrive(waiting *others, int group, int groups)
{
    __syncthreads();
    others->due = 1;
}
static inline void await_others(waiting *others)
{
    if (!others->due) return;
    others->due = 0;
    __syncthreads();
}

//: clocked_grid_barrier
typedef struct {
    int *state;
    uint *host;
    int due;
    longlong wait_began;
    longlong wait_ended;
} waiting;

static inline void meet_beside(int seat, int items)
{
    host::meet(host::seat_meetings[seat], seat * items, items);
}
static inline waiting begin(int *state, uint *host) { return waiting{state, host, 0, 0, 0}; }
static inline void arrive(waiting *others, int group, int groups)
{
    __syncthreads();
    others->due = 1;
}
static inline void await_others(waiting *others)
{
    if (!others->due) return;
    others->due = 0;
    others->wait_began = own_ticks();
    __syncthreads();
    others->wait_ended = own_ticks();
}

//: clock_functions
static inline longlong device_time()
{
    return std::chrono::steady_clock::now().time_since_epoch().count();
}
static inline longlong own_ticks() { return 2 * device_time() + 1000; }

//: host_handshake
static inline void await_host(waiting *others, int needed, int asks) {}
static inline void tell_host(waiting *others, int groups)
{
    __syncthreads();
    if (threadIdx.x == 0) others->host[DONE_FLAG] = 1;
}

//: line_fetching
static inline void fetch_lines(const uchar *from, int bytes, int line, int step) {}
