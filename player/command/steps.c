/* Runs the commands of --steps: access to the memory of a loaded model, launches and timing.
 *
 * Tuning and probing over a remote link need more than whole runs: they write and read parts of
 * buffers, and run and time some launches. Each step is one line, and so is its answer. */
#include "steps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../container.h"
#include "../model.h"
#include "report.h"

enum { LINE_BYTES = 4096, MAX_WORDS = 6, MAX_TIMES = 10000 };

typedef struct step_state {
    ff_model *model;
    ff_info info;
    void **inputs, **outputs; /* arrays for whole runs */
    uint8_t *reference;       /* bytes that `keep` stored for `compare` */
    size_t reference_size;
    ff_cl profiling_queue; /* a queue with profiling, or NULL */
} step_state;

typedef struct step {
    char *words[MAX_WORDS];
    size_t count;
    uint64_t numbers[MAX_WORDS]; /* values of the words that are numbers */
} step;

/* A byte range of a buffer of the plan. */
typedef struct part {
    ff_cl buffer;
    size_t offset, size;
} part;

typedef ff_status step_function(step_state *state, const step *step, ff_line *answer,
                                ff_error *error);

static ff_status find_part(const step_state *state, const step *step, part *result, uint64_t size,
                           ff_error *error) {
    const ff_plan *plan = &state->model->plan;
    uint64_t number = step->numbers[1], offset = step->numbers[2], capacity;
    if (number >= plan->buffer_count)
        return ff_fail(error, FF_ARGUMENT, "the buffer does not exist");
    capacity = plan->buffers[number].allocated;
    if (size == 0 || offset > capacity || size > capacity - offset) {
        return ff_fail(error, FF_ARGUMENT,
                       "the buffer has %llu bytes; %llu bytes at offset %llu are out of range",
                       (unsigned long long)capacity, (unsigned long long)size,
                       (unsigned long long)offset);
    }
    result->buffer = state->model->buffers[number];
    result->offset = (size_t)offset;
    result->size = (size_t)size;
    return FF_OK;
}

static ff_status write_part(step_state *state, const part *to, const void *bytes, ff_error *error) {
    int32_t status = state->model->player->cl.EnqueueWriteBuffer(
        state->model->queue, to->buffer, 1, to->offset, to->size, bytes, 0, NULL, NULL);
    return status == 0 ? FF_OK : ff_opencl_fail(error, "writing a buffer", status);
}

/* Returns the bytes of a part, to be freed; NULL on failure. */
static uint8_t *read_part(step_state *state, const part *from, ff_error *error) {
    uint8_t *bytes = malloc(from->size);
    int32_t status;
    if (bytes == NULL) {
        ff_no_memory(error);
        return NULL;
    }
    status = state->model->player->cl.EnqueueReadBuffer(
        state->model->queue, from->buffer, 1, from->offset, from->size, bytes, 0, NULL, NULL);
    if (status == 0) return bytes;
    ff_opencl_fail(error, "reading a buffer", status);
    free(bytes);
    return NULL;
}

static ff_status append(const char *path, const void *bytes, size_t size, ff_error *error) {
    FILE *file = fopen(path, "ab");
    size_t written = file == NULL ? 0 : fwrite(bytes, 1, size, file);
    int closed = file == NULL ? -1 : fclose(file);
    if (written == size && closed == 0) return FF_OK;
    return ff_fail(error, FF_FILE,
                   "cannot write '%s': no space left on device, or permission denied", path);
}

/* fill BUFFER OFFSET PATH */
static ff_status fill(step_state *state, const step *step, ff_line *answer, ff_error *error) {
    const uint8_t *bytes;
    size_t size;
    char why[200];
    part to;
    ff_status status;
    (void)answer;
    if (!ff_map_file(step->words[3], &bytes, &size, why, sizeof why)) {
        return ff_fail(error, FF_FILE, "'%s' cannot be read: %s", step->words[3], why);
    }
    status = find_part(state, step, &to, size, error);
    if (status == FF_OK) status = write_part(state, &to, bytes, error);
    ff_unmap_file(bytes, size);
    return status;
}

/* blank BUFFER OFFSET BYTES: fills with a NaN of both fp32 and fp16 */
static ff_status blank(step_state *state, const step *step, ff_line *answer, ff_error *error) {
    static const uint8_t pattern[4] = {0xc0, 0x7f, 0xc0, 0x7f};
    part to;
    uint8_t *bytes;
    ff_status status = find_part(state, step, &to, step->numbers[3], error);
    (void)answer;
    if (status != FF_OK) return status;
    bytes = malloc(to.size);
    if (bytes == NULL) return ff_no_memory(error);
    for (size_t i = 0; i < to.size; i++) bytes[i] = pattern[i % 4];
    status = write_part(state, &to, bytes, error);
    free(bytes);
    return status;
}

/* read BUFFER OFFSET BYTES PATH */
static ff_status read(step_state *state, const step *step, ff_line *answer, ff_error *error) {
    part from;
    uint8_t *bytes;
    ff_status status = find_part(state, step, &from, step->numbers[3], error);
    (void)answer;
    if (status != FF_OK) return status;
    bytes = read_part(state, &from, error);
    if (bytes == NULL) return error->status;
    status = append(step->words[4], bytes, from.size, error);
    free(bytes);
    return status;
}

/* keep BUFFER OFFSET BYTES */
static ff_status keep(step_state *state, const step *step, ff_line *answer, ff_error *error) {
    part from;
    ff_status status = find_part(state, step, &from, step->numbers[3], error);
    (void)answer;
    if (status != FF_OK) return status;
    free(state->reference);
    state->reference = read_part(state, &from, error);
    state->reference_size = state->reference == NULL ? 0 : from.size;
    return state->reference == NULL ? error->status : FF_OK;
}

static double half_to_double(uint16_t bits) {
    int exponent = bits >> 10 & 31;
    double fraction = bits & 1023, sign = bits & 0x8000 ? -1 : 1;
    if (exponent == 31) return fraction > 0 ? (double)NAN : sign * (double)INFINITY;
    return sign * (exponent == 0 ? ldexp(fraction, -24) : ldexp(fraction + 1024, exponent - 25));
}

/* Returns an element as a double. All supported machines are little-endian. */
static double element_at(const uint8_t *bytes, char kind, size_t size, size_t index) {
    uint64_t bits = 0;
    float single;
    double wide;
    memcpy(&bits, bytes + size * index, size);
    if (kind == 'u') return (double)bits;
    if (kind == 'i') return (double)((int64_t)(bits << (64 - 8 * size)) >> (64 - 8 * size));
    if (size == 2) return half_to_double((uint16_t)bits);
    if (size == 4) return memcpy(&single, bytes + 4 * index, 4), (double)single;
    return memcpy(&wide, bytes + 8 * index, 8), wide;
}

/* Parses a type such as "f32" and returns its size in bytes; 0 if it is unknown. */
static size_t read_type(const char *type, char *kind) {
    unsigned long bits = strcmp(type, "bool") == 0 ? 8 : strtoul(type + 1, NULL, 10);
    *kind = *type == 'b' ? 'u' : *type;
    if (strchr("fiu", *kind) == NULL || *kind == 0 || (*kind == 'f' && bits == 8)) return 0;
    return bits == 8 || bits == 16 || bits == 32 || bits == 64 ? bits / 8 : 0;
}

/* compare BUFFER OFFSET BYTES TYPE: with the bytes that `keep` stored */
static ff_status compare(step_state *state, const step *step, ff_line *answer, ff_error *error) {
    char kind;
    size_t size = read_type(step->words[4], &kind);
    double largest = 0, scale = 0;
    int nan_differs = 0;
    part from;
    uint8_t *bytes;
    ff_status status = find_part(state, step, &from, step->numbers[3], error);
    if (status != FF_OK) return status;
    if (size == 0) return ff_fail(error, FF_ARGUMENT, "unknown type '%s'", step->words[4]);
    if (from.size != state->reference_size) {
        return ff_fail(error, FF_ARGUMENT,
                       "the number of bytes differs from that of the last 'keep'");
    }
    bytes = read_part(state, &from, error);
    if (bytes == NULL) return error->status;
    for (size_t i = 0; i < from.size / size; i++) {
        double expected = element_at(state->reference, kind, size, i),
               result = element_at(bytes, kind, size, i);
        if (!isfinite(expected)) {
            nan_differs =
                nan_differs || !(result == expected || (isnan(result) && isnan(expected)));
        } else if (!isfinite(result)) {
            nan_differs = 1;
        } else {
            largest = fmax(largest, fabs(result - expected));
            scale = fmax(scale, fabs(expected));
        }
    }
    free(bytes);
    ff_add(answer, "{\"nan_differs\": %s, \"largest\": %.9g, \"scale\": %.9g}",
           nan_differs ? "true" : "false", largest, scale);
    return FF_OK;
}

/* Runs some launches once with profiling, and lowers `seconds` to their time if that is shorter. */
static int32_t time_once(step_state *state, size_t first, size_t count, ff_cl *events,
                         double *seconds) {
    const ff_opencl *cl = &state->model->player->cl;
    uint64_t began = 0, ended = 0;
    size_t launched = 0;
    int32_t status = 0, finished;
    for (; launched < count; launched++) {
        const ff_plan_launch *one = &state->model->plan.launches[first + launched];
        status = cl->EnqueueNDRangeKernel(state->profiling_queue,
                                          state->model->kernels[first + launched], one->axes, NULL,
                                          one->grid, one->local, 0, NULL, &events[launched]);
        if (status != 0) break;
    }
    finished = cl->Finish(state->profiling_queue);
    if (status == 0) status = finished;
    if (status == 0) {
        status = cl->GetEventProfilingInfo(events[0], CL_STARTED, sizeof began, &began, NULL);
    }
    if (status == 0) {
        status = cl->GetEventProfilingInfo(events[count - 1], CL_ENDED, sizeof ended, &ended, NULL);
    }
    while (launched > 0) cl->ReleaseEvent(events[--launched]);
    if (status == 0) *seconds = fmin(*seconds, 1e-9 * (double)(ended - began));
    return status;
}

/* time FIRST COUNT RUNS */
static ff_status time_launches(step_state *state, const step *step, ff_line *answer,
                               ff_error *error) {
    const ff_player *player = state->model->player;
    uint64_t first = step->numbers[1], count = step->numbers[2], runs = step->numbers[3];
    double seconds = HUGE_VAL;
    int32_t status = 0;
    ff_cl *events;
    if (count == 0 || first >= state->info.launches || count > state->info.launches - first) {
        return ff_fail(error, FF_ARGUMENT, "the launches are out of range");
    }
    if (state->profiling_queue == NULL) {
        state->profiling_queue = player->cl.CreateCommandQueue(
            player->context, player->device->device, CL_PROFILING, &status);
        if (status != 0) state->profiling_queue = NULL;
    }
    events = calloc((size_t)count, sizeof *events);
    if (events == NULL) return ff_no_memory(error);
    while (status == 0 && runs-- > 0) {
        status = time_once(state, (size_t)first, (size_t)count, events, &seconds);
    }
    free(events);
    if (status != 0) return ff_opencl_fail(error, "timing kernels", status);
    ff_add(answer, "{\"seconds\": %.9f}", seconds);
    return FF_OK;
}

/* run RUNS, replay RUNS: times by the host's clock */
static ff_status time_runs(step_state *state, const step *step, ff_line *answer, ff_error *error) {
    int replay = strcmp(step->words[0], "replay") == 0;
    uint64_t runs = step->numbers[1] < MAX_TIMES ? step->numbers[1] : MAX_TIMES;
    ff_status status = FF_OK;
    ff_add(answer, "{\"seconds\": [");
    for (uint64_t i = 0; status == FF_OK && i < runs; i++) {
        double began = ff_seconds();
        status = replay ? ff_replay(state->model, error)
                        : ff_run(state->model, (const void *const *)state->inputs, state->outputs,
                                 error);
        ff_add(answer, i ? ", %.9f" : "%.9f", ff_seconds() - began);
    }
    ff_add(answer, "]}");
    return status;
}

/* profile RUNS */
static ff_status profile(step_state *state, const step *step, ff_line *answer, ff_error *error) {
    ff_launch *launches = calloc(state->info.launches + 1, sizeof *launches);
    ff_status status = launches == NULL ? ff_no_memory(error) : FF_OK;
    if (status == FF_OK) {
        status = ff_profile(state->model, (const void *const *)state->inputs,
                            (size_t)step->numbers[1], launches, NULL, error);
    }
    ff_add(answer, "{\"seconds\": [");
    for (size_t i = 0; status == FF_OK && i < state->info.launches; i++) {
        ff_add(answer, i ? ", %.9f" : "%.9f", launches[i].seconds);
    }
    ff_add(answer, "]}");
    free(launches);
    return status;
}

/* input NUMBER PATH: sets an input of the following runs */
static ff_status set_input(step_state *state, const step *step, ff_line *answer, ff_error *error) {
    const ff_tensor *tensor = ff_input(state->model, (size_t)step->numbers[1]);
    const uint8_t *bytes;
    size_t size;
    char why[200];
    int fits;
    (void)answer;
    if (tensor == NULL) return ff_fail(error, FF_ARGUMENT, "the input does not exist");
    if (!ff_map_file(step->words[2], &bytes, &size, why, sizeof why)) {
        return ff_fail(error, FF_FILE, "'%s' cannot be read: %s", step->words[2], why);
    }
    fits = size == tensor->bytes;
    if (fits) memcpy(state->inputs[step->numbers[1]], bytes, size);
    ff_unmap_file(bytes, size);
    return fits ? FF_OK
                : ff_fail(error, FF_ARGUMENT,
                          "the file size differs from the size of the input '%s'", tensor->name);
}

/* output NUMBER PATH: appends an output of the last run to a file */
static ff_status append_output(step_state *state, const step *step, ff_line *answer,
                               ff_error *error) {
    const ff_tensor *tensor = ff_output(state->model, (size_t)step->numbers[1]);
    (void)answer;
    if (tensor == NULL) return ff_fail(error, FF_ARGUMENT, "the output does not exist");
    return append(step->words[2], state->outputs[step->numbers[1]], tensor->bytes, error);
}

/* forget PATH: removes a file */
static ff_status forget(step_state *state, const step *step, ff_line *answer, ff_error *error) {
    (void)state;
    (void)answer;
    if (remove(step->words[1]) == 0) return FF_OK;
    return ff_fail(error, FF_FILE, "cannot remove '%s'", step->words[1]);
}

/* reset: restores the initial values of variables */
static ff_status reset(step_state *state, const step *step, ff_line *answer, ff_error *error) {
    (void)step;
    (void)answer;
    return ff_reset(state->model, error);
}

/* binary FOLDER: writes the program's binary as a cache entry, best after a run */
static ff_status save_binary(step_state *state, const step *step, ff_line *answer,
                             ff_error *error) {
    char path[LINE_BYTES];
    ff_status status = ff_save_binary(state->model, step->words[1], path, sizeof path, error);
    if (status != FF_OK) return status;
    ff_add(answer, "{");
    ff_add_text(answer, "file", path);
    ff_add(answer, "}");
    return FF_OK;
}

static const struct {
    const char *name;
    step_function *run_step;
    size_t words, numbers; /* words of the line, and leading words that are name or number */
} STEPS[] = {
    {"fill", fill, 4, 3},          {"blank", blank, 4, 4},          {"read", read, 5, 4},
    {"keep", keep, 4, 4},          {"compare", compare, 5, 4},      {"time", time_launches, 4, 4},
    {"run", time_runs, 2, 2},      {"replay", time_runs, 2, 2},     {"profile", profile, 2, 2},
    {"input", set_input, 3, 2},    {"output", append_output, 3, 2}, {"reset", reset, 1, 1},
    {"binary", save_binary, 2, 1}, {"forget", forget, 2, 1},
};

static void split_words(step *result, char *line) {
    memset(result, 0, sizeof *result);
    for (char *word = strtok(line, " \r\n"); word != NULL && result->count < MAX_WORDS;
         word = strtok(NULL, " \r\n")) {
        result->numbers[result->count] = strtoull(word, NULL, 10);
        result->words[result->count++] = word;
    }
}

static ff_status run_step(step_state *state, const step *step, ff_line *answer, ff_error *error) {
    for (size_t i = 0; i < sizeof STEPS / sizeof *STEPS; i++) {
        if (strcmp(step->words[0], STEPS[i].name) != 0) continue;
        if (step->count != STEPS[i].words) break;
        for (size_t j = 1; j < STEPS[i].numbers; j++) {
            if (step->words[j][strspn(step->words[j], "0123456789")] != 0) {
                return ff_fail(error, FF_ARGUMENT, "'%s' is not a number", step->words[j]);
            }
        }
        return STEPS[i].run_step(state, step, answer, error);
    }
    return ff_fail(error, FF_ARGUMENT, "unknown step '%s' with %u words", step->words[0],
                   (unsigned)step->count);
}

static void run_all_steps(step_state *state, FILE *steps) {
    char line[LINE_BYTES];
    while (fgets(line, sizeof line, steps) != NULL) {
        ff_error error = {FF_OK, ""};
        ff_line answer = {0};
        step one;
        split_words(&one, line);
        if (one.count == 0) continue;
        if (run_step(state, &one, &answer, &error) != FF_OK) {
            ff_print_error(NULL, 0, &error, 1);
        } else {
            if (answer.used == 0) ff_add(&answer, "{\"ok\": true}");
            ff_print_line(&answer);
        }
        free(answer.text);
    }
}

static ff_status allocate_arrays(step_state *state, ff_error *error) {
    state->inputs = calloc(state->info.inputs + 1, sizeof *state->inputs);
    state->outputs = calloc(state->info.outputs + 1, sizeof *state->outputs);
    if (state->inputs == NULL || state->outputs == NULL) return ff_no_memory(error);
    for (size_t i = 0; i < state->info.inputs; i++) {
        state->inputs[i] = calloc(ff_input(state->model, i)->bytes + 1, 1);
        if (state->inputs[i] == NULL) return ff_no_memory(error);
    }
    for (size_t i = 0; i < state->info.outputs; i++) {
        state->outputs[i] = calloc(ff_output(state->model, i)->bytes + 1, 1);
        if (state->outputs[i] == NULL) return ff_no_memory(error);
    }
    return FF_OK;
}

ff_status ff_run_steps(ff_player *player, const ff_options *options, FILE *steps, ff_error *error) {
    step_state state = {0};
    ff_status status = FF_OK;
    state.model = ff_load(player, options, error);
    if (state.model == NULL) return error->status;
    state.info = ff_model_info(state.model);
    status = allocate_arrays(&state, error);
    if (status == FF_OK) {
        ff_line line = {0};
        ff_add(&line, "{\"opened\": {\"open\": %.9f, \"build\": %.9f, \"program\": \"%s\"}}",
               state.info.open_seconds, state.info.build_seconds, state.info.program);
        ff_print_line(&line);
        free(line.text);
        run_all_steps(&state, steps);
    }
    for (size_t i = 0; state.inputs != NULL && i < state.info.inputs; i++) free(state.inputs[i]);
    for (size_t i = 0; state.outputs != NULL && i < state.info.outputs; i++) free(state.outputs[i]);
    free(state.inputs);
    free(state.outputs);
    free(state.reference);
    if (state.profiling_queue != NULL) player->cl.ReleaseCommandQueue(state.profiling_queue);
    ff_unload(state.model);
    return status;
}
