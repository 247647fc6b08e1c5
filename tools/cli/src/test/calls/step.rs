//! What an instruction does to the path of execution and to the stack.

/// The effect of an instruction; those without one of these are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A call of this address.
    Calls(u64),
    /// A jump or a branch to this address.
    Jumps(u64),
    /// A call of the address in a register.
    CallsRegister,
    /// A jump to the address in a register, which is not a return.
    JumpsRegister,
    /// The stack grows by so many bytes.
    Grows(u64),
}

/// The value of the lowest `bits` of a word, of which the highest is the sign.
pub fn signed(word: u32, bits: u32) -> i64 {
    i64::from((word << (32 - bits)).cast_signed() >> (32 - bits))
}

/// The lowest `count` bits of a word from bit `first` on.
pub fn field(word: u32, first: u32, count: u32) -> u32 {
    word >> first & ((1 << count) - 1)
}
