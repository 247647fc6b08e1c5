//! Reads cpio archives in the "newc" format (Linux's
//! `Documentation/driver-api/early-userspace/buffer-format.rst`), as boot loaders pass them to a
//! kernel: one archive or several in a row, with zeroes between them.
//!
//! Existing crates either need `std` or checksum every byte of every file, which this format does
//! not require, and end silently at a damaged archive. This one reads only headers and names.
#![no_std]
#![forbid(unsafe_code)]

/// One file of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member<'a> {
    /// Its path: any bytes except zero.
    pub name: &'a [u8],
    /// Its content, or a symbolic link's target.
    pub content: &'a [u8],
    /// The inode number in the archived file system.
    pub inode: u32,
    /// Type and permissions.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// The number of names of the inode. If there are several, only the last one in the archive has
    /// the content.
    pub links: u32,
    /// Seconds since 1970.
    pub modified: u32,
    /// The device that contained the inode.
    pub device: (u32, u32),
    /// The device number, for a device node.
    pub rdev: (u32, u32),
}

/// The archive is invalid from this byte on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged(pub usize);

/// The members of an archive in order, up to the first damage.
pub struct Members<'a> {
    archive: &'a [u8],
    at: usize,
}

/// Starts to read `archive`.
pub fn members(archive: &[u8]) -> Members<'_> {
    Members { archive, at: 0 }
}

/// The size of a header: the magic number and 13 fields of eight hexadecimal digits.
const HEADER: usize = 6 + 13 * 8;
const MAGIC: &[u8] = b"070701";
/// The name of the member that ends an archive.
const TRAILER: &[u8] = b"TRAILER!!!";

impl<'a> Members<'a> {
    /// The member at the current position, and the start of the next one.
    fn read(&self) -> Option<(Member<'a>, usize)> {
        let header = self.archive.get(self.at..self.at + HEADER)?;
        let mut fields = [0; 13];
        for (value, digits) in fields
            .iter_mut()
            .zip(header.strip_prefix(MAGIC)?.chunks_exact(8))
        {
            *value = u32::from_str_radix(core::str::from_utf8(digits).ok()?, 16).ok()?;
        }
        let [
            inode,
            mode,
            uid,
            gid,
            links,
            modified,
            size,
            major,
            minor,
            rmajor,
            rminor,
            name,
            _,
        ] = fields;
        let name_start = self.at + HEADER;
        let name_end = name_start.checked_add(name as usize)?;
        let start = name_end.checked_next_multiple_of(4)?;
        let end = start.checked_add(size as usize)?;
        let member = Member {
            name: self.archive.get(name_start..name_end)?.strip_suffix(&[0])?,
            content: self.archive.get(start..end)?,
            inode,
            mode,
            uid,
            gid,
            links,
            modified,
            device: (major, minor),
            rdev: (rmajor, rminor),
        };
        Some((member, end.checked_next_multiple_of(4)?))
    }

    /// Skips the zeroes between two archives; false at the end.
    fn skip_padding(&mut self) -> bool {
        let rest = self.archive.get(self.at..).unwrap_or_default();
        match rest.iter().position(|&byte| byte != 0) {
            Some(zeroes) => self.at += zeroes,
            None => self.at = self.archive.len(),
        }
        self.at < self.archive.len()
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = Result<Member<'a>, Damaged>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.skip_padding() {
            let Some((member, next)) = self.read() else {
                let at = core::mem::replace(&mut self.at, self.archive.len());
                return Some(Err(Damaged(at)));
            };
            self.at = next;
            if member.name != TRAILER {
                return Some(Ok(member));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::{format, vec::Vec};

    fn add(archive: &mut Vec<u8>, name: &str, mode: u32, content: &[u8]) {
        let (size, len) = (content.len(), name.len() + 1);
        let fields = [7, mode, 1, 2, 1, 99, size as u32, 3, 4, 5, 6, len as u32, 0];
        archive.extend(MAGIC);
        fields
            .iter()
            .for_each(|field| archive.extend(format!("{field:08X}").bytes()));
        archive.extend(name.bytes().chain([0]));
        archive.resize(archive.len().next_multiple_of(4), 0);
        archive.extend(content);
        archive.resize(archive.len().next_multiple_of(4), 0);
    }

    fn archive() -> Vec<u8> {
        let mut archive = Vec::new();
        add(&mut archive, "a", 0o100644, b"hello");
        add(&mut archive, "dir/link", 0o120777, b"../a");
        add(&mut archive, "TRAILER!!!", 0, b"");
        archive
    }

    #[test]
    fn members_of_one_archive_and_of_several() {
        let one = archive();
        let read: Vec<_> = members(&one).map(|member| member.unwrap()).collect();
        let names: Vec<_> = read
            .iter()
            .map(|member| (member.name, member.content))
            .collect();
        assert_eq!(names, [(&b"a"[..], &b"hello"[..]), (b"dir/link", b"../a")]);
        assert_eq!(
            (read[0].mode, read[0].uid, read[0].gid, read[0].modified),
            (0o100644, 1, 2, 99)
        );
        assert_eq!(
            (read[1].device, read[1].rdev, read[1].inode),
            ((3, 4), (5, 6), 7)
        );
        let several = [&one[..], &[0; 512], &one].concat();
        assert_eq!(members(&several).filter(|member| member.is_ok()).count(), 4);
    }

    #[test]
    fn an_empty_archive_has_no_members() {
        assert!(members(b"").next().is_none() && members(&[0; 64]).next().is_none());
    }

    #[test]
    fn damage_is_told_once_and_ends_it() {
        let whole = archive();
        for at in [0, 3, 6, 60, 113] {
            let mut damaged = whole.clone();
            damaged[at] = b'#';
            let results: Vec<_> = members(&damaged).collect();
            let errors = results.iter().filter(|result| result.is_err()).count();
            assert!(
                errors <= 1
                    && results
                        .last()
                        .is_some_and(|last| last.is_err() || at == 113),
                "{at}"
            );
        }
        for len in 0..whole.len() {
            assert!(members(&whole[..len]).count() <= 3);
        }
        assert_eq!(members(b"garbage").next(), Some(Err(Damaged(0))));
    }

    #[test]
    fn no_mutation_makes_it_panic() {
        let whole = archive();
        let mut state = 1u64;
        for _ in 0..20_000 {
            let mut damaged = whole.clone();
            for _ in 0..3 {
                state = state
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                let at = (state >> 33) as usize % damaged.len();
                damaged[at] = b"0Ff79\0\xff+"[(state >> 60) as usize % 8];
            }
            assert!(members(&damaged).count() < 64);
        }
    }
}
