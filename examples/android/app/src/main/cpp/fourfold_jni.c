/* JNI functions of FourfoldModel.kt. Their names contain the package of that class: rename them if
 * you move it. */
#include <jni.h>
#include <stdio.h>
#include <stdlib.h>

#include "fourfold.h"

typedef struct opened {
    ff_player *player;
    ff_model *model;
    jobject bytes; /* the file in memory, which must live as long as the player */
} opened;

static opened *from(jlong handle) {
    return (opened *)(intptr_t)handle;
}

static void throw_error(JNIEnv *env, const char *text) {
    jclass kind = (*env)->FindClass(env, "java/lang/IllegalStateException");
    if (kind != NULL) (*env)->ThrowNew(env, kind, text);
}

static void close_all(JNIEnv *env, opened *found) {
    ff_unload(found->model);
    ff_close(found->player);
    if (found->bytes != NULL) (*env)->DeleteGlobalRef(env, found->bytes);
    free(found);
}

static const char *text_of(JNIEnv *env, jstring text) {
    return text == NULL ? NULL : (*env)->GetStringUTFChars(env, text, NULL);
}

static void give_back(JNIEnv *env, jstring text, const char *chars) {
    if (chars != NULL) (*env)->ReleaseStringUTFChars(env, text, chars);
}

JNIEXPORT jlong JNICALL Java_dev_fourfold_FourfoldModel_nativeOpen(
    JNIEnv *env, jobject self, jobject bytes, jstring name, jstring cache) {
    ff_error error = {FF_ARGUMENT, "the file must be a direct buffer: map it"};
    void *content = (*env)->GetDirectBufferAddress(env, bytes);
    jlong size = (*env)->GetDirectBufferCapacity(env, bytes);
    opened *found = calloc(1, sizeof *found);
    ff_options options = {0};
    (void)self;
    if (found == NULL) {
        throw_error(env, "out of memory");
        return 0;
    }
    options.model = text_of(env, name);
    options.cache = text_of(env, cache);
    found->bytes = (*env)->NewGlobalRef(env, bytes);
    if (content != NULL && size > 0) {
        found->player = ff_open_memory(content, (size_t)size, NULL, "all", &error);
    }
    if (found->player != NULL) found->model = ff_load(found->player, &options, &error);
    give_back(env, name, options.model);
    give_back(env, cache, options.cache);
    if (found->model != NULL) return (jlong)(intptr_t)found;
    close_all(env, found);
    throw_error(env, error.text);
    return 0;
}

JNIEXPORT void JNICALL Java_dev_fourfold_FourfoldModel_nativeClose(JNIEnv *env, jobject self,
                                                                   jlong handle) {
    (void)self;
    if (handle != 0) close_all(env, from(handle));
}

JNIEXPORT jstring JNICALL Java_dev_fourfold_FourfoldModel_nativeDevice(JNIEnv *env, jobject self,
                                                                       jlong handle) {
    (void)self;
    return (*env)->NewStringUTF(env, ff_player_device(from(handle)->player)->name);
}

/* Return an input or output as "name", "f32[1,224,224,3]" and its bytes; null after the last. */
JNIEXPORT jobjectArray JNICALL Java_dev_fourfold_FourfoldModel_nativeTensor(
    JNIEnv *env, jobject self, jlong handle, jboolean output, jint number) {
    const ff_model *model = from(handle)->model;
    const ff_tensor *tensor =
        output ? ff_output(model, (size_t)number) : ff_input(model, (size_t)number);
    jobjectArray found;
    char bytes[32];
    (void)self;
    if (tensor == NULL) return NULL;
    snprintf(bytes, sizeof bytes, "%llu", (unsigned long long)tensor->bytes);
    found = (*env)->NewObjectArray(env, 3, (*env)->FindClass(env, "java/lang/String"), NULL);
    if (found == NULL) return NULL;
    (*env)->SetObjectArrayElement(env, found, 0, (*env)->NewStringUTF(env, tensor->name));
    (*env)->SetObjectArrayElement(env, found, 1, (*env)->NewStringUTF(env, tensor->text));
    (*env)->SetObjectArrayElement(env, found, 2, (*env)->NewStringUTF(env, bytes));
    return found;
}

/* Return the addresses of direct buffers, or NULL after throwing if one is too small. */
static void **addresses(JNIEnv *env, jobjectArray buffers, const ff_model *model, int output) {
    jsize count = (*env)->GetArrayLength(env, buffers);
    void **found = calloc((size_t)count + 1, sizeof *found);
    for (jsize i = 0; found != NULL && i < count; i++) {
        jobject buffer = (*env)->GetObjectArrayElement(env, buffers, i);
        const ff_tensor *tensor =
            output ? ff_output(model, (size_t)i) : ff_input(model, (size_t)i);
        jlong size = buffer == NULL ? -1 : (*env)->GetDirectBufferCapacity(env, buffer);
        if (tensor == NULL || size < (jlong)tensor->bytes) {
            throw_error(env, "a buffer is missing, is not direct, or is too small");
            free(found);
            return NULL;
        }
        found[i] = (*env)->GetDirectBufferAddress(env, buffer);
        (*env)->DeleteLocalRef(env, buffer);
    }
    if (found == NULL) throw_error(env, "out of memory");
    return found;
}

JNIEXPORT void JNICALL Java_dev_fourfold_FourfoldModel_nativeRun(
    JNIEnv *env, jobject self, jlong handle, jobjectArray inputs, jobjectArray outputs) {
    ff_model *model = from(handle)->model;
    ff_info info = ff_model_info(model);
    ff_error error;
    void **in = NULL, **out = NULL;
    (void)self;
    if ((size_t)(*env)->GetArrayLength(env, inputs) != info.inputs ||
        (size_t)(*env)->GetArrayLength(env, outputs) != info.outputs) {
        throw_error(env, "the number of inputs or outputs does not match the model");
        return;
    }
    in = addresses(env, inputs, model, 0);
    if (in != NULL) out = addresses(env, outputs, model, 1);
    if (out != NULL && ff_run(model, (const void *const *)in, out, &error) != FF_OK) {
        throw_error(env, error.text);
    }
    free(in);
    free(out);
}
