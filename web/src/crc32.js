// CRC-32 as in zlib, four bytes at a time, since megabytes of weights are checked at every start.

const TABLES = [0, 1, 2, 3].map(() => new Uint32Array(256));
for (let byte = 0; byte < 256; byte++) {
  let rest = byte;
  for (let bit = 0; bit < 8; bit++) rest = rest & 1 ? 0xedb88320 ^ (rest >>> 1) : rest >>> 1;
  TABLES[0][byte] = rest;
}
for (let table = 1; table < 4; table++) {
  for (let byte = 0; byte < 256; byte++) {
    const before = TABLES[table - 1][byte];
    TABLES[table][byte] = TABLES[0][before & 255] ^ (before >>> 8);
  }
}

/**
 * @param {Uint8Array} bytes
 * @returns {number}
 */
export function crc32(bytes) {
  const [first, second, third, fourth] = TABLES;
  const whole = bytes.length & ~3;
  let crc = ~0;
  let at = 0;
  for (; at < whole; at += 4) {
    crc ^= bytes[at] | (bytes[at + 1] << 8) | (bytes[at + 2] << 16) | (bytes[at + 3] << 24);
    crc = fourth[crc & 255] ^ third[(crc >>> 8) & 255] ^ second[(crc >>> 16) & 255] ^ first[crc >>> 24];
  }
  for (; at < bytes.length; at++) crc = first[(crc ^ bytes[at]) & 255] ^ (crc >>> 8);
  return ~crc >>> 0;
}
