package dev.fourfold

import android.content.Context
import java.io.Closeable
import java.io.FileInputStream
import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.nio.channels.FileChannel

/** An input or output: its type reads "f32[1,224,224,3]". */
data class Tensor(val name: String, val type: String, val bytes: Int)

/**
 * A model of a prepared file, ready to run on the phone's GPU. Runs of one model take turns; make
 * them on a thread of their own, not on that of the user interface.
 */
class FourfoldModel(file: ByteBuffer, name: String? = null, cacheFolder: String? = null) : Closeable {
    private var handle = nativeOpen(file, name, cacheFolder)

    val device: String = nativeDevice(handle)
    val inputs: List<Tensor> = tensors(output = false)
    val outputs: List<Tensor> = tensors(output = true)
    private val results = outputs.map { buffer(it) }

    /** A buffer for an input, in the byte order of the device; fill it from its beginning. */
    fun buffer(tensor: Tensor): ByteBuffer =
        ByteBuffer.allocateDirect(tensor.bytes).order(ByteOrder.nativeOrder())

    /** The outputs for these inputs. They are the same buffers in each run. */
    @Synchronized
    fun run(vararg given: ByteBuffer): List<ByteBuffer> {
        check(handle != 0L) { "the model is closed" }
        nativeRun(handle, arrayOf(*given), results.toTypedArray())
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
         * A model in the app's assets. The file must not be compressed there (`noCompress`), so
         * that it is mapped and not copied. Kernels that had to be built are kept for the next start.
         */
        fun fromAsset(context: Context, asset: String, name: String? = null): FourfoldModel {
            val mapped = context.assets.openFd(asset).use { place ->
                FileInputStream(place.fileDescriptor).channel.use {
                    it.map(FileChannel.MapMode.READ_ONLY, place.startOffset, place.length)
                }
            }
            return FourfoldModel(mapped, name, context.codeCacheDir.path)
        }
    }
}
