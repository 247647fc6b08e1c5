//! The initial archive, and the program in it: a name for the closures passed to [`crate::run`].

use std::ops::Range;

use machine::arch::ELF_MACHINE;

/// The entry point of process 1.
pub const ENTRY: usize = BASE + 64;
const BASE: usize = 0x1000_0000;
/// The memory that programs may write initially.
pub const MEMORY: Range<usize> = BASE + 0x1_0000..BASE + 0x41_0000;

/// An executable file whose only segment is [`MEMORY`], and the headers before it.
pub fn program() -> Vec<u8> {
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    let mut half = |value: u16| file.extend(value.to_le_bytes());
    half(2); // ET_EXEC
    half(ELF_MACHINE);
    let mut words = Vec::new();
    words.extend(1u32.to_le_bytes());
    for word in [ENTRY, 64, 0] {
        words.extend((word as u64).to_le_bytes());
    }
    words.extend(0u32.to_le_bytes());
    for half in [64u16, 56, 1, 0, 0, 0] {
        words.extend(half.to_le_bytes());
    }
    // PT_LOAD, readable and writable, with the headers at its beginning.
    words.extend([1u32, 6].map(u32::to_le_bytes).concat());
    let len = 64 + 56;
    for word in [0, BASE, BASE, len, MEMORY.end - BASE, 4096] {
        words.extend((word as u64).to_le_bytes());
    }
    file.extend(words);
    file
}

/// A member of a "newc" archive.
pub fn member(name: &str, mode: u32, content: &[u8]) -> Vec<u8> {
    let fields = [
        1,
        mode,
        0,
        0,
        1,
        0,
        content.len() as u32,
        0,
        0,
        0,
        0,
        name.len() as u32 + 1,
        0,
    ];
    let mut bytes = b"070701".to_vec();
    for field in fields {
        bytes.extend(format!("{field:08x}").bytes());
    }
    bytes.extend(name.bytes());
    bytes.push(0);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes.extend(content);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The initial archive.
pub fn archive() -> Vec<u8> {
    let mut bytes = member("init", 0o100755, &program());
    bytes.extend(member("TRAILER!!!", 0, &[]));
    bytes
}
