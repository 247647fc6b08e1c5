//! `arch::virt` for architectures that do not support guests yet.

/// Whether guests can run on this machine.
pub fn available() -> bool {
    false
}
