// The kernel that converts a picture to an input: it resizes, scales, and orders channels.

const GRAY = [0.299, 0.587, 0.114];
export const ITEMS = 64; // work-items per work-group, each with four pixels

/**
 * `smoothed` weights the pixels of the frame by distance: bilinear, and antialiased when shrinking.
 * @param {boolean} external true to read a video frame in place
 */
export const pictureKernel = (external) => `
struct How { box: vec4f, place: vec4f, scale: vec4f, shift: vec4f, fill: vec4f, shape: vec4u, flags: vec4u }
@group(0) @binding(0) var frame: ${external ? 'texture_external' : 'texture_2d<f32>'};
@group(0) @binding(1) var<storage, read_write> result: array<u32>;
@group(0) @binding(2) var<uniform> how: How;
fn smoothed(centre: vec2f) -> vec4f {
 let reach = max(vec2f(1), how.box.zw / how.place.xy);
 let low = vec2i(max(how.box.xy, floor(centre - reach + 0.5)));
 let high = vec2i(min(how.box.xy + how.box.zw, ceil(centre + reach - 0.5)));
 var sum = vec4f(0);
 var weights = 0.0;
 for (var y = low.y; y < high.y; y++) {
  for (var x = low.x; x < high.x; x++) {
   let near = max(vec2f(0), 1 - abs(vec2f(vec2i(x, y)) + 0.5 - centre) / reach);
   sum += near.x * near.y * textureLoad(frame, vec2i(x, y)${external ? '' : ', 0'});
   weights += near.x * near.y;
  }
 }
 return 255 * sum / weights;
}
fn pixel(number: u32) -> vec4f {
 let at = vec2f(f32(number % how.shape.x), f32(number / how.shape.x)) + 0.5 - how.place.zw;
 var color = how.fill;
 if (all(at > vec2f(0)) && all(at < how.place.xy)) {
  var part = at / how.place.xy;
  if (how.flags.z != 0) { part.x = 1 - part.x; }
  color = smoothed(how.box.xy + part * how.box.zw);
 }
 if (how.flags.y != 0) { color = color.zyxw; }
 if (how.shape.z == 1) { color = vec4f(dot(color.xyz, vec3f(${GRAY}))); }
 return color * how.scale + how.shift;
}
fn put(word: u32, bits: u32) {
 if (word < arrayLength(&result)) { result[word] = bits; }
}
fn store(first: u32, values: vec4f) {
 if (how.shape.w == 0) {
  for (var i = 0u; i < 4; i++) { put(first + i, bitcast<u32>(values[i])); }
 } else if (how.shape.w == 1) {
  put(first / 2, pack2x16float(values.xy));
  put(first / 2 + 1, pack2x16float(values.zw));
 } else {
  let low = select(0.0, -128.0, how.shape.w == 3);
  let bytes = bitcast<vec4u>(vec4i(clamp(round(values), vec4f(low), vec4f(low + 255)))) & vec4u(255);
  put(first / 4, bytes.x | (bytes.y << 8) | (bytes.z << 16) | (bytes.w << 24));
 }
}
@compute @workgroup_size(${ITEMS})
fn main(@builtin(global_invocation_id) id: vec3u) {
 let first = id.x * 4;
 let area = how.shape.x * how.shape.y;
 if (first >= area) { return; }
 var p: array<vec4f, 4>;
 for (var i = 0u; i < 4; i++) { p[i] = pixel(min(first + i, area - 1)); }
 let c = how.shape.z;
 let planar = how.flags.x != 0;
 for (var n = 0u; n < c; n++) {
  var four: vec4f;
  for (var k = 0u; k < 4; k++) { four[k] = select(p[(4 * n + k) / c][(4 * n + k) % c], p[k][n], planar); }
  store(select(first * c + 4 * n, n * area + first, planar), four);
 }
}`;
