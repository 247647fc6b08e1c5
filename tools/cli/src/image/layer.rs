//! A layer's blob: verifies and decompresses it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};

use super::archive::{self, Entry};
use super::digest::{Digest, Digesting};
use super::source::Source;
use super::tree::MOST_MEMORY;

/// The maximum size of all layers of an image, decompressed.
pub const MOST_BYTES: u64 = 64 << 30;

/// A layer of an image.
#[derive(Debug)]
pub struct Layer {
    /// The name of its blob in the image.
    pub name: String,
    /// The digest and the size of the blob, where the image states them.
    pub blob: Option<(Digest, u64)>,
    /// How the blob is compressed, where the image states it.
    pub compression: Option<Compression>,
    /// The digest of the tar archive in it.
    pub content: Digest,
}

/// How a blob is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip, of one or more members.
    Gzip,
    /// Zstandard, of one or more frames.
    Zstd,
}

impl Layer {
    /// Writes the layer's tar archive to a file, and takes its size off `budget`.
    pub fn unpack(&self, source: &Source, to: &Path, budget: &mut u64) -> Result<()> {
        let (blob, size) = source.file(&self.name)?;
        if let Some((_, stated)) = self.blob
            && stated != size
        {
            bail!("it has {size} bytes instead of {stated}");
        }
        let mut blob = Digesting::new(BufReader::with_capacity(1 << 16, blob));
        let file = File::create(to).with_context(|| to.display().to_string())?;
        let mut content = Digesting::new(Budgeted {
            to: BufWriter::with_capacity(1 << 16, file),
            budget,
        });
        let compression = match self.compression {
            Some(compression) => compression,
            None => Compression::of(blob.fill_buf()?),
        };
        let decompressed =
            decompress(compression, &mut blob, &mut content).and_then(|()| Ok(content.flush()?));
        if let Some((digest, _)) = self.blob {
            // A blob that cannot be decompressed may simply be damaged.
            io::copy(&mut blob, &mut io::sink())?;
            check("its", digest, blob.digest())?;
        }
        decompressed?;
        check("its content's", self.content, content.digest())
    }
}

fn check(whose: &str, stated: Digest, found: Digest) -> Result<()> {
    match stated == found {
        true => Ok(()),
        false => bail!("it is damaged: {whose} digest is {found}, not {stated}"),
    }
}

/// The entries of a layer's tar archive.
pub fn entries(file: &Path) -> Result<Vec<Entry>> {
    let (mut entries, mut weight) = (Vec::new(), 0);
    archive::read(&File::open(file)?, |entry| {
        weight += entry.weight();
        entries.push(entry);
        match weight > MOST_MEMORY {
            true => bail!("there are too many files in the layer"),
            false => Ok(()),
        }
    })?;
    Ok(entries)
}

impl Compression {
    /// That of a blob that begins with these bytes.
    fn of(start: &[u8]) -> Self {
        match start {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            _ => Self::None,
        }
    }
}

fn decompress(how: Compression, from: &mut impl BufRead, to: &mut impl Write) -> Result<()> {
    let reason = || "it cannot be decompressed";
    match how {
        Compression::None => _ = io::copy(from, to)?,
        Compression::Gzip => {
            copy(&mut MultiGzDecoder::new(from), to, reason)?;
        }
        Compression::Zstd => {
            while !from.fill_buf()?.is_empty() {
                match StreamingDecoder::new(&mut *from) {
                    Ok(mut frame) => copy(&mut frame, to, reason)?,
                    Err(error) => skip(from, error).with_context(reason)?,
                }
            }
        }
    }
    Ok(())
}

/// Copies everything; `reason` is that of an error of the reader alone.
fn copy(from: &mut impl Read, to: &mut impl Write, reason: fn() -> &'static str) -> Result<()> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => to.write_all(&buffer[..length])?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error).with_context(reason),
        }
    }
}

/// Skips a frame without content.
fn skip(from: &mut impl Read, error: FrameDecoderError) -> Result<()> {
    let FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. }) =
        error
    else {
        return Err(error.into());
    };
    let length = u64::from(length);
    match io::copy(&mut from.take(length), &mut io::sink())? == length {
        true => Ok(()),
        false => bail!("its last frame is not whole"),
    }
}

/// A file that may not grow beyond a budget.
struct Budgeted<'a> {
    to: BufWriter<File>,
    budget: &'a mut u64,
}

impl Write for Budgeted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        *self.budget = self.budget.checked_sub(written as u64).ok_or_else(|| {
            io::Error::other(format!("the image is larger than {} GiB", MOST_BYTES >> 30))
        })?;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpacked(how: Compression, blob: &[u8]) -> Result<Vec<u8>> {
        let mut to = Vec::new();
        decompress(how, &mut &*blob, &mut to)?;
        Ok(to)
    }

    #[test]
    fn parts_of_a_blob_follow_each_other() {
        let gzip = |bytes: &[u8]| {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(bytes).unwrap();
            gzip.finish().unwrap()
        };
        let two = [gzip(b"one"), gzip(b"two")].concat();
        assert_eq!(unpacked(Compression::of(&two), &two).unwrap(), b"onetwo");
        assert!(unpacked(Compression::Gzip, &two[..two.len() - 3]).is_err());

        let zstd = |bytes: &[u8]| {
            let level = ruzstd::encoding::CompressionLevel::Fastest;
            ruzstd::encoding::compress_to_vec(bytes, level)
        };
        let skipped = |length: u32, bytes: &[u8]| {
            [&0x184d_2a50u32.to_le_bytes(), &length.to_le_bytes(), bytes].concat()
        };
        let three = [zstd(b"one"), skipped(3, b"gap"), zstd(b"two")].concat();
        assert_eq!(
            unpacked(Compression::of(&three), &three).unwrap(),
            b"onetwo"
        );
        assert!(unpacked(Compression::Zstd, &three[..three.len() - 3]).is_err());
        assert!(unpacked(Compression::Zstd, &skipped(3, b"ga")).is_err());
        assert_eq!(
            unpacked(Compression::of(b"plain"), b"plain").unwrap(),
            b"plain"
        );
    }
}
