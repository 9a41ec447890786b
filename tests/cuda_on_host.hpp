// CUDA's own words for a C++ compiler of the host: work-items are fibres of one thread, which run
// until they wait for each other. Groups run one after the other, so that local memory is static.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ucontext.h>
#include <utility>

#define __device__
#define __global__
#define __shared__ static
#ifndef __clang__
#define __builtin_assume(what) ((void)0)
#endif
#define __isGlobal(pointer) ((void)(pointer), true)
#define __isShared(pointer) ((void)(pointer), true)
#define __forceinline__ inline
#define __launch_bounds__(items)

struct place_of_three {
    unsigned x, y, z;
};
static place_of_three threadIdx, blockIdx, blockDim, gridDim;
static const int warpSize = 32;

static inline float __int_as_float(int bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline int min(int a, int b) { return a < b ? a : b; }

namespace host {
const int MOST_ITEMS = 1024, WARP = 32, SEATS = 16, STACK = 256 << 10;

struct fibre {
    ucontext_t context;
    bool done;
};
struct meeting {
    int arrived, round;
};
static fibre fibres[MOST_ITEMS];
static char *stacks[MOST_ITEMS];
static ucontext_t scheduler;
static int items, current, progress;
static meeting group_meeting, warp_meetings[MOST_ITEMS / WARP], seat_meetings[SEATS + 1];
static void (*called)(void **);
static void **given;

static inline int item() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }

static inline void yield() { swapcontext(&fibres[current].context, &scheduler); }

static int alive(int first, int count)
{
    int living = 0;
    for (int n = first; n < first + count && n < items; n++) living += !fibres[n].done;
    return living;
}

// All that live of these work-items wait for each other.
static void meet(meeting &one, int first, int count)
{
    const int round = one.round;
    one.arrived++;
    while (one.round == round) {
        if (one.arrived >= alive(first, count)) {
            one.arrived = 0;
            one.round++;
            progress++;
        } else {
            yield();
        }
    }
}

static void meet_warp() { meet(warp_meetings[item() / WARP], item() / WARP * WARP, WARP); }

static void run_item()
{
    called(given);
    fibres[current].done = true;
    progress++;
    swapcontext(&fibres[current].context, &scheduler);
}

static void place_item(int n)
{
    current = n;
    threadIdx.x = n % blockDim.x;
    threadIdx.y = n / blockDim.x % blockDim.y;
    threadIdx.z = n / blockDim.x / blockDim.y;
}

static void run_fibres()
{
    for (int n = 0; n < items; n++) {
        if (!stacks[n]) stacks[n] = (char *)malloc(STACK);
        fibres[n].done = false;
        getcontext(&fibres[n].context);
        fibres[n].context.uc_stack.ss_sp = stacks[n];
        fibres[n].context.uc_stack.ss_size = STACK;
        fibres[n].context.uc_link = &scheduler;
        makecontext(&fibres[n].context, run_item, 0);
    }
    while (alive(0, items)) {
        const int before = progress;
        for (int n = 0; n < items; n++) {
            if (fibres[n].done) continue;
            place_item(n);
            swapcontext(&scheduler, &fibres[n].context);
        }
        if (progress == before) {
            fprintf(stderr, "work-items wait for each other for ever\n");
            abort();
        }
    }
}

template <class... Parameters, size_t... Numbers>
static void call(void (*entry)(Parameters...), void **arguments, std::index_sequence<Numbers...>)
{
    entry(*(Parameters *)arguments[Numbers]...);
}
template <class... Parameters> static void call(void (*entry)(Parameters...), void **arguments)
{
    call(entry, arguments, std::index_sequence_for<Parameters...>());
}
}

static inline void __syncthreads() { host::meet(host::group_meeting, 0, host::items); }

extern "C" void host_launch(
    void (*function)(void **), void **arguments, const unsigned *groups, const unsigned *local,
    int waits)
{
    host::called = function;
    host::given = arguments;
    gridDim = {groups[0], groups[1], groups[2]};
    blockDim = {local[0], local[1], local[2]};
    host::items = local[0] * local[1] * local[2];
    for (unsigned z = 0; z < groups[2]; z++)
        for (unsigned y = 0; y < groups[1]; y++)
            for (unsigned x = 0; x < groups[0]; x++) {
                blockIdx = {x, y, z};
                if (waits) {
                    host::run_fibres();
                    continue;
                }
                for (int n = 0; n < host::items; n++) {
                    host::place_item(n);
                    function(arguments);
                }
            }
}
