//! `arch::virt` of an architecture whose CPUs run no guests yet.

/// Whether guests can run here.
pub fn available() -> bool {
    false
}
