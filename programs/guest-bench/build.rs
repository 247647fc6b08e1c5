//! Links the guest for the address at which VMMs load flat images.

fn main() {
    let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap();
    println!("cargo::rerun-if-changed=guest.ld");
    println!("cargo::rustc-link-arg-bins=-T{folder}/guest.ld");
    println!("cargo::rustc-link-arg-bins=--build-id=none");
}
