//! The checksums of the format: CRC-32C (`metadata_csum`, the journal) and CRC-16 (`uninit_bg`).
//! Both start from the caller's value and are not inverted at the end, like Linux's `crc32c_le` and
//! `crc16`.

use crc::{CRC_16_ARC, CRC_32_ISCSI, Crc, Table};

static CRC32C: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);
static CRC16: Crc<u16> = Crc::<u16>::new(&CRC_16_ARC);

/// CRC-32C of `bytes`, continuing `crc`; `!0` to start.
pub fn crc32c(crc: u32, bytes: &[u8]) -> u32 {
    // The crate expects the register's bits in the order of the polynomial.
    let mut digest = CRC32C.digest_with_initial(crc.reverse_bits());
    digest.update(bytes);
    !digest.finalize()
}

/// CRC-16 of `bytes`, continuing `crc`; `!0` to start.
pub fn crc16(crc: u16, bytes: &[u8]) -> u16 {
    let mut digest = CRC16.digest_with_initial(crc.reverse_bits());
    digest.update(bytes);
    digest.finalize()
}

#[cfg(test)]
mod tests {
    use super::{crc16, crc32c};

    #[test]
    fn check_values_of_the_catalogue() {
        assert_eq!(!crc32c(!0, b"123456789"), 0xe306_9283);
        assert_eq!(crc16(0, b"123456789"), 0xbb3d);
    }
}
