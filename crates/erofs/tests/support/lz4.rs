//! Data that is compressed by LZ4.

/// LZ4 of `length` times the same byte: one literal, a match, and five literals.
pub fn run(byte: u8, length: usize) -> Vec<u8> {
    let mut packed = vec![0x1f, byte, 1, 0];
    let mut rest = length - 1 - 5 - 4 - 15;
    while rest >= 255 {
        packed.push(255);
        rest -= 255;
    }
    packed.push(rest as u8);
    packed.push(0x50);
    packed.extend_from_slice(&[byte; 5]);
    packed
}

/// What is compressed, in blocks of `size` bytes, with zeroes before it.
pub fn padded(packed: &[u8], size: usize) -> Vec<u8> {
    let zeroes = packed.len().next_multiple_of(size) - packed.len();
    [&vec![0; zeroes], packed].concat()
}
