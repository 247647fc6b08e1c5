//! What the kernel above says of a signal that a handler gets.

/// A signal on its way to a handler.
pub struct Delivery<'a> {
    /// The signal.
    pub signo: u32,
    /// The `siginfo_t`.
    pub info: &'a [u8; 128],
    /// The handler.
    pub handler: usize,
    /// SA_* flags.
    pub flags: usize,
    /// Where the handler returns to: code that calls rt_sigreturn.
    pub restorer: usize,
    /// The mask to come back to.
    pub mask: u64,
    /// `ss_sp`, `ss_flags`, `ss_size` of the alternate stack.
    pub altstack: [usize; 3],
    /// Top of the stack to use; `None` to go on below the present stack pointer.
    pub stack_top: Option<usize>,
}
