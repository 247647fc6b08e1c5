//! Links the kernel by the script of its architecture.

use std::env;
use std::path::PathBuf;
use std::process::Command;

/// The architectures whose guests [`kvm`](src/kvm/mod.rs) runs.
const WITH_GUESTS: [&str; 1] = ["aarch64"];

fn main() {
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap();
    let bare = env::var("CARGO_CFG_TARGET_OS").unwrap() == "none";
    let script = PathBuf::from(env::var("CARGO_MANIFEST_DIR").unwrap())
        .join("machine/src/arch")
        .join(&arch)
        .join("kernel.ld");
    if bare {
        println!("cargo::rerun-if-changed={}", script.display());
        println!("cargo::rustc-link-arg-bins=-T{}", script.display());
        println!("cargo::rustc-link-arg-bins=--no-eh-frame-hdr");
        println!("cargo::rustc-link-arg-bins=--build-id=none");
    }
    println!("cargo::rustc-check-cfg=cfg(guests)");
    if bare && WITH_GUESTS.contains(&&*arch) {
        println!("cargo::rustc-cfg=guests");
    }
    let rustc = env::var("RUSTC").unwrap();
    println!("cargo::rustc-env=STILE_COMPILER={}", version(&rustc));
}

/// The compiler's version output.
fn version(rustc: &str) -> String {
    let output = Command::new(rustc).arg("--version").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().into()
}
