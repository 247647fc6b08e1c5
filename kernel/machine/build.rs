//! Builds the vDSO that the kernel hands to programs.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    // Programs of the host get none.
    if env::var("CARGO_CFG_TARGET_OS").unwrap() != "none" {
        return;
    }
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap();
    let folder = PathBuf::from(env::var("CARGO_MANIFEST_DIR").unwrap()).join("src/arch");
    vdso(&folder, &arch, "vdso", &[]);
    if arch == "aarch64" {
        // With landing pads, and without jumps that would need some.
        let guarded = [
            "--cfg",
            "guarded",
            "-C",
            "llvm-args=-min-jump-table-entries=1000",
        ];
        vdso(&folder, &arch, "vdso-guarded", &guarded);
    }
}

/// Compiles `vdso/guest.rs` with `options` and links it to a shared object, `name`. Cargo builds
/// none for a target without an operating system.
fn vdso(folder: &std::path::Path, arch: &str, name: &str, options: &[&str]) {
    let out = PathBuf::from(env::var("OUT_DIR").unwrap());
    let (source, script) = (
        folder.join("vdso/guest.rs"),
        folder.join(arch).join("vdso.ld"),
    );
    let (object, library) = (
        out.join(name).with_extension("o"),
        out.join(name).with_extension("so"),
    );
    println!("cargo::rerun-if-changed={}", folder.join("vdso").display());
    println!("cargo::rerun-if-changed={}", script.display());
    let rustc = env::var("RUSTC").unwrap();
    run(Command::new(&rustc)
        .args([
            "--edition",
            "2024",
            "--crate-type",
            "lib",
            "--emit",
            "obj",
            "--crate-name",
            "vdso",
        ])
        .args([
            "-C",
            "opt-level=2",
            "-C",
            "panic=abort",
            "-C",
            "relocation-model=pic",
            "-C",
            "overflow-checks=off",
        ])
        .args([
            "-C",
            "codegen-units=1",
            "-C",
            "debug-assertions=off",
            "--target",
            &env::var("TARGET").unwrap(),
        ])
        .args(options)
        .arg(&source)
        .arg("-o")
        .arg(&object));
    run(Command::new(linker(&rustc))
        .args([
            "-flavor",
            "gnu",
            "-shared",
            "-soname",
            "linux-vdso.so.1",
            "--hash-style=both",
            "--no-undefined",
        ])
        .args([
            "-z",
            "rodynamic",
            "-z",
            "max-page-size=4096",
            "--gc-sections",
            "--build-id=none",
            "-T",
        ])
        .arg(&script)
        .arg(&object)
        .arg("-o")
        .arg(&library));
}

/// The linker that comes with the toolchain.
fn linker(rustc: &str) -> PathBuf {
    let output = Command::new(rustc)
        .args(["--print", "target-libdir", "--target"])
        .arg(env::var("HOST").unwrap())
        .output();
    let libraries = PathBuf::from(String::from_utf8(output.unwrap().stdout).unwrap().trim());
    libraries.with_file_name("bin").join("rust-lld")
}

fn run(command: &mut Command) {
    let status = command
        .status()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}
