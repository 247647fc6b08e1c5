//! The checksums of the format: CRC-32C (`metadata_csum`, the journal) and CRC-16 (`uninit_bg`).
//! Both start from what the caller gives and are not inverted at the end, as Linux's `crc32c_le`
//! and `crc16`.

const CRC32C: u32 = 0x82f6_3b78;
const CRC16: u16 = 0xa001;

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut at = 0;
    while at < 256 {
        let mut crc = at as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { CRC32C } else { 0 };
            bit += 1;
        }
        tables[0][at] = crc;
        at += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut at = 0;
        while at < 256 {
            let below = tables[table - 1][at];
            tables[table][at] = below >> 8 ^ tables[0][(below & 0xff) as usize];
            at += 1;
        }
        table += 1;
    }
    tables
}

/// What a byte contributes that stands so many bytes before the end of eight.
static TABLES: [[u32; 256]; 8] = tables();

/// CRC-32C of `bytes` after what `crc` already covers; `!0` to begin.
pub fn crc32c(mut crc: u32, bytes: &[u8]) -> u32 {
    let (eights, rest) = bytes.as_chunks::<8>();
    for eight in eights {
        let word = u64::from_le_bytes(*eight) ^ u64::from(crc);
        crc = 0;
        for (place, byte) in word.to_le_bytes().into_iter().enumerate() {
            crc ^= TABLES[7 - place][byte as usize];
        }
    }
    for &byte in rest {
        crc = crc >> 8 ^ TABLES[0][((crc ^ u32::from(byte)) & 0xff) as usize];
    }
    crc
}

/// CRC-16 of `bytes` after what `crc` already covers; `!0` to begin.
pub fn crc16(mut crc: u16, bytes: &[u8]) -> u16 {
    for &byte in bytes {
        crc ^= u16::from(byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { CRC16 } else { 0 };
        }
    }
    crc
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
