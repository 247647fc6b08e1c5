//! SipHash-2-4, the keyed hash of initial sequence numbers and SYN cookies, as in Linux.

use core::hash::Hasher;

use siphasher::sip::SipHasher24;

/// 128 secret bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key(pub [u64; 2]);

/// The hash of a few words under `key`.
pub fn hash(key: Key, words: &[u64]) -> u64 {
    let Key([low, high]) = key;
    let mut hasher = SipHasher24::new_with_keys(low, high);
    for word in words {
        hasher.write(&word.to_le_bytes());
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first words of the key and of the messages are the bytes 0, 1, 2 and so on: the test
    /// vectors of SipHash's authors for 0 and 8 bytes.
    #[test]
    fn vectors() {
        let key = Key([0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908]);
        assert_eq!(hash(key, &[]), 0x726f_db47_dd0e_0e31);
        assert_eq!(hash(key, &[0x0706_0504_0302_0100]), 0x93f5_f579_9a93_2462);
    }
}
