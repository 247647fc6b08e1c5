//! Recognition of call instructions.

/// Whether the last instruction of `code` is a call: BL or BLR.
pub fn ends_in_call(code: &[u8]) -> bool {
    code.len().is_multiple_of(4)
        && code.last_chunk().is_some_and(|&word| {
            let word = u32::from_le_bytes(word);
            word & 0xfc00_0000 == 0x9400_0000 || word & 0xffff_fc1f == 0xd63f_0000
        })
}
