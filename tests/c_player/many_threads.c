/* Opens, loads, runs and closes models in several threads: one of their own and a shared one. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fourfold.h"

enum { THREADS = 8, RUNS = 40, COUNT = 16 };

static ff_player *player;
static ff_model *shared;
static const char *path;

/* Checks y = 2 x + 1 for numbers of this thread. */
static int is_right(ff_model *model, int seed) {
    float x[COUNT], y[COUNT] = {0};
    const void *inputs[1] = {x};
    void *outputs[1] = {y};
    ff_error error;
    for (int i = 0; i < COUNT; i++) x[i] = (float)(100 * seed + i);
    if (ff_run(model, inputs, outputs, &error) != FF_OK) return 0;
    for (int i = 0; i < COUNT; i++) {
        if (y[i] != 2 * x[i] + 1) return 0;
    }
    return 1;
}

static void *work(void *argument) {
    int number = *(int *)argument, good = 1;
    ff_error error;
    ff_options options = {0};
    options.model = number % 2 ? "one" : "two";
    for (int i = 0; good && i < RUNS; i++) {
        ff_model *own = ff_load(player, &options, &error);
        good = own != NULL && is_right(own, number) && is_right(shared, number);
        ff_unload(own);
        if (i % 10 == 0) {
            ff_player *other = ff_open(path, NULL, NULL, &error);
            good = good && other != NULL && ff_model_count(other) == 2;
            ff_close(other);
        }
    }
    *(int *)argument = good;
    return NULL;
}

int main(int count, char **arguments) {
    pthread_t threads[THREADS];
    int results[THREADS], good = 1;
    ff_error error;
    ff_options options = {0};
    options.model = "two";
    if (count < 2) return 2;
    path = arguments[1];
    player = ff_open(path, NULL, NULL, &error);
    shared = player ? ff_load(player, &options, &error) : NULL;
    if (shared == NULL) return 1;
    for (int i = 0; i < THREADS; i++) {
        results[i] = i + 1;
        pthread_create(&threads[i], NULL, work, &results[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        good = good && results[i] == 1;
    }
    ff_close(player); /* the model stays usable */
    good = good && is_right(shared, 9);
    ff_unload(shared);
    puts(good ? "all threads got the right results" : "a thread got a wrong result");
    return !good;
}
