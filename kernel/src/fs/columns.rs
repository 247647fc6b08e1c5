//! The beginning of a line in columns, with numbers that are formatted in place. Files such as
//! `/proc/PID/maps` have thousands of such lines, for which `core::fmt` is too slow (compare
//! Linux's seq_put_decimal_ull and seq_printf).

/// The maximum length of a beginning: the rest is cut off.
const LONGEST: usize = 128;

/// The beginning of a line.
pub struct Columns {
    bytes: [u8; LONGEST],
    len: usize,
}

impl Columns {
    /// An empty beginning.
    pub const fn new() -> Self {
        Columns {
            bytes: [b' '; LONGEST],
            len: 0,
        }
    }

    /// The bytes added so far.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Adds bytes.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) -> &mut Self {
        let end = (self.len + bytes.len()).min(LONGEST);
        let place = &mut self.bytes[self.len..end];
        place.copy_from_slice(&bytes[..place.len()]);
        self.len = end;
        self
    }

    /// Adds blanks up to `width` columns.
    pub fn pad_to(&mut self, width: usize) -> &mut Self {
        // Bytes beyond the length are still blank.
        self.len = self.len.max(width.min(LONGEST));
        self
    }

    /// Adds a number in hexadecimal, with leading zeroes up to `least` digits.
    pub fn hex(&mut self, value: u64, least: usize) -> &mut Self {
        let digits = (u64::BITS - value.leading_zeros()).div_ceil(4);
        let digits = (digits as usize).max(least).min(LONGEST - self.len);
        let mut left = value;
        for byte in self.bytes[self.len..][..digits].iter_mut().rev() {
            *byte = b"0123456789abcdef"[left as usize % 16];
            left /= 16;
        }
        self.len += digits;
        self
    }

    /// Adds a number in decimal.
    pub fn decimal(&mut self, value: u64) -> &mut Self {
        self.right(value, 1)
    }

    /// Adds a number in decimal, with leading blanks up to `width` columns.
    pub fn right(&mut self, value: u64, width: usize) -> &mut Self {
        let mut digits = [b' '; 20];
        let (mut left, mut at) = (value, digits.len());
        loop {
            at -= 1;
            digits[at] = b'0' + (left % 10) as u8;
            left /= 10;
            if left == 0 {
                break;
            }
        }
        let first = at.min(digits.len().saturating_sub(width));
        self.push(&digits[first..])
    }
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn columns_are_as_those_of_fmt() {
        extern crate alloc;
        use alloc::format;
        for value in [0, 1, 9, 10, 0xff, 0x1_0000, 4_096_000, u64::MAX] {
            let mut columns = Columns::new();
            columns.hex(value, 8).push(b"-").decimal(value).push(b" ").right(value, 8);
            let text = format!("{value:08x}-{value} {value:>8}");
            assert_eq!(columns.bytes(), text.as_bytes());
            columns.pad_to(80).push(b"x");
            assert_eq!(columns.bytes(), format!("{text:<80}x").as_bytes());
        }
        let mut columns = Columns::new();
        (0..20).for_each(|_| _ = columns.push(b"0123456789").hex(1, 2).decimal(7).pad_to(3));
        assert_eq!(columns.bytes().len(), LONGEST);
    }
}
