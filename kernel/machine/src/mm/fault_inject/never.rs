//! Stubs for a kernel without failure injection.

/// Which of a thread's allocations fails: none.
pub struct FailNth(());

impl FailNth {
    /// None.
    pub const fn new() -> Self {
        FailNth(())
    }
}

/// Never.
#[inline(always)]
pub(in crate::mm) fn should_fail() -> bool {
    false
}

/// A section without failures.
#[must_use]
pub struct NoFail(());

impl NoFail {
    /// Begins it.
    #[inline(always)]
    pub fn begin() -> Self {
        NoFail(())
    }
}
