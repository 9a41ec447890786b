// Types of fourfold.js, for who writes TypeScript and for editors.

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

/** How a picture becomes numbers: (byte - mean) / std; else as the model's metadata say, or from 0 to 1. */
export interface PictureOptions {
  mean?: number | number[];
  std?: number | number[];
  /** 'stretch' is the default; 'letterbox' keeps all of the picture, 'crop' its middle. */
  fit?: 'stretch' | 'letterbox' | 'crop';
  /** The colour of a letterbox's bars, 0 to 255. */
  fill?: number | number[];
  order?: 'rgb' | 'bgr';
  mirror?: boolean;
}

export interface Progress {
  stage: 'fetch' | 'compile';
  /** Bytes, or kernels. */
  done: number;
  total: number;
}

export interface OpenOptions {
  /** Which of the file's models, where it has several. */
  model?: string;
  precision?: string;
  signature?: string;
  progress?: (progress: Progress) => void;
  /** Whether the browser keeps the file; true if it is left out. */
  cache?: boolean;
  /** A device of the caller's, to share buffers with. */
  device?: GPUDevice;
  picture?: PictureOptions;
}

export interface RunOptions {
  /** Quantised inputs and outputs as real numbers. */
  real?: boolean;
  /** Outputs as the GPU's buffers, good until the next run. */
  buffers?: boolean;
  picture?: PictureOptions;
}

export interface TensorInfo {
  name: string;
  /** 'f32', 'u8', 'i64', ... */
  type: string;
  shape: number[];
  quantization?: Quantization;
  /** Names of classes, where the model has them. */
  labels: string[];
  description: string;
  /** All that the model's metadata say of it. */
  metadata: Record<string, any>;
}

/** Where a picture lies in the model's. */
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
  /** When all kernels are compiled. */
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

/** A place in the model's picture, in its pixels, as a place in the picture that was passed. */
export function toFrame(fit: Fit, x: number, y: number): [number, number];
