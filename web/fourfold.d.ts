// Types of fourfold.js, for TypeScript and editors.

export type NumberArray =
  | Float32Array
  | Float64Array
  | Int8Array
  | Uint8Array
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array;

export type Picture =
  | ImageData
  | ImageBitmap
  | HTMLImageElement
  | HTMLCanvasElement
  | OffscreenCanvas
  | HTMLVideoElement
  | VideoFrame;

export type Input = NumberArray | number[] | Picture | GPUBuffer;

/** real = (stored - zeroPoint) * scale, for all elements or for each index along `axis`. */
export interface Quantization {
  scale: number[];
  zeroPoint: number[];
  axis: number | null;
}

/** How a picture is converted: (byte - mean) / std. The default is the model's metadata, else 0 to 1. */
export interface PictureOptions {
  mean?: number | number[];
  std?: number | number[];
  /** 'stretch' is the default; 'letterbox' keeps the whole picture, 'crop' its center. */
  fit?: 'stretch' | 'letterbox' | 'crop';
  /** Color of letterbox bars, 0 to 255. */
  fill?: number | number[];
  order?: 'rgb' | 'bgr';
  mirror?: boolean;
}

export interface Progress {
  stage: 'fetch' | 'compile';
  /** Bytes fetched, or kernels compiled. */
  done: number;
  total: number;
}

export interface OpenOptions {
  /** Name of the model, if the file has several. */
  model?: string;
  precision?: string;
  signature?: string;
  progress?: (progress: Progress) => void;
  /** Cache the file in the browser; true by default. */
  cache?: boolean;
  /**
   * Files that may be opened: 'signed:KEY' opens only files signed with this public Ed25519 key (64 hexadecimal
   * digits; several are separated by commas). 'extension', 'data' and 'all' are the same here: a browser runs no
   * native code of a file.
   */
  trust?: string;
  /** The caller's own device, to share buffers with. */
  device?: GPUDevice;
  picture?: PictureOptions;
}

export interface RunOptions {
  /** Pass and return real numbers for quantized tensors. */
  real?: boolean;
  /** Return outputs as GPU buffers, valid until the next run. */
  buffers?: boolean;
  picture?: PictureOptions;
}

export interface TensorInfo {
  name: string;
  /** 'f32', 'u8', 'i64', ... */
  type: string;
  shape: number[];
  quantization?: Quantization;
  /** Class labels, if the model has them. */
  labels: string[];
  description: string;
  /** The model's metadata for this tensor. */
  metadata: Record<string, any>;
}

/** Where a picture lies in the model's input picture. */
export interface Fit {
  box: [number, number, number, number];
  size: [number, number];
  offset: [number, number];
  target: [number, number];
  mirror: boolean;
}

export class FourfoldError extends Error {
  readonly what: string;
  readonly why: string;
  readonly fix: string;
}

export class Model {
  readonly inputs: TensorInfo[];
  readonly outputs: TensorInfo[];
  readonly metadata: Record<string, any>;
  readonly origin: { precision: string; units: number; launches: number };
  readonly device: GPUDevice | undefined;
  /** Resolves when all kernels are compiled. */
  readonly ready: Promise<void>;
  run(
    inputs: Record<string, Input> | Input[] | Input,
    options: RunOptions & { buffers: true },
  ): Promise<Record<string, GPUBuffer>>;
  run(
    inputs: Record<string, Input> | Input[] | Input,
    options?: RunOptions,
  ): Promise<Record<string, NumberArray>>;
  reset(): Promise<void>;
  fit(picture: Picture, how?: PictureOptions, input?: number): Fit;
  close(): void;
}

export function open(
  source: string | URL | Blob | ArrayBuffer | ArrayBufferView,
  options?: OpenOptions,
): Promise<Model>;

/** Converts pixel coordinates of the model's input picture to coordinates of the original picture. */
export function toFrame(fit: Fit, x: number, y: number): [number, number];
