// The parts of an app's build file that fourfold needs. Add them to the one from Android Studio.
plugins {
    id("com.android.application")
    id("org.jetbrains.kotlin.android")
}

android {
    namespace = "dev.fourfold.example"
    compileSdk = 35
    defaultConfig {
        minSdk = 21
        targetSdk = 35
        ndk { abiFilters += listOf("arm64-v8a", "armeabi-v7a") }
    }
    externalNativeBuild { cmake { path = file("src/main/cpp/CMakeLists.txt") } }
    androidResources { noCompress += "fourfold" } // so that the file can be memory-mapped
}
