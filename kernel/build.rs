//! Links the kernel by the script of its architecture.

use std::env;

fn main() {
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap();
    let folder = env::var("CARGO_MANIFEST_DIR").unwrap();
    let script = format!("{folder}/src/arch/{arch}/kernel.ld");
    println!("cargo::rerun-if-changed={script}");
    println!("cargo::rustc-link-arg-bins=-T{script}");
    println!("cargo::rustc-link-arg-bins=--no-eh-frame-hdr");
    println!("cargo::rustc-link-arg-bins=--build-id=none");
}
