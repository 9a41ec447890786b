/* fourfold-run: runs and times models of a prepared file, and lists devices. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../container.h"
#include "../platform.h"
#include "arrays.h"
#include "report.h"
#include "steps.h"

enum { GOOD, FAILED, BAD_USAGE, NO_DEVICE, MAX_INPUTS = 256, MAX_RUNS = 100000, PATH_BYTES = 4096 };

static const char USAGE[] =
    "usage: fourfold-run MODEL.fourfold [options]\n"
    "       fourfold-run --probe [--json]\n\n"
    "Runs every model of a prepared file, or one of them.\n\n"
    "  --model NAME            run only the model with this name\n"
    "  --device N              number of the device, or part of its name\n"
    "  --trust LEVEL           files that may bring code: extension (those named .fourfold),\n"
    "                          data (none), signed:KEY (those signed with a key) or all\n"
    "  --input [NAME=]FILE     file of the next input, or of a named one: .npy or raw bytes\n"
    "  --inputs FOLDER         inputs of all models: FOLDER/MODEL.INPUT.npy, by number\n"
    "  --output FOLDER         write outputs as FOLDER/MODEL.OUTPUT.npy, by number\n"
    "  --runs N                number of runs before outputs are read\n"
    "  --bench, --profile      time whole runs; time each launch with the device's clock\n"
    "  --seconds S             duration of each of these measurements per model\n"
    "  --precision P           use only plans in fp32, mixed or fp16\n"
    "  --signature S, --postprocess P, --pixels P, --shapes S\n"
    "                          use only plans prepared with this option\n"
    "  --cache FOLDER          cache binaries of programs built from source\n"
    "  --save-binaries FOLDER  write the binary of each plan that ran\n"
    "  --steps FILE            run single steps of one model from a file or '-': see the docs\n"
    "  --probe                 list the OpenCL devices and their properties\n"
    "  --json                  print one JSON object per line\n"
    "  --help, --version\n\n"
    "Exit status: 0 success, 1 failure, 2 wrong usage, 3 no OpenCL device.\n";

typedef struct ff_request {
    const char *file, *device, *trust, *inputs, *output, *binaries, *steps;
    const char *input[MAX_INPUTS];
    size_t input_count, runs;
    double seconds;
    int bench, profile, probe, json, help, version;
    ff_options options;
} ff_request;

/* A loaded model with its input and output arrays. */
typedef struct model_run {
    const ff_request *request;
    ff_model *model;
    ff_info info;
    void **inputs, **outputs;
    uint8_t *made_up;
    ff_line line;
} model_run;

static int read_value(ff_request *request, const char *name, const char *value) {
    const struct {
        const char *name;
        const char **target;
    } texts[] = {{"--model", &request->options.model},
                 {"--device", &request->device},
                 {"--trust", &request->trust},
                 {"--inputs", &request->inputs},
                 {"--output", &request->output},
                 {"--precision", &request->options.precision},
                 {"--signature", &request->options.signature},
                 {"--postprocess", &request->options.postprocess},
                 {"--pixels", &request->options.pixels},
                 {"--shapes", &request->options.shapes},
                 {"--cache", &request->options.cache},
                 {"--save-binaries", &request->binaries},
                 {"--steps", &request->steps}};
    char *end = NULL;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (strcmp(name, texts[i].name) == 0) *texts[i].target = value;
        if (strcmp(name, texts[i].name) == 0) return 1;
    }
    if (strcmp(name, "--input") == 0 && request->input_count < MAX_INPUTS) {
        request->input[request->input_count++] = value;
        return 1;
    }
    if (strcmp(name, "--runs") == 0) request->runs = (size_t)strtoul(value, &end, 10);
    if (strcmp(name, "--seconds") == 0) request->seconds = strtod(value, &end);
    return end != NULL && *end == 0 && request->runs > 0 && request->runs < 1u << 30 &&
           request->seconds >= 0;
}

static int read_arguments(ff_request *request, int count, char **arguments) {
    const struct {
        const char *name;
        int *target;
    } flags[] = {{"--bench", &request->bench},    {"--profile", &request->profile},
                 {"--probe", &request->probe},    {"--json", &request->json},
                 {"--help", &request->help},      {"-h", &request->help},
                 {"--version", &request->version}};
    for (int i = 1; i < count; i++) {
        const char *name = arguments[i];
        size_t flag = 0, flag_count = sizeof flags / sizeof *flags;
        while (flag < flag_count && strcmp(name, flags[flag].name) != 0) flag++;
        if (flag < flag_count) {
            *flags[flag].target = 1;
        } else if (name[0] != '-' && request->file == NULL) {
            request->file = name;
        } else if (i + 1 == count || name[0] != '-' || !read_value(request, name, arguments[++i])) {
            fprintf(stderr, "fourfold-run: invalid argument '%s'; see --help\n", name);
            return 0;
        }
    }
    if (request->file != NULL || request->probe || request->help || request->version) return 1;
    fprintf(stderr, "%s", USAGE);
    return 0;
}

static int probe(const ff_request *request) {
    ff_device *devices;
    size_t count;
    ff_error error;
    if (ff_devices(&devices, &count, &error) != FF_OK) {
        ff_print_error(NULL, 0, &error, request->json);
        return NO_DEVICE;
    }
    for (size_t i = 0; i < count; i++) {
        const ff_device *device = &devices[i];
        ff_line line = {0};
        if (request->json) ff_add_device(&line, device);
        else
            ff_add(&line, "%u: %s (%s, driver %s), %s of %u units, %llu MiB", device->number,
                   device->name, device->platform, device->driver, device->kind,
                   device->compute_units, (unsigned long long)(device->memory >> 20));
        ff_print_line(&line);
    }
    ff_free_devices(devices, count);
    return GOOD;
}

/* Returns the file of an input: by name, by position among unnamed ones, or in the folder. */
static const char *find_input(const model_run *run, size_t number, char buffer[PATH_BYTES]) {
    const ff_request *request = run->request;
    const char *name = ff_input(run->model, number)->name;
    size_t size = strlen(name), position = 0;
    for (size_t i = 0; i < request->input_count; i++) {
        const char *argument = request->input[i];
        int is_named = 0;
        for (size_t j = 0; j < run->info.inputs; j++) {
            const char *other = ff_input(run->model, j)->name;
            is_named = is_named || (strncmp(argument, other, strlen(other)) == 0 &&
                                    argument[strlen(other)] == '=');
        }
        if (is_named && strncmp(argument, name, size) == 0 && argument[size] == '=')
            return argument + size + 1;
        if (!is_named && position++ == number) return argument;
    }
    if (request->inputs == NULL) return NULL;
    snprintf(buffer, PATH_BYTES, "%s/%llu.%llu.npy", request->inputs,
             (unsigned long long)run->info.number, (unsigned long long)number);
    return ff_file_exists(buffer) ? buffer : NULL;
}

static ff_status allocate_arrays(model_run *run, ff_error *error) {
    char buffer[PATH_BYTES];
    run->inputs = calloc(run->info.inputs + 1, sizeof *run->inputs);
    run->outputs = calloc(run->info.outputs + 1, sizeof *run->outputs);
    run->made_up = calloc(run->info.inputs + 1, 1);
    if (!run->inputs || !run->outputs || !run->made_up) return ff_no_memory(error);
    for (size_t i = 0; i < run->info.inputs; i++) {
        const ff_tensor *tensor = ff_input(run->model, i);
        const char *path = find_input(run, i, buffer);
        run->made_up[i] = path == NULL;
        run->inputs[i] =
            path == NULL ? ff_random_array(tensor, error) : ff_read_array(path, tensor, error);
        if (run->inputs[i] == NULL) return error->status;
    }
    for (size_t i = 0; i < run->info.outputs; i++) {
        run->outputs[i] = calloc(ff_output(run->model, i)->bytes + 1, 1);
        if (run->outputs[i] == NULL) return ff_no_memory(error);
    }
    return FF_OK;
}

static ff_status play(model_run *run, ff_error *error) {
    return ff_run(run->model, (const void *const *)run->inputs, run->outputs, error);
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Times at least three runs or replays, for half of the seconds requested. */
static ff_status measure(model_run *run, int replay, ff_error *error) {
    double *times = malloc(MAX_RUNS * sizeof *times), start_time = ff_seconds(), sum = 0;
    const char *word = replay ? "replay_" : "";
    ff_status status = times == NULL ? ff_no_memory(error) : FF_OK;
    size_t count = 0;
    while (status == FF_OK && count < MAX_RUNS &&
           (count < 3 || ff_seconds() - start_time < run->request->seconds / 2)) {
        double start = ff_seconds();
        status = replay ? ff_replay(run->model, error) : play(run, error);
        times[count] = ff_seconds() - start;
        sum += times[count++];
    }
    if (status == FF_OK) {
        qsort(times, count, sizeof *times, compare);
        ff_add(&run->line, "\"%sruns\": %llu, \"%sbest\": %.9f, \"%smedian\": %.9f", word,
               (unsigned long long)count, word, times[0], word, times[count / 2]);
        if (!replay) ff_add(&run->line, ", \"mean\": %.9f, ", sum / (double)count);
        if (!run->request->json) {
            printf("  %s: best %.3f ms, median %.3f ms of %llu\n", replay ? "replay" : "run",
                   1e3 * times[0], 1e3 * times[count / 2], (unsigned long long)count);
        }
    }
    free(times);
    return status;
}

static ff_status bench(model_run *run, ff_error *error) {
    ff_status status;
    ff_add(&run->line, ", \"bench\": {");
    status = measure(run, 0, error);
    if (status == FF_OK) status = measure(run, 1, error);
    ff_add(&run->line, "}");
    return status;
}

static ff_status profile(model_run *run, ff_error *error) {
    ff_launch *launches = calloc(run->info.launches + 1, sizeof *launches);
    const void *const *inputs = (const void *const *)run->inputs;
    double span = 0, start_time = ff_seconds(), run_seconds;
    size_t runs = 3;
    ff_status status = launches == NULL ? ff_no_memory(error) : FF_OK;
    if (status == FF_OK) status = ff_profile(run->model, inputs, runs, launches, &span, error);
    run_seconds = (ff_seconds() - start_time) / (double)runs;
    if (status == FF_OK && run_seconds * (double)runs < run->request->seconds) {
        runs = (size_t)(run->request->seconds / run_seconds) + 1;
        runs = runs < 1000 ? runs : 1000;
        status = ff_profile(run->model, inputs, runs, launches, &span, error);
    }
    if (status == FF_OK) {
        ff_add(&run->line, ", \"profile\": {\"runs\": %llu, \"span\": %.9f, \"launches\": [",
               (unsigned long long)runs, span);
        for (size_t i = 0; i < run->info.launches; i++) {
            ff_add(&run->line, i ? ", {" : "{");
            ff_add_text(&run->line, "entry", launches[i].entry);
            ff_add(&run->line, ", ");
            ff_add_text(&run->line, "title", launches[i].title);
            ff_add(&run->line, ", ");
            ff_add_text(&run->line, "node", launches[i].node);
            ff_add(&run->line, ", \"seconds\": %.9f}", launches[i].seconds);
            if (run->request->json) continue;
            printf("  %9.3f us  %s  %.60s\n", 1e6 * launches[i].seconds, launches[i].title,
                   launches[i].node);
        }
        ff_add(&run->line, "]}");
    }
    free(launches);
    return status;
}

static ff_status save_binary(model_run *run, ff_error *error) {
    char path[PATH_BYTES];
    const uint8_t *bytes;
    size_t size = 0;
    ff_status status = ff_save_binary(run->model, run->request->binaries, path, sizeof path, error);
    if (status != FF_OK) return status;
    if (ff_map_file(path, &bytes, &size, NULL, 0)) ff_unmap_file(bytes, size);
    ff_add(&run->line, ", \"binary\": {");
    ff_add_text(&run->line, "file", path);
    ff_add(&run->line, ", \"bytes\": %llu}", (unsigned long long)size);
    return FF_OK;
}

static void describe(model_run *run, uint32_t device) {
    const ff_info *info = &run->info;
    ff_add(&run->line, "{");
    ff_add_text(&run->line, "model", info->name);
    ff_add(&run->line, ", \"number\": %llu, \"device\": %u, ", (unsigned long long)info->number,
           device);
    ff_add_text(&run->line, "made_for", info->made_for);
    ff_add(&run->line, ", \"plan\": %llu, ", (unsigned long long)info->plan);
    ff_add_text(&run->line, "precision", info->precision);
    ff_add(&run->line, ", \"program\": \"%s\", \"launches\": %llu, \"stages\": %llu", info->program,
           (unsigned long long)info->launches, (unsigned long long)info->stages);
    ff_add(&run->line, ", \"device_bytes\": %llu, \"inputs\": [",
           (unsigned long long)info->device_bytes);
    for (size_t i = 0; i < info->inputs; i++) {
        if (i) ff_add(&run->line, ", ");
        ff_add_tensor(&run->line, ff_input(run->model, i));
        ff_add(&run->line, ", ");
        ff_add_text(&run->line, "pixels", ff_input(run->model, i)->pixels);
        ff_add(&run->line, ", \"made_up\": %s}", run->made_up[i] ? "true" : "false");
    }
    ff_add(&run->line, "], \"outputs\": [");
}

/* Writes the outputs to files, and adds them to the report. */
static ff_status write_outputs(model_run *run, ff_error *error) {
    ff_status status = FF_OK;
    if (run->request->output != NULL) ff_create_folder(run->request->output);
    for (size_t i = 0; status == FF_OK && i < run->info.outputs; i++) {
        const ff_tensor *tensor = ff_output(run->model, i);
        char path[PATH_BYTES] = "";
        if (run->request->output != NULL) {
            snprintf(path, sizeof path, "%s/%llu.%llu.npy", run->request->output,
                     (unsigned long long)run->info.number, (unsigned long long)i);
            status = ff_write_array(path, tensor, run->outputs[i], error);
        }
        if (i) ff_add(&run->line, ", ");
        ff_add_tensor(&run->line, tensor);
        ff_add(&run->line, ", ");
        ff_add_text(&run->line, "file", path);
        ff_add(&run->line, "}");
        if (!run->request->json) {
            printf("  %s: %s %s\n", tensor->name, tensor->text, path);
        }
    }
    return status;
}

static ff_status play_model(model_run *run, uint32_t device, ff_error *error) {
    double start_time, first;
    ff_status status = allocate_arrays(run, error);
    if (status != FF_OK) return status;
    describe(run, device);
    start_time = ff_seconds();
    status = play(run, error);
    first = ff_seconds() - start_time;
    for (size_t i = 1; status == FF_OK && i < run->request->runs; i++) status = play(run, error);
    if (!run->request->json && status == FF_OK) {
        printf("%s: plan for %s in %s, opened in %.1f ms (program from %s), first run %.2f ms\n",
               run->info.name, run->info.made_for, run->info.precision,
               1e3 * run->info.open_seconds, run->info.program, 1e3 * first);
    }
    if (status == FF_OK) status = write_outputs(run, error);
    ff_add(&run->line, "], \"seconds\": {\"open\": %.9f, \"build\": %.9f, \"first_run\": %.9f}",
           run->info.open_seconds, run->info.build_seconds, first);
    if (status == FF_OK && run->request->bench) status = bench(run, error);
    if (status == FF_OK && run->request->profile) status = profile(run, error);
    if (status == FF_OK && run->request->binaries != NULL) status = save_binary(run, error);
    ff_add(&run->line, "}");
    return status;
}

static int run_model(const ff_request *request, ff_player *player, size_t number) {
    ff_options options = request->options;
    model_run run = {0};
    ff_error error = {FF_OK, ""};
    ff_status status;
    run.request = request;
    options.model = ff_model_name(player, number);
    run.model = ff_load(player, &options, &error);
    status = run.model == NULL ? error.status : FF_OK;
    if (status == FF_OK) {
        run.info = ff_model_info(run.model);
        status = play_model(&run, ff_player_device(player)->number, &error);
    }
    if (status != FF_OK) ff_print_error(options.model, number, &error, request->json);
    else if (request->json) ff_print_line(&run.line);
    for (size_t i = 0; run.inputs != NULL && i < run.info.inputs; i++) free(run.inputs[i]);
    for (size_t i = 0; run.outputs != NULL && i < run.info.outputs; i++) free(run.outputs[i]);
    free(run.inputs);
    free(run.outputs);
    free(run.made_up);
    free(run.line.text);
    ff_unload(run.model);
    return status == FF_OK ? GOOD : FAILED;
}

static int run_steps(const ff_request *request, ff_player *player) {
    ff_error error = {FF_OK, ""};
    FILE *steps = strcmp(request->steps, "-") == 0 ? stdin : fopen(request->steps, "r");
    ff_status status = FF_OK;
    if (steps == NULL) status = ff_fail(&error, FF_FILE, "cannot read '%s'", request->steps);
    if (status == FF_OK) status = ff_run_steps(player, &request->options, steps, &error);
    if (status != FF_OK) ff_print_error(NULL, 0, &error, 1);
    if (steps != NULL && steps != stdin) fclose(steps);
    return status == FF_OK ? GOOD : FAILED;
}

static int run_file(const ff_request *request) {
    ff_error error = {FF_OK, ""};
    ff_player *player = ff_open(request->file, request->device, request->trust, &error);
    const char *requested = request->options.model;
    int result = GOOD, has_played = 0;
    if (player == NULL) {
        ff_print_error(NULL, 0, &error, request->json);
        return error.status == FF_OPENCL ? NO_DEVICE : FAILED;
    }
    if (request->steps != NULL) {
        result = run_steps(request, player);
        ff_close(player);
        return result;
    }
    for (size_t i = 0; i < ff_model_count(player); i++) {
        if (requested != NULL && strcmp(requested, ff_model_name(player, i)) != 0) continue;
        has_played = 1;
        if (run_model(request, player, i) != GOOD) result = FAILED;
    }
    if (!has_played) {
        ff_fail(&error, FF_ARGUMENT, "the file has no model '%s'",
                requested == NULL ? "" : requested);
        ff_print_error(NULL, 0, &error, request->json);
        result = FAILED;
    }
    ff_close(player);
    return result;
}

int main(int count, char **arguments) {
    ff_request request = {0};
    request.runs = 1;
    request.seconds = 1;
    if (!read_arguments(&request, count, arguments)) return BAD_USAGE;
    if (request.help) printf("%s", USAGE);
    else if (request.version) printf("fourfold-run: reads files of format %u\n", ff_format());
    else return request.probe ? probe(&request) : run_file(&request);
    return GOOD;
}
