// What fourfold needs of an app's build file; the rest is as Android Studio makes it.
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
    androidResources { noCompress += "fourfold" } // so that the file is mapped where it lies
}
