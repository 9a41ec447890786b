// WebGPU flags by number, as its specification defines them, to keep the script small.

export const MAP_READ = 1;
export const COPY_SRC = 4;
export const COPY_DST = 8;
export const UNIFORM = 64;
export const STORAGE = 128;
export const TEXTURE_COPY_DST = 2;
export const TEXTURE_BINDING = 4;
export const RENDER_ATTACHMENT = 16;
export const COMPUTE = 4;
