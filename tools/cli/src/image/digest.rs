//! SHA-256 digests: their names in an image, and readers and writers that compute them.

use std::fmt;
use std::io::{self, BufRead, Read, Write};

use anyhow::{Result, bail};
use sha2::{Digest as _, Sha256};

/// The only algorithm that images use in practice.
const ALGORITHM: &str = "sha256:";

/// The SHA-256 digest of a blob.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The digest that an image names as `sha256:…`.
    pub fn parse(text: &str) -> Result<Self> {
        match text.strip_prefix(ALGORITHM).and_then(Self::from_hex) {
            Some(digest) => Ok(digest),
            None => bail!("{text:?} is not a SHA-256 digest"),
        }
    }

    /// The digest with these 64 lower-case digits.
    pub fn from_hex(digits: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        let lower = |digit: u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit);
        if digits.len() != 64 || !digits.bytes().all(lower) {
            return None;
        }
        for (byte, at) in bytes.iter_mut().zip((0..).step_by(2)) {
            *byte = u8::from_str_radix(&digits[at..at + 2], 16).ok()?;
        }
        Some(Self(bytes))
    }

    /// Its digits.
    pub fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        write!(to, "{ALGORITHM}{}", self.hex())
    }
}

/// Bytes on their way, and their digest so far.
pub struct Digesting<T> {
    inner: T,
    digest: Sha256,
}

impl<T> Digesting<T> {
    /// Nothing so far.
    pub fn new(inner: T) -> Self {
        let digest = Sha256::new();
        Self { inner, digest }
    }

    /// The digest of all bytes that passed.
    pub fn digest(self) -> Digest {
        Digest(self.digest.finalize().into())
    }
}

impl<T: BufRead> Read for Digesting<T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        self.digest.update(&buffer[..length]);
        Ok(length)
    }
}

impl<T: BufRead> BufRead for Digesting<T> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, length: usize) {
        if let Ok(bytes) = self.inner.fill_buf() {
            self.digest.update(&bytes[..length]);
        }
        self.inner.consume(length);
    }
}

impl<T: Write> Write for Digesting<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = self.inner.write(bytes)?;
        self.digest.update(&bytes[..length]);
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_digests_are_digests() {
        let empty = Digest::of(b"");
        let text = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(empty.to_string(), text);
        assert_eq!(Digest::parse(text).unwrap(), empty);
        for wrong in [
            "",
            "sha256:",
            "sha256:../../../etc/passwd",
            &text[..70],
            &text.to_uppercase(),
            &format!("{text}0"),
            &text.replace("sha256", "sha512"),
            &text.replace("e3", "é"),
        ] {
            assert!(Digest::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_passes_is_digested() {
        let mut reader = Digesting::new(&b"hello"[..]);
        reader.read_exact(&mut [0; 2]).unwrap();
        io::copy(&mut reader, &mut io::sink()).unwrap();
        assert_eq!(reader.digest(), Digest::of(b"hello"));
        let mut reader = Digesting::new(&b"hello"[..]);
        assert_eq!(reader.fill_buf().unwrap(), b"hello");
        reader.consume(5);
        assert_eq!(reader.digest(), Digest::of(b"hello"));
    }
}
