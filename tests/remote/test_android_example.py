"""The wrapper for Android apps: its C code is compiled and called from Java, and its Kotlin code
declares the same functions.

Neither a Kotlin compiler nor Android is needed: a Java class of the same name has the same native
methods, and runs a model on this machine's device.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from remote.machine_setup import drivers
from small_networks import small_onnx

import fourfold
from fourfold.backends.native import source_folder
from fourfold.cli import main

ROOT = Path(__file__).parents[2]
APP = ROOT / "examples" / "android" / "app" / "src" / "main"
WRAPPER = APP / "cpp" / "fourfold_jni.c"
KOTLIN = APP / "java" / "dev" / "fourfold" / "FourfoldModel.kt"
STRICT = ("-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic", "-shared", "-fPIC")
JAVA = """
package dev.fourfold;
import java.io.RandomAccessFile;
import java.nio.*;
import java.nio.channels.FileChannel;
import java.nio.file.*;
import java.util.*;

public class FourfoldModel {
    native long nativeOpen(ByteBuffer file, String name, String cache);
    native void nativeClose(long handle);
    native String nativeDevice(long handle);
    native String[] nativeTensor(long handle, boolean output, int number);
    native void nativeRun(long handle, ByteBuffer[] inputs, ByteBuffer[] outputs);

    static ByteBuffer buffer(String[] tensor) {
        int size = Integer.parseInt(tensor[2]);
        return ByteBuffer.allocateDirect(size).order(ByteOrder.nativeOrder());
    }

    public static void main(String[] words) throws Exception {
        System.load(words[0]);
        FourfoldModel model = new FourfoldModel();
        ByteBuffer file = new RandomAccessFile(words[1], "r").getChannel()
            .map(FileChannel.MapMode.READ_ONLY, 0, Files.size(Paths.get(words[1])));
        try {
            model.nativeOpen(ByteBuffer.allocate(10), null, null);
        } catch (IllegalStateException error) {
            System.out.println("refused: " + error.getMessage());
        }
        long handle = model.nativeOpen(file, null, null);
        String[] input = model.nativeTensor(handle, false, 0);
        String[] output = model.nativeTensor(handle, true, 0);
        System.out.println(input[0] + " " + input[1] + " -> " + output[0] + " " + output[1]);
        ByteBuffer in = buffer(input);
        in.put(Files.readAllBytes(Paths.get(words[2])));
        List<ByteBuffer> out = new ArrayList<>(), small = new ArrayList<>();
        for (int i = 0; model.nativeTensor(handle, true, i) != null; i++) {
            out.add(buffer(model.nativeTensor(handle, true, i)));
            small.add(ByteBuffer.allocateDirect(1));
        }
        ByteBuffer[] inputs = {in};
        try {
            model.nativeRun(handle, inputs, small.toArray(new ByteBuffer[0]));
        } catch (IllegalStateException error) {
            System.out.println("refused: " + error.getMessage());
        }
        model.nativeRun(handle, inputs, out.toArray(new ByteBuffer[0]));
        byte[] bytes = new byte[out.get(0).capacity()];
        out.get(0).get(bytes);
        Files.write(Paths.get(words[3]), bytes);
        model.nativeClose(handle);
    }
}
"""


def java_folder() -> Path:
    """Return the folder of JDK headers; skip the test without a JDK."""
    result = shutil.which("javac")
    if result is None or shutil.which("cc") is None:
        pytest.skip("no JDK or no C compiler is installed")
    folder = Path(result).resolve().parents[1] / "include"
    if not (folder / "jni.h").exists():
        pytest.skip("the JDK has no jni.h")
    return folder


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    result = tmp_path_factory.mktemp("jni") / "libfourfold_jni.so"
    headers, player = java_folder(), source_folder()
    folders = [f"-I{one}" for one in (headers, headers / "linux", player)]
    sources = [WRAPPER, *sorted(player.glob("*.c"))]
    subprocess.run(
        ["cc", *STRICT, *folders, *sources, "-o", result, "-ldl", "-lm", "-lpthread"], check=True
    )
    return result


@pytest.mark.needs_device
def test_java_runs_a_model(library: Path, tmp_path: Path) -> None:
    model, file = tmp_path / "small.onnx", tmp_path / "small.fourfold"
    model.write_bytes(small_onnx())
    main(["prepare", str(model), "-o", str(file), "--only-here"], standalone_mode=False)
    with fourfold.Session(str(file)) as session:
        info = session.inputs[0]
        image = np.random.default_rng(5).uniform(-1, 1, info.shape).astype(np.float32)
        expected = session.run(image)
    image.tofile(tmp_path / "in")
    source = tmp_path / "dev" / "fourfold" / "FourfoldModel.java"
    source.parent.mkdir(parents=True)
    source.write_text(JAVA)
    subprocess.run(["javac", "-d", tmp_path, source], check=True)
    words = [library, file, tmp_path / "in", tmp_path / "out"]
    done = subprocess.run(
        ["java", "-cp", tmp_path, "dev.fourfold.FourfoldModel", *words],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, **drivers()},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    name, array = next(iter(expected.items()))
    lines = done.stdout.splitlines()
    assert lines[0].startswith("refused: the file must be a direct buffer")
    assert lines[1].startswith(f"{info.name} f32[")
    assert f"-> {name} f32[" in lines[1]
    assert lines[2].startswith("refused: a buffer is missing")
    np.testing.assert_array_equal(np.fromfile(tmp_path / "out", np.float32), array.reshape(-1))


def test_kotlin_and_c_declare_the_same_functions() -> None:
    in_c = {
        name: len(parameters.split(",")) - 2
        for name, parameters in re.findall(
            r"Java_dev_fourfold_FourfoldModel_(\w+)\(([^)]*)\)", WRAPPER.read_text()
        )
    }
    in_kotlin = {
        name: len([one for one in parameters.split(",") if one.strip()])
        for name, parameters in re.findall(r"external fun (\w+)\(([^)]*)\)", KOTLIN.read_text())
    }
    assert in_c == in_kotlin
    assert in_c


def test_kotlin_loads_the_built_library() -> None:
    loaded = re.search(r'loadLibrary\("(\w+)"\)', KOTLIN.read_text())
    assert loaded is not None
    assert f"add_library({loaded[1]} SHARED" in (APP / "cpp" / "CMakeLists.txt").read_text()
