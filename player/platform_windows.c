/* Files, libraries, locks and time on Windows. */
#ifdef _WIN32
#include "platform.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

struct ff_lock {
    CRITICAL_SECTION section;
};

/* Converts a UTF-8 path; the caller frees the result. */
static wchar_t *to_wide(const char *path) {
    int size = MultiByteToWideChar(CP_UTF8, 0, path, -1, NULL, 0);
    wchar_t *converted = size > 0 ? malloc((size_t)size * sizeof *converted) : NULL;
    if (converted != NULL) MultiByteToWideChar(CP_UTF8, 0, path, -1, converted, size);
    return converted;
}

int ff_map_file(const char *path, const uint8_t **bytes, size_t *size, char *why, size_t capacity) {
    wchar_t *name = to_wide(path);
    LARGE_INTEGER length = {0};
    HANDLE file, mapping = NULL;
    const void *view = NULL;
    file = name == NULL ? INVALID_HANDLE_VALUE
                        : CreateFileW(name, GENERIC_READ, FILE_SHARE_READ, NULL, OPEN_EXISTING,
                                      FILE_ATTRIBUTE_NORMAL, NULL);
    free(name);
    if (file != INVALID_HANDLE_VALUE && GetFileSizeEx(file, &length) && length.QuadPart > 0) {
        mapping = CreateFileMappingW(file, NULL, PAGE_READONLY, 0, 0, NULL);
        if (mapping != NULL) view = MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, 0);
    }
    if (view == NULL) snprintf(why, capacity, "Windows error %lu", GetLastError());
    if (mapping != NULL) CloseHandle(mapping);
    if (file != INVALID_HANDLE_VALUE) CloseHandle(file);
    if (view == NULL) return 0;
    *bytes = view;
    *size = (size_t)length.QuadPart;
    return 1;
}

void ff_unmap_file(const uint8_t *bytes, size_t size) {
    (void)size;
    UnmapViewOfFile(bytes);
}

static int write_all(HANDLE file, const uint8_t *bytes, size_t size) {
    while (size > 0) {
        DWORD part = size > 1u << 30 ? 1u << 30 : (DWORD)size, written = 0;
        if (!WriteFile(file, bytes, part, &written, NULL) || written == 0) return 0;
        bytes += written;
        size -= written;
    }
    return 1;
}

int ff_write_file(const char *path, const void *const *pieces, const size_t *sizes, size_t count) {
    size_t capacity = strlen(path) + 32;
    char *temporary = malloc(capacity);
    wchar_t *target = to_wide(path), *source = NULL;
    HANDLE file = INVALID_HANDLE_VALUE;
    int ok;
    if (temporary != NULL) {
        snprintf(temporary, capacity, "%s.%lx%lx", path, GetCurrentProcessId(),
                 GetCurrentThreadId());
        source = to_wide(temporary);
    }
    if (source != NULL && target != NULL) {
        file = CreateFileW(source, GENERIC_WRITE, 0, NULL, CREATE_NEW, FILE_ATTRIBUTE_NORMAL, NULL);
    }
    ok = file != INVALID_HANDLE_VALUE;
    for (size_t i = 0; ok && i < count; i++) ok = write_all(file, pieces[i], sizes[i]);
    if (file != INVALID_HANDLE_VALUE) {
        ok = CloseHandle(file) && ok;
        ok = ok && MoveFileExW(source, target, MOVEFILE_REPLACE_EXISTING);
        if (!ok) DeleteFileW(source);
    }
    free(temporary);
    free(source);
    free(target);
    return ok;
}

void ff_create_folder(const char *path) {
    wchar_t *name = to_wide(path);
    if (name != NULL) CreateDirectoryW(name, NULL);
    free(name);
}

int ff_is_private(const char *path) {
    return ff_file_exists(path);
}

int ff_file_exists(const char *path) {
    wchar_t *name = to_wide(path);
    int symbol = name != NULL && GetFileAttributesW(name) != INVALID_FILE_ATTRIBUTES;
    free(name);
    return symbol;
}

void ff_remove_file(const char *path) {
    wchar_t *name = to_wide(path);
    if (name != NULL) DeleteFileW(name);
    free(name);
}

void *ff_load_library(const char *path) {
    wchar_t *name = to_wide(path);
    void *library = name == NULL ? NULL : (void *)LoadLibraryW(name);
    free(name);
    return library;
}

void ff_free_library(void *library) {
    FreeLibrary(library);
}

int ff_find_function(void *library, const char *name, void *function) {
    FARPROC symbol = GetProcAddress(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

ff_lock *ff_lock_create(void) {
    ff_lock *lock = malloc(sizeof *lock);
    if (lock != NULL) InitializeCriticalSection(&lock->section);
    return lock;
}

void ff_lock_acquire(ff_lock *lock) {
    EnterCriticalSection(&lock->section);
}

void ff_lock_release(ff_lock *lock) {
    LeaveCriticalSection(&lock->section);
}

void ff_lock_free(ff_lock *lock) {
    if (lock == NULL) return;
    DeleteCriticalSection(&lock->section);
    free(lock);
}

double ff_seconds(void) {
    LARGE_INTEGER now, rate;
    QueryPerformanceCounter(&now);
    QueryPerformanceFrequency(&rate);
    return (double)now.QuadPart / (double)rate.QuadPart;
}
#else
typedef int ff_unused; /* C99 requires a declaration in every file */
#endif
