package dev.fourfold

import android.content.Context
import java.io.Closeable
import java.io.FileInputStream
import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.nio.channels.FileChannel

/** An input or output. Its type has the form "f32[1,224,224,3]". */
data class Tensor(val name: String, val type: String, val bytes: Int)

/**
 * A model of a prepared file, opened on the phone's GPU. Runs of one model are serialized. Call `run`
 * from a background thread, not from the UI thread.
 */
class FourfoldModel(file: ByteBuffer, name: String? = null, cacheFolder: String? = null) : Closeable {
    private var handle = nativeOpen(file, name, cacheFolder)

    val device: String = nativeDevice(handle)
    val inputs: List<Tensor> = tensors(output = false)
    val outputs: List<Tensor> = tensors(output = true)
    private val results = outputs.map { buffer(it) }

    /** Allocates a buffer for an input, in native byte order. Fill it from its beginning. */
    fun buffer(tensor: Tensor): ByteBuffer =
        ByteBuffer.allocateDirect(tensor.bytes).order(ByteOrder.nativeOrder())

    /** Runs the model and returns its outputs. The same buffers are reused in each run. */
    @Synchronized
    fun run(vararg inputs: ByteBuffer): List<ByteBuffer> {
        check(handle != 0L) { "the model is closed" }
        nativeRun(handle, arrayOf(*inputs), results.toTypedArray())
        results.forEach { it.rewind() }
        return results
    }

    @Synchronized
    override fun close() {
        nativeClose(handle)
        handle = 0L
    }

    private fun tensors(output: Boolean): List<Tensor> =
        generateSequence(0) { it + 1 }
            .map { nativeTensor(handle, output, it) }
            .takeWhile { it != null }
            .map { Tensor(it!![0], it[1], it[2].toInt()) }
            .toList()

    private external fun nativeOpen(file: ByteBuffer, name: String?, cache: String?): Long
    private external fun nativeClose(handle: Long)
    private external fun nativeDevice(handle: Long): String
    private external fun nativeTensor(handle: Long, output: Boolean, number: Int): Array<String>?
    private external fun nativeRun(handle: Long, inputs: Array<ByteBuffer>, outputs: Array<ByteBuffer>)

    companion object {
        init {
            System.loadLibrary("fourfold_jni")
        }

        /**
         * Opens a model from the app's assets. The file must not be compressed (`noCompress`), so that it
         * is memory-mapped. Compiled kernels are cached for the next start.
         */
        fun fromAsset(context: Context, asset: String, name: String? = null): FourfoldModel {
            val mapped = context.assets.openFd(asset).use { descriptor ->
                FileInputStream(descriptor.fileDescriptor).channel.use {
                    it.map(FileChannel.MapMode.READ_ONLY, descriptor.startOffset, descriptor.length)
                }
            }
            return FourfoldModel(mapped, name, context.codeCacheDir.path)
        }
    }
}
