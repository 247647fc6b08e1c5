//! The upper kernel's description of a signal for a handler.

/// A signal to be delivered to a handler.
pub struct Delivery<'a> {
    /// The signal.
    pub signo: u32,
    /// The `siginfo_t`.
    pub info: &'a [u8; 128],
    /// The handler.
    pub handler: usize,
    /// SA_* flags.
    pub flags: usize,
    /// The address to which the handler returns: code that calls rt_sigreturn.
    pub restorer: usize,
    /// The signal mask to restore.
    pub mask: u64,
    /// `ss_sp`, `ss_flags`, `ss_size` of the alternate stack.
    pub altstack: [usize; 3],
    /// Top of the stack to use; `None` to continue below the current stack pointer.
    pub stack_top: Option<usize>,
}
