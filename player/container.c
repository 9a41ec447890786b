/* Reads and writes the container format of docs/internals/file-format.md. */
#include "container.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inflate.h"
#include "platform.h"

enum {
    VERSION = 6,
    HEADER_BYTES = 64,
    ENTRY_BYTES = 48,
    NAME_BYTES = 16,
    EXPANDED_AT = 40, /* in an entry: the size before compression, or 0 */
    ALIGNMENT = 64,
    PAGE_BYTES = 4096,
    LARGE_SECTION_BYTES = 1 << 16,
    MAX_SECTIONS = 1 << 20,
    MAX_COMPRESSION = 1032, /* deflate cannot shrink more */
    CRC_BYTES = 16
};

uint32_t ff_format(void) {
    return VERSION;
}

ff_status ff_fail(ff_error *error, ff_status status, const char *format, ...) {
    if (error != NULL) {
        va_list arguments;
        va_start(arguments, format);
        error->status = status;
        vsnprintf(error->text, sizeof error->text, format, arguments);
        va_end(arguments);
    }
    return status;
}

ff_status ff_no_memory(ff_error *error) {
    return ff_fail(error, FF_MEMORY, "the host is out of memory");
}

static ff_status fail_damaged(ff_error *error, const char *why) {
    return ff_fail(error, FF_FILE,
                   "the file is damaged: %s; copy it again or prepare the model again", why);
}

static uint32_t read_u32(const uint8_t *at) {
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static uint64_t read_u64(const uint8_t *at) {
    return read_u32(at) | (uint64_t)read_u32(at + 4) << 32;
}

static void write_u32(uint8_t *at, uint32_t value) {
    for (int i = 0; i < 4; i++) at[i] = (uint8_t)(value >> 8 * i);
}

static void write_u64(uint8_t *at, uint64_t value) {
    for (int i = 0; i < 8; i++) at[i] = (uint8_t)(value >> 8 * i);
}

/* Row n holds the CRC-32 of each byte value followed by n zero bytes. */
static void fill_crc_tables(uint32_t (*rows)[256]) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t value = byte;
        for (int bit = 0; bit < 8; bit++) value = value >> 1 ^ (value & 1 ? 0xEDB88320u : 0);
        rows[0][byte] = value;
    }
    for (int row = 1; row < CRC_BYTES; row++) {
        for (int byte = 0; byte < 256; byte++) {
            uint32_t before = rows[row - 1][byte];
            rows[row][byte] = before >> 8 ^ rows[0][before & 255];
        }
    }
}

static uint32_t crc32_of(uint32_t (*rows)[256], const uint8_t *bytes, size_t size) {
    uint32_t crc = 0xFFFFFFFFu;
    for (; size >= CRC_BYTES; size -= CRC_BYTES, bytes += CRC_BYTES) {
        uint32_t sum = 0;
        uint32_t a = read_u32(bytes) ^ crc, b = read_u32(bytes + 4), c = read_u32(bytes + 8),
                 d = read_u32(bytes + 12);
        sum ^= rows[15][a & 255] ^ rows[14][a >> 8 & 255] ^ rows[13][a >> 16 & 255] ^
               rows[12][a >> 24];
        sum ^=
            rows[11][b & 255] ^ rows[10][b >> 8 & 255] ^ rows[9][b >> 16 & 255] ^ rows[8][b >> 24];
        sum ^= rows[7][c & 255] ^ rows[6][c >> 8 & 255] ^ rows[5][c >> 16 & 255] ^ rows[4][c >> 24];
        sum ^= rows[3][d & 255] ^ rows[2][d >> 8 & 255] ^ rows[1][d >> 16 & 255] ^ rows[0][d >> 24];
        crc = sum;
    }
    for (; size > 0; size--) crc = crc >> 8 ^ rows[0][(crc ^ *bytes++) & 255];
    return ~crc;
}

/* Checks that every section lies inside the file and has an ASCII name, and that sections, which
   may overlap, do not expand to more than a file of this size can hold. */
static ff_status check_entries(const ff_container *file, ff_error *error) {
    uint64_t left = (uint64_t)file->size * MAX_COMPRESSION;
    for (uint32_t number = 0; number < file->count; number++) {
        const uint8_t *entry = file->table + (size_t)number * ENTRY_BYTES;
        uint64_t offset = read_u64(entry + NAME_BYTES), size = read_u64(entry + NAME_BYTES + 8);
        uint64_t expanded = read_u64(entry + EXPANDED_AT);
        if (offset % ALIGNMENT || offset < HEADER_BYTES || offset > file->size ||
            size > file->size - offset) {
            return fail_damaged(error, "a section lies outside the file");
        }
        if (expanded > size * MAX_COMPRESSION || expanded > left) {
            return fail_damaged(error, "a section has an impossible size before compression");
        }
        left -= expanded;
        for (int i = 0; i < NAME_BYTES; i++) {
            if (entry[i] > 127) return fail_damaged(error, "the name of a section is not ASCII");
        }
    }
    return FF_OK;
}

static ff_status check_header(ff_container *file, ff_error *error) {
    const uint8_t *head = file->bytes;
    uint64_t start, size = file->size;
    if (file->size < HEADER_BYTES || memcmp(head, "FOURFOLD", 8) != 0) {
        return ff_fail(error, FF_FILE, "the file was not written by 'fourfold prepare'");
    }
    if (crc32_of(file->crc_tables, head, HEADER_BYTES - 4) != read_u32(head + 60)) {
        return fail_damaged(error, "the checksum of its header is wrong");
    }
    if (read_u32(head + 8) != VERSION) {
        return ff_fail(error, FF_FILE,
                       "the file has format %u, but this player reads format %u; prepare it again",
                       read_u32(head + 8), (unsigned)VERSION);
    }
    if (read_u32(head + 12) != HEADER_BYTES || read_u64(head + 16) != file->size) {
        return fail_damaged(error, "its size differs from the size in its header");
    }
    start = read_u64(head + 24);
    file->count = read_u32(head + 32);
    if (file->count > MAX_SECTIONS || start < HEADER_BYTES || start > size ||
        (uint64_t)file->count * ENTRY_BYTES > size - start) {
        return fail_damaged(error, "its table of sections lies outside the file");
    }
    file->table = head + start;
    if (crc32_of(file->crc_tables, file->table, (size_t)file->count * ENTRY_BYTES) !=
        read_u32(head + 36)) {
        return fail_damaged(error, "the checksum of its table is wrong");
    }
    return check_entries(file, error);
}

ff_status ff_container_open_memory(ff_container *file, const void *bytes, size_t size,
                                   ff_error *error) {
    ff_status status;
    int mapped = file->mapped;
    void *owned = file->owned;
    memset(file, 0, sizeof *file);
    file->bytes = bytes;
    file->size = size;
    file->mapped = mapped;
    file->owned = owned;
    file->crc_tables = malloc(CRC_BYTES * sizeof *file->crc_tables);
    if (file->crc_tables == NULL) {
        ff_container_close(file);
        return ff_no_memory(error);
    }
    fill_crc_tables(file->crc_tables);
    status = check_header(file, error);
    if (status == FF_OK) {
        file->checked = calloc(file->count ? file->count : 1, 1);
        file->expanded = calloc(file->count ? file->count : 1, sizeof *file->expanded);
        if (file->checked == NULL || file->expanded == NULL) status = ff_no_memory(error);
    }
    if (status != FF_OK) ff_container_close(file);
    return status;
}

ff_status ff_container_open(ff_container *file, const char *path, ff_error *error) {
    char why[256] = "";
    const uint8_t *bytes;
    size_t size;
    memset(file, 0, sizeof *file);
    if (!ff_map_file(path, &bytes, &size, why, sizeof why)) {
        return ff_fail(error, FF_FILE, "cannot read '%s': %s", path, why);
    }
    file->mapped = 1;
    return ff_container_open_memory(file, bytes, size, error);
}

ff_status ff_container_copy(ff_container *file, ff_error *error) {
    ff_container copy = {0};
    copy.owned = malloc(file->size);
    if (copy.owned == NULL) {
        ff_container_close(file);
        return ff_no_memory(error);
    }
    memcpy(copy.owned, file->bytes, file->size);
    copy.size = file->size;
    ff_container_close(file);
    *file = copy;
    return ff_container_open_memory(file, file->owned, file->size, error);
}

uint32_t ff_container_signature_bytes(const ff_container *file) {
    uint32_t bytes = read_u32(file->bytes + 40);
    return bytes <= file->size - HEADER_BYTES ? bytes : UINT32_MAX;
}

void ff_container_close(ff_container *file) {
    if (file->mapped) ff_unmap_file(file->bytes, file->size);
    free(file->owned);
    for (uint32_t i = 0; file->expanded != NULL && i < file->count; i++) free(file->expanded[i]);
    free(file->expanded);
    free(file->crc_tables);
    free(file->checked);
    memset(file, 0, sizeof *file);
}

/* Replaces the bytes of a compressed section by its content, which is kept. */
static ff_status expand_section(ff_container *file, int64_t number, uint64_t size,
                                ff_section *section, ff_error *error) {
    uint8_t *content = file->expanded[number];
    if (content == NULL) {
        content = size < SIZE_MAX ? malloc((size_t)size + 1) : NULL;
        if (content == NULL) return ff_no_memory(error);
        if (!ff_inflate(section->bytes, section->size, content, (size_t)size)) {
            free(content);
            return fail_damaged(error, "a section cannot be expanded");
        }
        file->expanded[number] = content;
    }
    section->bytes = content;
    section->size = (size_t)size;
    return FF_OK;
}

ff_status ff_container_section(ff_container *file, int64_t number, const char *name,
                               ff_section *section, ff_error *error) {
    const uint8_t *entry;
    if (number < 0 || number >= (int64_t)file->count) {
        return fail_damaged(error, "it refers to a section that does not exist");
    }
    entry = file->table + (size_t)number * ENTRY_BYTES;
    if (strlen(name) > NAME_BYTES || strncmp((const char *)entry, name, NAME_BYTES) != 0) {
        return fail_damaged(error, "a section has an unexpected name");
    }
    section->bytes = file->bytes + read_u64(entry + NAME_BYTES);
    section->size = (size_t)read_u64(entry + NAME_BYTES + 8);
    if (!file->checked[number]) {
        if (crc32_of(file->crc_tables, section->bytes, section->size) != read_u32(entry + 32)) {
            return fail_damaged(error, "the checksum of a section is wrong");
        }
        file->checked[number] = 1;
    }
    if (read_u64(entry + EXPANDED_AT) == 0) return FF_OK;
    return expand_section(file, number, read_u64(entry + EXPANDED_AT), section, error);
}

static size_t align(size_t offset, size_t size) {
    size_t step = size >= LARGE_SECTION_BYTES ? PAGE_BYTES : ALIGNMENT;
    return (offset + step - 1) / step * step;
}

int ff_container_write(const char *path, const char *const names[2], const ff_section sections[2]) {
    static const uint8_t zeros[PAGE_BYTES];
    uint8_t head[HEADER_BYTES + 2 * ENTRY_BYTES] = "FOURFOLD";
    uint32_t(*rows)[256] = malloc(CRC_BYTES * sizeof *rows);
    size_t offset = sizeof head, sizes[5] = {sizeof head};
    const void *pieces[5] = {head};
    int good;
    if (rows == NULL) return 0;
    fill_crc_tables(rows);
    for (int i = 0; i < 2; i++) {
        uint8_t *entry = head + HEADER_BYTES + i * ENTRY_BYTES;
        size_t start = align(offset, sections[i].size);
        memcpy(entry, names[i], strlen(names[i]));
        write_u64(entry + NAME_BYTES, start);
        write_u64(entry + NAME_BYTES + 8, sections[i].size);
        write_u32(entry + 32, crc32_of(rows, sections[i].bytes, sections[i].size));
        write_u32(entry + 36, (uint32_t)i);
        pieces[1 + 2 * i] = zeros;
        sizes[1 + 2 * i] = start - offset;
        pieces[2 + 2 * i] = sections[i].bytes;
        sizes[2 + 2 * i] = sections[i].size;
        offset = start + sections[i].size;
    }
    write_u32(head + 8, VERSION);
    write_u32(head + 12, HEADER_BYTES);
    write_u64(head + 16, offset);
    write_u64(head + 24, HEADER_BYTES);
    write_u32(head + 32, 2);
    write_u32(head + 36, crc32_of(rows, head + HEADER_BYTES, 2 * ENTRY_BYTES));
    write_u32(head + 60, crc32_of(rows, head, HEADER_BYTES - 4));
    good = ff_write_file(path, pieces, sizes, 5);
    free(rows);
    return good;
}
