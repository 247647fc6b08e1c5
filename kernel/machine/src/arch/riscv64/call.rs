//! Recognition of call instructions.

/// Whether the last instruction of `code` may be a call: JAL or JALR that link to ra (unprivileged
/// manual, section 2.5.1), or C.JALR (section 27.4).
pub fn ends_in_call(code: &[u8]) -> bool {
    const LINK: u32 = 1 << 7;
    let long = code.last_chunk().is_some_and(|&word| {
        let word = u32::from_le_bytes(word);
        word & 0xfff == LINK | 0x6f || word & 0x7fff == LINK | 0x67
    });
    let short = code.last_chunk().is_some_and(|&half| {
        let half = u16::from_le_bytes(half);
        half & 0xf07f == 0x9002 && half & 0x0f80 != 0
    });
    code.len().is_multiple_of(2) && (long || short)
}
