//! A file system on /dev/vda whose bytes are changed at random, mounted in the folder `m`, and
//! used: whatever happens, the kernel survives, and the disk can be unmounted.

use std::ffi::CStr;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

use libc::{MS_NODEV, MS_NOEXEC, MS_NOSUID};

use crate::{path, tell};

/// Rounds on an ext4 and on an EROFS.
const ROUNDS: [usize; 2] = [200, 50];
/// The bytes that are changed and restored: all that the test has put on the disk.
const BYTES: usize = 4 << 20;
/// The maximum number of files that are used in a round.
const MOST: usize = 200;

/// Pseudo-random numbers, the same in every run (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % end
    }
}

/// Runs this part on an ext4 or an EROFS; `seed` selects the changes.
pub fn run(seed: u64, kind: &str) {
    let (kind, options, rounds) = match kind {
        "erofs" => (c"erofs", c"", ROUNDS[1]),
        _ => (c"ext4", c"errors=continue", ROUNDS[0]),
    };
    let disk = OpenOptions::new().read(true).write(true).open("/dev/vda");
    let disk = disk.expect("the disk");
    let mut sound = vec![0; BYTES];
    disk.read_exact_at(&mut sound, 0).expect("its content");
    // The places that hold data.
    let places: Vec<usize> = (0..BYTES).filter(|&at| sound[at] != 0).collect();
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ seed);
    for round in 0..rounds {
        let mut bytes = sound.clone();
        for _ in 0..1 + random.below(12) {
            let at = (places[random.below(places.len())] + random.below(5)).min(BYTES - 1);
            bytes[at] = match random.below(4) {
                0 => 0,
                1 => 0xff,
                2 => bytes[at] ^ 1 << random.below(8),
                _ => random.below(256) as u8,
            };
        }
        disk.write_all_at(&bytes, 0)
            .expect("a disk that is written");
        disk.sync_all().expect("a disk that is written");
        if !mount(kind, options) {
            continue;
        }
        let mut left = MOST;
        read(Path::new("m"), &mut left);
        _ = write(&mut random);
        // SAFETY: the name is NUL-terminated.
        if unsafe { libc::umount2(path(c"m"), 0) } != 0 {
            println!("round {round}:");
            tell("umount", -1);
            return;
        }
    }
    disk.write_all_at(&sound, 0)
        .expect("a disk that is written");
    println!("all rounds");
}

fn mount(kind: &'static CStr, options: &CStr) -> bool {
    let flags = MS_NODEV | MS_NOEXEC | MS_NOSUID;
    let options = options.as_ptr().cast();
    // SAFETY: the names are NUL-terminated.
    let done = unsafe { libc::mount(path(c"/dev/vda"), path(c"m"), path(kind), flags, options) };
    done == 0
}

/// Reads all files as far as possible.
fn read(folder: &Path, left: &mut usize) {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries.take(MOST) {
            if *left == 0 {
                return;
            }
            *left -= 1;
            let Ok(entry) = entry else { break };
            let place = entry.path();
            let Ok(found) = fs::symlink_metadata(&place) else {
                continue;
            };
            _ = fs::read_link(&place);
            attributes(&place);
            if found.is_dir() {
                folders.push(place);
            } else if found.is_file() {
                let Ok(file) = File::open(&place) else {
                    continue;
                };
                let mut file = file.take(1 << 16);
                _ = file.read_to_end(&mut Vec::new());
                _ = file
                    .get_ref()
                    .read_at(&mut [0; 100], found.len().saturating_sub(50));
            }
        }
    }
}

fn attributes(place: &Path) {
    let Ok(name) = std::ffi::CString::new(place.as_os_str().as_bytes()) else {
        return;
    };
    let mut list = [0u8; 1024];
    // SAFETY: the names are NUL-terminated, and the buffers have these sizes.
    unsafe {
        libc::llistxattr(name.as_ptr(), list.as_mut_ptr().cast(), list.len());
        libc::lgetxattr(name.as_ptr(), c"user.one".as_ptr(), null_mut(), 0);
    }
}

/// Changes files as far as possible.
fn write(random: &mut Random) -> std::io::Result<()> {
    let names: Vec<PathBuf> = fs::read_dir("m")?
        .take(MOST)
        .flatten()
        .map(|entry| entry.path())
        .collect();
    for name in &names {
        if !fs::symlink_metadata(name).is_ok_and(|found| found.is_file()) {
            continue;
        }
        let Ok(file) = OpenOptions::new().write(true).open(name) else {
            continue;
        };
        let at = random.below(1 << 20) as u64;
        _ = file.write_all_at(&[7; 5000], at);
        _ = file.set_len(random.below(1 << 20) as u64);
        _ = file.sync_data();
    }
    for index in 0..20 {
        let name = format!("m/folder/new{index}");
        if let Ok(mut file) = File::create(&name) {
            _ = file.write_all(&[8; 3000]);
        }
        _ = fs::rename(&name, format!("m/renamed{index}"));
    }
    _ = fs::create_dir("m/made");
    for name in names.iter().filter(|_| random.below(2) == 0) {
        _ = fs::remove_file(name);
    }
    _ = fs::remove_dir_all("m/folder");
    Ok(())
}
