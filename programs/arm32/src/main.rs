//! What a 32-bit Arm program finds on an arm64 kernel, told the same way by any kernel that does as Linux does.

fn main() {
    println!("hello from {} bits", usize::BITS);
}
