"""Structures of webgpu.h and wgpu.h as of wgpu-native 29."""

from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p

_Chain = ("nextInChain", c_void_p)


class StringView(ctypes.Structure):
    """UTF-8 bytes and their number."""

    _fields_ = (("data", c_char_p), ("length", c_size_t))

    @staticmethod
    def of(text: str) -> StringView:
        data = text.encode()
        return StringView(data, len(data))

    def __str__(self) -> str:
        address = c_void_p.from_buffer(self).value  # the data need not be zero-terminated
        if not address or self.length == NO_LENGTH:
            return ""
        return ctypes.string_at(address, self.length).decode(errors="replace")


NO_LENGTH = c_size_t(-1).value  # length of a null string


class Chained(ctypes.Structure):
    """Header of structures that extend another one."""

    _fields_ = (("next", c_void_p), ("sType", c_uint32))


class InstanceExtras(ctypes.Structure):
    _fields_ = (
        ("chain", Chained),
        ("backends", c_uint64),
        ("flags", c_uint64),
        ("dx12ShaderCompiler", c_uint32),
        ("gles3MinorVersion", c_uint32),
        ("glFenceBehaviour", c_uint32),
        ("dxcPath", StringView),
        ("dxcMaxShaderModel", c_uint32),
        ("dx12PresentationSystem", c_uint32),
        ("budgetForDeviceCreation", ctypes.POINTER(c_uint8)),
        ("budgetForDeviceLoss", ctypes.POINTER(c_uint8)),
        ("displayHandle", c_uint64 * 3),
    )


class InstanceDescriptor(ctypes.Structure):
    _fields_ = (
        _Chain,
        ("requiredFeatureCount", c_size_t),
        ("requiredFeatures", c_void_p),
        ("requiredLimits", c_void_p),
    )


class AdapterInfo(ctypes.Structure):
    _fields_ = (
        _Chain,
        ("vendor", StringView),
        ("architecture", StringView),
        ("device", StringView),
        ("description", StringView),
        ("backendType", c_uint32),
        ("adapterType", c_uint32),
        ("vendorID", c_uint32),
        ("deviceID", c_uint32),
        ("subgroupMinSize", c_uint32),
        ("subgroupMaxSize", c_uint32),
    )


class Limits(ctypes.Structure):
    _fields_ = (
        _Chain,
        ("maxTextureDimension1D", c_uint32),
        ("maxTextureDimension2D", c_uint32),
        ("maxTextureDimension3D", c_uint32),
        ("maxTextureArrayLayers", c_uint32),
        ("maxBindGroups", c_uint32),
        ("maxBindGroupsPlusVertexBuffers", c_uint32),
        ("maxBindingsPerBindGroup", c_uint32),
        ("maxDynamicUniformBuffersPerPipelineLayout", c_uint32),
        ("maxDynamicStorageBuffersPerPipelineLayout", c_uint32),
        ("maxSampledTexturesPerShaderStage", c_uint32),
        ("maxSamplersPerShaderStage", c_uint32),
        ("maxStorageBuffersPerShaderStage", c_uint32),
        ("maxStorageTexturesPerShaderStage", c_uint32),
        ("maxUniformBuffersPerShaderStage", c_uint32),
        ("maxUniformBufferBindingSize", c_uint64),
        ("maxStorageBufferBindingSize", c_uint64),
        ("minUniformBufferOffsetAlignment", c_uint32),
        ("minStorageBufferOffsetAlignment", c_uint32),
        ("maxVertexBuffers", c_uint32),
        ("maxBufferSize", c_uint64),
        ("maxVertexAttributes", c_uint32),
        ("maxVertexBufferArrayStride", c_uint32),
        ("maxInterStageShaderVariables", c_uint32),
        ("maxColorAttachments", c_uint32),
        ("maxColorAttachmentBytesPerSample", c_uint32),
        ("maxComputeWorkgroupStorageSize", c_uint32),
        ("maxComputeInvocationsPerWorkgroup", c_uint32),
        ("maxComputeWorkgroupSizeX", c_uint32),
        ("maxComputeWorkgroupSizeY", c_uint32),
        ("maxComputeWorkgroupSizeZ", c_uint32),
        ("maxComputeWorkgroupsPerDimension", c_uint32),
        ("maxImmediateSize", c_uint32),
    )


class CallbackInfo(ctypes.Structure):
    """A callback, and when it may be called."""

    _fields_ = (
        _Chain,
        ("mode", c_uint32),
        ("callback", c_void_p),
        ("userdata1", c_void_p),
        ("userdata2", c_void_p),
    )


class UncapturedErrorCallbackInfo(ctypes.Structure):
    _fields_ = (
        _Chain,
        ("callback", c_void_p),
        ("userdata1", c_void_p),
        ("userdata2", c_void_p),
    )


class LabelDescriptor(ctypes.Structure):
    """A descriptor that has only a label."""

    _fields_ = (_Chain, ("label", StringView))


class DeviceDescriptor(ctypes.Structure):
    _fields_ = (
        _Chain,
        ("label", StringView),
        ("requiredFeatureCount", c_size_t),
        ("requiredFeatures", ctypes.POINTER(c_uint32)),
        ("requiredLimits", ctypes.POINTER(Limits)),
        ("defaultQueue", LabelDescriptor),
        ("deviceLostCallbackInfo", CallbackInfo),
        ("uncapturedErrorCallbackInfo", UncapturedErrorCallbackInfo),
    )


class BufferDescriptor(ctypes.Structure):
    _fields_ = (
        _Chain,
        ("label", StringView),
        ("usage", c_uint64),
        ("size", c_uint64),
        ("mappedAtCreation", c_uint32),
    )


class ShaderSourceWGSL(ctypes.Structure):
    _fields_ = (("chain", Chained), ("code", StringView))


class ComputeState(ctypes.Structure):
    _fields_ = (
        _Chain,
        ("module", c_void_p),
        ("entryPoint", StringView),
        ("constantCount", c_size_t),
        ("constants", c_void_p),
    )


class ComputePipelineDescriptor(ctypes.Structure):
    _fields_ = (
        _Chain,
        ("label", StringView),
        ("layout", c_void_p),
        ("compute", ComputeState),
    )


class BindGroupEntry(ctypes.Structure):
    _fields_ = (
        _Chain,
        ("binding", c_uint32),
        ("buffer", c_void_p),
        ("offset", c_uint64),
        ("size", c_uint64),
        ("sampler", c_void_p),
        ("textureView", c_void_p),
    )


class BindGroupDescriptor(ctypes.Structure):
    _fields_ = (
        _Chain,
        ("label", StringView),
        ("layout", c_void_p),
        ("entryCount", c_size_t),
        ("entries", ctypes.POINTER(BindGroupEntry)),
    )


class BufferBindingLayout(ctypes.Structure):
    _fields_ = (
        _Chain,
        ("type", c_uint32),
        ("hasDynamicOffset", c_uint32),
        ("minBindingSize", c_uint64),
    )


class SamplerBindingLayout(ctypes.Structure):
    _fields_ = (_Chain, ("type", c_uint32))


class TextureBindingLayout(ctypes.Structure):
    _fields_ = (
        _Chain,
        ("sampleType", c_uint32),
        ("viewDimension", c_uint32),
        ("multisampled", c_uint32),
    )


class StorageTextureBindingLayout(ctypes.Structure):
    _fields_ = (
        _Chain,
        ("access", c_uint32),
        ("format", c_uint32),
        ("viewDimension", c_uint32),
    )


class BindGroupLayoutEntry(ctypes.Structure):
    _fields_ = (
        _Chain,
        ("binding", c_uint32),
        ("visibility", c_uint64),
        ("bindingArraySize", c_uint32),
        ("buffer", BufferBindingLayout),
        ("sampler", SamplerBindingLayout),
        ("texture", TextureBindingLayout),
        ("storageTexture", StorageTextureBindingLayout),
    )


class BindGroupLayoutDescriptor(ctypes.Structure):
    _fields_ = (
        _Chain,
        ("label", StringView),
        ("entryCount", c_size_t),
        ("entries", ctypes.POINTER(BindGroupLayoutEntry)),
    )


class PipelineLayoutDescriptor(ctypes.Structure):
    _fields_ = (
        _Chain,
        ("label", StringView),
        ("bindGroupLayoutCount", c_size_t),
        ("bindGroupLayouts", ctypes.POINTER(c_void_p)),
        ("immediateSize", c_uint32),
    )


class PassTimestampWrites(ctypes.Structure):
    _fields_ = (
        _Chain,
        ("querySet", c_void_p),
        ("beginningOfPassWriteIndex", c_uint32),
        ("endOfPassWriteIndex", c_uint32),
    )


class ComputePassDescriptor(ctypes.Structure):
    _fields_ = (
        _Chain,
        ("label", StringView),
        ("timestampWrites", ctypes.POINTER(PassTimestampWrites)),
    )


class QuerySetDescriptor(ctypes.Structure):
    _fields_ = (_Chain, ("label", StringView), ("type", c_uint32), ("count", c_uint32))


RequestDeviceCallback = ctypes.CFUNCTYPE(None, c_uint32, c_void_p, StringView, c_void_p, c_void_p)
DeviceCallback = ctypes.CFUNCTYPE(None, c_void_p, c_uint32, StringView, c_void_p, c_void_p)
BufferMapCallback = ctypes.CFUNCTYPE(None, c_uint32, StringView, c_void_p, c_void_p)
